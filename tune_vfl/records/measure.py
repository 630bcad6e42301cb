"""Checks of the measure: numbers of different measures are never compared."""

from __future__ import annotations

from collections.abc import Mapping

from tune_vfl.errors import StudyError
from tune_vfl.spec.cell import MEASURE

FIRST = 1
"""The measure of studies without one."""

_AGAIN = (
    "To measure it again, search its spec under another name: `tune-vfl search STUDY.yaml --name NEW`; "
    "`tune-vfl report STUDY` writes STUDY.yaml."
)


def refuse_another(study: str, measure: int) -> None:
    """Refuse to extend a study of another measure than today's.

    Raises:
        StudyError: with the command that measures it again.
    """
    if measure != MEASURE:
        raise StudyError(
            f"study {study!r} has measure {measure}, and what is run today has measure {MEASURE}: one study cannot "
            f"hold both. It is still read, reported and exported as what it is. {_AGAIN}"
        )


def refuse_mixed(measures: Mapping[str, int]) -> None:
    """Refuse to compare studies of different measures.

    Raises:
        StudyError: with each study's measure, and the command that measures the older ones again.
    """
    if len(set(measures.values())) > 1:
        listed = ", ".join(f"{name} has measure {measure}" for name, measure in measures.items())
        raise StudyError(f"studies of different measures cannot be compared: {listed}. {_AGAIN}")
