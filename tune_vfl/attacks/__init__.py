"""Attacks: one method, one file. Import the classes from here: ``from tune_vfl.attacks import Norm``."""

from __future__ import annotations

from typing import Any

from tune_vfl.attacks.base import ATTACKS, Attack, AttackCapabilities, AuxiliaryRequest, TargetRequest, attack
from tune_vfl.protocol.view import Answer, Auxiliary, Reconstruction, Recording, View
from tune_vfl.registry import class_by_name, class_names

__all__ = [
    "ATTACKS",
    "Answer",
    "Attack",
    "AttackCapabilities",
    "Auxiliary",
    "AuxiliaryRequest",
    "Reconstruction",
    "Recording",
    "TargetRequest",
    "View",
    "attack",
]


def __getattr__(name: str) -> Any:
    return class_by_name(ATTACKS, name)


def __dir__() -> list[str]:
    return [*__all__, *class_names(ATTACKS)]
