"""Defenses: one method, one file. Import the classes from here: ``from tune_vfl.defenses import Marvell``."""

from __future__ import annotations

from typing import Any

from tune_vfl.defenses.base import DEFENSES, Defense, DefenseCapabilities, defense
from tune_vfl.registry import class_by_name, class_names

__all__ = ["DEFENSES", "Defense", "DefenseCapabilities", "defense"]


def __getattr__(name: str) -> Any:
    return class_by_name(DEFENSES, name)


def __dir__() -> list[str]:
    return [*__all__, *class_names(DEFENSES)]
