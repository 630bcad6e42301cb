"""The form of a paper's file: its tables, their rows, and the evaluation that measures each row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from tune_vfl.papers.measured import OWN, names_in
from tune_vfl.papers.published import PublishedNumber, read_published
from tune_vfl.spec import Strict
from tune_vfl.spec.raw import apply_settings

NOT_REPORTED = "-"
ALL = "*"

Trust = Literal["H", "M", "L"]


def _by_column(value: Any) -> Any:
    return value if isinstance(value, Mapping) else {ALL: value}


def _by_bar(value: Any) -> Any:
    return [part.strip() for part in value.split("|")] if isinstance(value, str) else value


Cells = Annotated[tuple[str, ...], BeforeValidator(_by_bar)]
"""The published numbers of a row, a column each, as the paper prints them: ``.93 | .56±.04 | -``."""
Reasons = Annotated[dict[str, str], BeforeValidator(_by_column)]
"""One sentence for all columns, or one by column."""
Trusted = Annotated[dict[str, Trust], BeforeValidator(_by_column)]
"""How far published numbers can be a target: H usable, M with a caveat, L suspect; for all columns, or by column."""


class Grounds(Strict):
    """Facts of a data set that decide whether numbers measured on it can be judged at all.

    Attributes:
        chance: the utility of a model that has learned nothing; None where nothing is checked.
        steps: of a training, ``ours`` and the ``paper``'s, where ours is shorter.
        unknown: the paper's rows are unknown, and those here are of another data set.
    """

    chance: float | None = None
    steps: dict[Literal["ours", "paper"], int] = Field(default_factory=dict)
    unknown: bool = False


class Data(Strict):
    """The evaluation of a paper's rows on one data set.

    Attributes:
        settings: ``PATH=VALUE`` settings of the spec.
        seconds: CPU seconds of one seed, about, until one was measured.
        needs: files or hardware that two cores without downloads do not have.
        unlike: what the evaluation has other than the paper; its verdicts are marked.
        columns: another formula of some columns on these data; null where nothing measures them here.
        cannot: why nothing is measured on them, whatever the machine.
        grounds: whether their numbers can be judged, from the paper's ``judging``.
    """

    settings: tuple[str, ...] = ()
    seconds: float = Field(gt=0)
    needs: str = ""
    unlike: str = ""
    columns: dict[str, str | None] = Field(default_factory=dict)
    cannot: str = ""
    grounds: Grounds = Field(default_factory=Grounds)


class StandIn(Data):
    """Data on which the rows of one data set are measured too, in no other columns than its own ``columns``.

    Attributes:
        rows: the data set of the rows.
        dataset: the other one; its settings come last.
        why: see :class:`Row`.
    """

    rows: str
    dataset: str
    why: Reasons = Field(default_factory=dict)


class Row(Strict):
    """One row of a table.

    Attributes:
        dataset, defense, params, settings: the evaluation; ``settings`` come after those of table and data.
        published: see :data:`Cells`; ``-`` where the paper has none.
        why: the reason why a cell differs, in one sentence.
        note: what the row is, where defense and settings do not say it.
        trust: see :data:`Trusted`.
    """

    dataset: str
    defense: str = "none"
    params: dict[str, Any] = Field(default_factory=dict)
    settings: tuple[str, ...] = ()
    published: Cells
    why: Reasons = Field(default_factory=dict)
    note: str = ""
    trust: Trusted = Field(default_factory=dict)


class Evaluation(Strict):
    """One evaluation of a table, and the published numbers that it is compared with.

    Attributes:
        row: the row, with its published numbers.
        data: how it is evaluated.
        dataset: on what; another one than the row's where that is stood in for.
        raw: the spec, as ``evaluate`` would get it, without seeds.
    """

    row: Row
    data: Data
    dataset: str
    raw: dict[str, Any]

    @property
    def stands_in(self) -> bool:
        """Whether its data are not those of the paper's row."""
        return isinstance(self.data, StandIn)

    @property
    def other_data(self) -> bool:
        """Whether the evaluation uses another data set than the paper; a sample of the paper's is none."""
        return self.dataset != self.row.dataset or self.data.grounds.unknown

    @property
    def place(self) -> str:
        """Its data set, and which one that stands in for: ``criteo``, ``cifar10 on mnist``, ``cifar10 sample``."""
        if not self.stands_in:
            return self.dataset
        return f"{self.dataset} sample" if self.dataset == self.row.dataset else f"{self.row.dataset} on {self.dataset}"

    @property
    def label(self) -> str:
        """Its name within the table."""
        row = self.row
        parts = [row.defense, *(f"{k}={v}" for k, v in row.params.items()), *row.settings]
        return f"{self.place}: {' '.join(parts)}" + (f" ({row.note})" if row.note else "")

    def is_named(self, words: str) -> bool:
        """Whether all words stand in its name, behind its data set."""
        name = self.label.partition(": ")[2]
        return set(words.split()) <= {word.strip("(),") for word in name.split()}


