"""The errors that tune-vfl raises on purpose: each says what was expected, what was got and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `` Did you mean 'X'?`` with the known name nearest to ``name``; nothing where none is near."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean {near[0]!r}?" if near else ""


def shortened(parts: Sequence[str], most: int = 20, joint: str = ", ") -> str:
    """Join the first of some words or sentences, and say how many more there are.

    >>> shortened(["age", "sex", "income"], 2)
    'age, sex, and 1 more'
    """
    more = [f"and {len(parts) - most} more"] if len(parts) > most else []
    return joint.join([*parts[:most], *more])


class TuneVflError(Exception):
    """Base of every error raised on purpose.

    Attributes:
        exit_code: what the command line ends with.
        anchor: the heading of docs/errors.md that says what errors of this class mean.
    """

    exit_code = 1
    anchor: ClassVar[str] = "failed"


class InputError(TuneVflError):
    """Base of errors of input that cannot be used: a spec, an option, a file, the name of a study."""

    exit_code = 2


class SpecError(InputError):
    """A spec, a parameter or a combination of methods that cannot be run.

    Args:
        problems: every problem found, one sentence each; all are shown at once.
        unfit: by an attack's name those of ``problems`` that are gone without the attack.
    """

    anchor = "invalid-spec"

    def __init__(self, problems: str | Iterable[str], unfit: Mapping[str, Sequence[str]] | None = None) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        self.unfit = dict(unfit or {})
        super().__init__("\n".join(self.problems))


class UnknownNameError(SpecError):
    """An unknown name. The message lists the known names and the nearest one.

    Args:
        kind: what was looked up, in the singular.
        name: the name as given.
        known: the names that there are.
    """

    anchor = "unknown-name"

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, list(known)
        super().__init__(f"unknown {kind} {name!r}.{did_you_mean(name, self.known)} Known: {', '.join(self.known)}.")


class UsageError(InputError):
    """A call or an option that cannot be followed as it stands.

    A step that the caller's own loop left out, an argument outside its range, options that exclude each other.
    """

    anchor = "usage"


class ShapeError(InputError):
    """Tensors or arrays whose shapes do not fit each other, or what is to be computed from them."""

    anchor = "shapes"


class UnwritableError(InputError):
    """A file or a folder that cannot be written. Names the place."""

    anchor = "unwritable"


class ConfigError(InputError):
    """A file that is not an exported configuration of a schema known here. Names the file and every problem."""

    anchor = "no-exported-setting"


class SelectionError(InputError):
    """A point or an attack that a study does not hold: no point of its front meets the condition."""

    anchor = "nothing-to-select"


class DataError(InputError):
    """A data file that is missing, broken or does not fit its description. Names the file and the column."""

    anchor = "data"


class StudyError(InputError):
    """A study that does not exist, or exists with another spec."""

    anchor = "study"


class ParcelError(InputError):
    """A file that is not a packed study of a schema known here, or is damaged. Names the file and what is wrong."""

    anchor = "packed-study"


class UnreachableError(TuneVflError):
    """A cluster, a database or a tracking server that does not answer."""

    exit_code = 4
    anchor = "unreachable"


class OtherDataError(TuneVflError):
    """A machine with other data, or another version of this package, than the study that it is to work for."""

    exit_code = 4
    anchor = "other-machine"


class NotGrantedError(TuneVflError):
    """An attack asked its view for something that its threat model does not grant."""

    anchor = "not-granted"
