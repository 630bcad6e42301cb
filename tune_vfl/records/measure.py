"""Checks of the measure: numbers of different measures are never compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tune_vfl.errors import StudyError, shortened
from tune_vfl.spec.cell import MEASURE

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


def other_code(versions: Sequence[Mapping[str, str]] | None, now: Mapping[str, str]) -> list[str]:
    """Return the source files that differ from those that measured a study last, each with how it differs.

    Args:
        versions: the digests of source files by module, a mapping a version of the code, the latest last; None of a
            study of an earlier release, which kept none.
        now: those of today.
    """
    last = versions[-1] if versions else now
    states = {
        **{name: "changed" for name, digest in now.items() if last.get(name, digest) != digest},
        **{name: "new" for name in now if name not in last},
        **{name: "gone" for name in last if name not in now},
    }
    return [f"{name} ({state})" for name, state in sorted(states.items())]


def refuse_other_code(study: str, differing: Sequence[str]) -> None:
    """Refuse to add numbers of other code to a study.

    Raises:
        StudyError: with the files, and the ways on.
    """
    if differing:
        raise StudyError(
            f"study {study!r} was measured by other code: {shortened(differing, 8)}. Its numbers and new ones may not "
            "be comparable. Put these files back; or measure all of it again under another name (--name NEW); or, "
            "where you know that they change no number, go on with --other-code"
        )