class Table(Strict):
    """A published table or figure.

    Attributes:
        title: what it shows.
        place: where it stands in the paper.
        repeats: over how many repeats its means and deviations are; None where the paper does not say.
        percent: the paper prints percent.
        attacks, settings: what all evaluations share.
        columns: a heading each, and the formula over an evaluation's scores; None where nothing here measures it.
        data: by data set.
        rows: empty where nothing of it can be compared, and then ``reason`` says why.
        instead: data that stand in for those of some rows.
    """

    title: str
    place: str
    repeats: int | None = Field(None, ge=2)
    percent: bool = False
    attacks: tuple[str | dict[str, Any], ...] = ()
    settings: tuple[str, ...] = ()
    columns: dict[str, str | None] = Field(default_factory=dict)
    data: dict[str, Data] = Field(default_factory=dict)
    rows: tuple[Row, ...] = ()
    instead: tuple[StandIn, ...] = ()
    reason: str = ""

    @model_validator(mode="after")
    def _hangs_together(self) -> Table:
        if bool(self.rows) == bool(self.reason):
            raise ValueError("expected rows, or a reason why there are none, and not both")
        used = {row.dataset for row in self.rows}
        own = [*(data for name, data in self.data.items() if name in used), *self.instead]
        for columns in (self.columns, *(data.columns for data in own)):
            known_in(columns, self.columns, "data:")
            self._check_formulas(columns)
        for row in self.rows:
            self._check(row)
        return self

    def _check_formulas(self, columns: Mapping[str, str | None]) -> None:
        attacks = {*OWN, *(a if isinstance(a, str) else str(a.get("name")) for a in self.attacks)}
        for heading, formula in columns.items():
            unknown = sorted({name.split(".")[0] for name in names_in(formula or "0")} - attacks)
            if unknown:
                raise ValueError(f"column {heading!r} measures {', '.join(unknown)}, which its attacks do not")

    def _check(self, row: Row) -> None:
        where = f"{row.dataset}, {row.defense}:"
        if row.dataset not in self.data:
            raise ValueError(f"{where} data has no entry for this data set; it has {', '.join(self.data) or 'none'}")
        if len(row.published) != len(self.columns):
            raise ValueError(f"{where} expected {len(self.columns)} published numbers, one a column")
        for text in row.published:
            if text != NOT_REPORTED:
                read_published(text, percent=self.percent)
        known_in([*row.why, *row.trust], [ALL, *self.columns], where)

    @property
    def evaluations(self) -> list[Evaluation]:
        """The evaluation of every row, each followed by those that stand in for it."""
        return [one for row in self.rows for one in self._evaluations_of(row)]

    def _evaluations_of(self, row: Row) -> Iterator[Evaluation]:
        data = self.data[row.dataset]
        yield Evaluation(row=row, data=data, dataset=row.dataset, raw=self._raw(row, row.dataset, data.settings))
        for other in self.instead:
            if other.rows == row.dataset:
                changed = row.model_copy(update={"why": {**row.why, **other.why}})
                raw = self._raw(row, other.dataset, other.settings)
                yield Evaluation(row=changed, data=other, dataset=other.dataset, raw=raw)

    def _raw(self, row: Row, dataset: str, settings: tuple[str, ...]) -> dict[str, Any]:
        raw: dict[str, Any] = {
            "study": "reproduce",
            "dataset": {"name": dataset},
            "defense": {"name": row.defense, "params": dict(row.params)},
            "attacks": list(self.attacks),
        }
        return apply_settings(raw, [*self.settings, *settings, *row.settings])

    def formulas(self, evaluation: Evaluation) -> dict[str, str]:
        """Return what is measured of an evaluation: a formula by column, for columns with a published number."""
        if evaluation.data.cannot:
            return {}
        own = evaluation.data.columns
        listed = own if evaluation.stands_in else {**self.columns, **own}
        return {heading: f for heading, f in listed.items() if f and self.published(evaluation.row, heading)}

    def published(self, row: Row, heading: str) -> PublishedNumber | None:
        """Return the published number of a row's cell; None where the paper has none."""
        text = row.published[list(self.columns).index(heading)]
        return None if text == NOT_REPORTED else read_published(text, percent=self.percent)


def known_in(given: Any, known: Any, where: str, what: str = "column") -> None:
    """Refuse names that are not among the known ones.

    Raises:
        ValueError: with the place, what is strange, and what is known.
    """
    strange = sorted(set(given) - set(known))
    if strange:
        raise ValueError(f"{where} no such {what}: {', '.join(strange)}; known: {', '.join(known)}")
