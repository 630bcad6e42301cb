"""Columns of a setting: JSON answers, frames, files and tables take their names, numbers and texts from here.

``utility`` and ``leakage`` are those of the search. Those of fresh seeds are ``confirmed.utility`` and
``confirmed.leakage`` in frames, and in JSON the object ``confirmation``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, Final, NamedTuple

from tune_vfl.analysis import formatting
from tune_vfl.metrics.published import published
from tune_vfl.spec.cell import qualified

MISSING: Final = object()
"""The value of a column that a row does not have: its key is left out. None is a value that is not known."""

FRESH = "confirmed."
"""Prefix of the columns of a setting's confirmation: ``confirmed.utility`` is its ``utility`` on fresh seeds."""

SPANS = ("utility", "utility_low", "utility_high", "leakage", "leakage_low", "leakage_high")
"""Columns of utility and leakage with the ends of their 90% intervals."""

Get = Callable[[Any], Any]


class Column(NamedTuple):
    """A number or a word of a row.

    A row is a :class:`tune_vfl.analysis.setting.Setting`, the undefended model, or a point of a confirmation.

    Attributes:
        name: its key in JSON and in files; with ``*`` at its end it stands for several keys.
        get: returns its value of a row as plain data, or :data:`MISSING`; with ``*`` the values by key.
        text: returns its text of a row, for a table that people read; None shows the value as it is.
        title: in such a table; ``{metric}`` stands for the utility's metric, a space at the end marks words.
    """

    name: str
    get: Get
    text: Callable[[Any], str] | None = None
    title: str = ""


def _attribute(name: str) -> Column:
    return Column(name, attrgetter(name))


def _objective(name: str, title: str) -> Iterator[Column]:
    """Yield the columns of utility or leakage: the mean, the deviation over the seeds, and the 90% interval."""
    interval = attrgetter(f"{name}_interval")

    def text(row: Any) -> str:
        return formatting.span(getattr(row, name), interval(row), getattr(row, f"{name}_std", None))

    yield Column(name, _of_ok(name), text, title)
    yield Column(f"{name}_std", _of_ok(f"{name}_std"))
    yield Column(f"{name}_interval", lambda row: interval(row) and list(interval(row)))
    yield Column(f"{name}_low", lambda row: interval(row) and interval(row)[0])
    yield Column(f"{name}_high", lambda row: interval(row) and interval(row)[1])


def _of_ok(name: str) -> Get:
    """Return the getter of a number that a failed trial does not have."""
    return lambda row: getattr(row, name) if getattr(row, "ok", True) else None


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _strongest(row: Any) -> str:
    name = row.outcome.strongest
    return f"{name} (too weak)" if name and row.outcome.attacks[name].weak_attack else str(name)


def _without_attacks(row: Any) -> dict[str, str]:
    """Return, as words, the attacks that were left out of a setting, and why."""
    left_out = row.outcome.not_needed.items()
    return {"not_needed": "; ".join(f"{name}: {why}" for name, why in left_out)} if left_out else {}


_LISTED = (
    # Its identity.
    *map(_attribute, ("study", "dataset", "defense", "number", "params")),
    Column("params.*", lambda row: {f"params.{name}": value for name, value in row.params.items()}),
    Column("defense.*", lambda row: {qualified(name): value for name, value in row.params.items()}),
    # How its trial ended.
    Column("outcome", attrgetter("outcome.outcome")),
    Column("reason", attrgetter("outcome.reason")),
    Column("seconds", lambda row: (row.trial.finished - row.trial.started).total_seconds()),
    Column("retry_of", attrgetter("trial.retry_of")),
    # Its numbers, and those of the undefended model.
    *_objective("utility", "{metric}"),
    *_objective("leakage", "leakage"),
    Column(
        "leakage_worst_seed",
        attrgetter("leakage_worst_seed"),
        lambda row: formatting.score(row.leakage_worst_seed),
        "worst seed",
    ),
    Column("undecided", attrgetter("sure.undecided")),
    Column(
        "gain_kept",
        lambda row: MISSING if row.table.alone is None else row.gain_kept,
        lambda row: _share(row.gain_kept),
        "gain kept",
    ),
    Column("attacks", lambda row: {name: score.mean for name, score in row.outcome.attacks.items()}),
    Column("attack.*", lambda row: {f"attack.{name}": score.mean for name, score in row.outcome.attacks.items()}),
    Column("strongest_attack", attrgetter("outcome.strongest"), _strongest, "strongest attack "),
    Column("not_needed", lambda row: row.outcome.not_needed or MISSING),
    Column("not_needed.*", _without_attacks),
    Column("published", lambda row: published(row.outcome)),
    Column(
        "published.*",
        lambda row: {f"{of}.{name}": v for name, found in published(row.outcome).items() for of, v in found.items()},
    ),
    Column("alone", lambda row: MISSING if row.table.alone is None else row.table.alone.utility),
    Column("alone_interval", lambda row: MISSING if row.table.alone is None else list(row.table.alone.interval)),
    _attribute("measure"),
    Column("cost", attrgetter("record.cost")),
    # Its rank among the settings of the data set.
    Column("chance", attrgetter("chance"), lambda row: _share(row.chance), "on the front"),
    *map(_attribute, ("on_front", "rank", "confirmed")),
    # A point of a confirmation.
    Column("confirmation", lambda row: row.again.numbers() if row.confirmed else MISSING),
    *map(_attribute, ("stays", "seeds", "leakage_upper_90")),
    Column("searched.*", lambda row: {f"searched_{name}": value for name, value in row.searched.items()}),
)
COLUMNS = {column.name: column for column in _LISTED}
"""The columns by name."""


def values(row: Any, names: Iterable[str], **more: Any) -> dict[str, Any]:
    """Return a row as plain data.

    Args:
        row: see :class:`Column`.
        names: of the columns, in their order; ``confirmed.NAME`` is the column of the setting's confirmation, None
            where it took part in none.
        more: by name, values that the row alone does not know; their place is that among the names.

    Returns:
        The values by key.
    """
    plain: dict[str, Any] = {}
    for name in names:
        if name in more:
            plain[name] = more[name]
        elif name.endswith("*"):
            plain |= COLUMNS[name].get(row)
        elif name.startswith(FRESH):
            plain[name] = None if row.again is None else COLUMNS[name.removeprefix(FRESH)].get(row.again)
        elif (value := COLUMNS[name].get(row)) is not MISSING:
            plain[name] = value
    return plain


def texts(row: Any, names: Iterable[str]) -> dict[str, str]:
    """Return the texts of a row by column, for a table that people read."""
    shown = [COLUMNS[name] for name in names]
    return {column.name: column.text(row) if column.text else str(column.get(row)) for column in shown}


def titles(names: Iterable[str], metric: str) -> tuple[str, ...]:
    """Return the titles of columns in a table that people read.

    Args:
        names: of the columns.
        metric: of the utility, as a table calls it.
    """
    return tuple(COLUMNS[name].title.format(metric=metric) for name in names)
