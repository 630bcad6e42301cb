"""How a study is measured is part of what it is: numbers of different measures are never put side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tune_vfl.errors import StudyError
from tune_vfl.spec.cell import MEASURE

if TYPE_CHECKING:
    from collections.abc import Mapping

FIRST = 1
"""What a study has that was made before measures were written down."""

_AGAIN = (
    "To measure it again, search its spec under another name: `tune-vfl search STUDY.yaml --name NEW`; "
    "`tune-vfl report STUDY` writes STUDY.yaml."
)


def refuse_another(study: str, measure: int) -> None:
    """Refuse to add to a study that is not measured as studies are today.

    Args:
        study: its name.
        measure: what the ledger says of it.

    Raises:
        StudyError: saying how to measure it again.
    """
    if measure != MEASURE:
        raise StudyError(
            f"study {study!r} has measure {measure}, and what is run today has measure {MEASURE}: one study cannot "
            f"hold both. It is still read, reported and exported as what it is. {_AGAIN}"
        )


def refuse_mixed(measures: Mapping[str, int]) -> None:
    """Refuse to compare studies that are not measured alike.

    Args:
        measures: by the study's name.

    Raises:
        StudyError: naming each study's measure, and saying how to measure the older ones again.
    """
    if len(set(measures.values())) > 1:
        listed = ", ".join(f"{name} has measure {measure}" for name, measure in measures.items())
        raise StudyError(f"studies of different measures cannot be compared: {listed}. {_AGAIN}")
