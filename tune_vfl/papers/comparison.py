"""Published cells beside ours: number, verdict, reason and price of each cell of a table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from tune_vfl.papers.measured import OWN, quantity
from tune_vfl.papers.results import Number, Results
from tune_vfl.papers.tables import ALL
from tune_vfl.papers.verdict import JUDGED, RESOLUTION, Difference, Verdict, difference, error_of, half_width

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tune_vfl.papers.published import PublishedNumber
    from tune_vfl.papers.results import TableResults
    from tune_vfl.papers.tables import Evaluation, Table

Source = Literal["measured", "recorded"]
UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class ComparedNumber:
    """One published number beside ours.

    Attributes:
        evaluation: what measures it.
        heading: its column.
        published: the paper's number.
        ours: our number; None where there is none.
        source: ``measured``: by seed, with today's recipe unless ``stale``; ``recorded``: before, and not again.
        formula: what measures it; nothing where nothing does.
        difference: between both means; None with less than two seeds of ours.
        verdict: that of the difference, or ``other data`` or ``not trained``, which say why nothing is compared; None
            where there is no difference.
        says: why it differs, what would not have been seen, or why there is no verdict.
        remarks: what a reader must know: a stand-in, a suspect number, a stale result.
        stale: recipe or measure have changed since.
        priced: two cores without downloads can measure it, in as long as its price says.
    """

    evaluation: Evaluation
    heading: str
    published: PublishedNumber
    formula: str = ""
    ours: Number | None = None
    difference: Difference | None = None
    source: Source | None = None
    verdict: Verdict | None = None
    says: str = ""
    remarks: tuple[str, ...] = ()
    stale: bool = False
    priced: bool = False

    @property
    def judged(self) -> bool:
        """Whether our number says something of the published one."""
        return self.verdict in JUDGED

    @property
    def data(self) -> str:
        """On what it is measured: the paper's ``own`` data, a ``sample`` or another recipe of them, ``other`` data."""
        return "other" if self.evaluation.other_data else "sample" if self.evaluation.data.unlike else "own"

    def plain(self) -> dict[str, Any]:
        """Return it as plain data, as ``reproduce --json`` prints it."""
        row, published = self.evaluation.row, self.published
        return {
            "evaluation": self.evaluation.label,
            "dataset": self.evaluation.dataset,
            "of": row.dataset,
            "defense": row.defense,
            "params": row.params,
            "column": self.heading,
            "published": {"text": published.text, "mean": published.mean, "std": published.std}
            | {"low": published.low, "high": published.high},
            "ours": None if self.ours is None else self.ours.model_dump(),
            "difference": None if self.ours is None else self.ours.mean - self.published.mean,
            "size": self.difference.size if self.difference and self.judged else None,
            "source": self.source,
            "verdict": self.verdict,
            "says": self.says,
            "remarks": list(self.remarks),
            "trust": row.trust.get(self.heading, row.trust.get(ALL)),
            "stale": self.stale,
        }


def price_of(evaluation: Evaluation, kept: Results | None = None) -> float:
    """Return the CPU seconds of one seed: as measured, else about as much as its file says."""
    spent = [s.seconds for s in kept.seeds.values() if s.seconds] if kept else []
    return sum(spent) / len(spent) if spent else evaluation.data.seconds


def price_text(evaluation: Evaluation, kept: Results | None = None) -> str:
    """Return what a seed costs, and what it needs, in words."""
    seconds = price_of(evaluation, kept)
    time = f"{seconds / 3600:.0f} CPU hours" if seconds > 5400 else f"{max(1, seconds / 60):.0f} CPU min"
    return f"about {time} a seed" + (f"; needs {evaluation.data.needs}" if evaluation.data.needs else "")


def compared(
    table: Table, results: TableResults, refused: Mapping[str, str] | None = None, others: Iterable[Results] = ()
) -> list[ComparedNumber]:
    """Return every cell that has a published number, in the order of the table.

    Args:
        table: the table.
        results: what is kept of it.
        refused: why evaluations were not run, by label.
        others: results of other tables, which may tell whether a recipe learns.
    """
    cells, every = [], [*results.evaluations.values(), *others]
    for evaluation in table.evaluations:
        kept = results.evaluations.get(evaluation.label, Results())
        measured = table.formulas(evaluation)
        untrained = _untrained(evaluation, every)
        for heading in table.columns:
            published = table.published(evaluation.row, heading)
            if published is None or (evaluation.stands_in and heading not in measured):
                continue
            says = evaluation.data.cannot or "nothing here measures it"
            priced = heading in measured and not evaluation.data.needs
            cell = ComparedNumber(evaluation, heading, published, says=says, priced=priced)
            if heading in measured:
                not_run = (refused or {}).get(evaluation.label, "")
                cell = replace(cell, formula=measured[heading])
                cell = _judged(cell, kept, table.repeats, not_run=not_run, untrained=untrained)
            cells.append(cell)
    return cells


def _judged(
    cell: ComparedNumber, kept: Results, repeats: int | None, *, not_run: str, untrained: str
) -> ComparedNumber:
    """Return a cell with our number and the verdict, or with the reason why there is none."""
    ours, source = _ours(kept, cell.heading, cell.formula)
    if ours is None:
        price = "; ".join(part for part in (price_text(cell.evaluation, kept), not_run) if part)
        return replace(cell, says=_failed(kept) or f"not run here: {price}")
    ratio = quantity(cell.formula) == "ratio" and "/" in cell.formula
    found = difference(cell.published, repeats, ours.mean, ours.std, ours.seeds, ratio=ratio)
    verdict: Verdict | None = None if found is None else found.verdict
    if cell.evaluation.other_data or untrained:
        verdict = "other data" if cell.evaluation.other_data else "not trained"
    return replace(
        cell,
        ours=ours,
        difference=found,
        source=source,
        verdict=verdict,
        says=_reason(cell, verdict, found, untrained),
        remarks=_remarks(cell, kept, source),
        stale=source == "measured" and kept.stale(cell.evaluation),
    )


def _untrained(evaluation: Evaluation, every: Iterable[Results]) -> str:
    """Return why numbers of a recipe are not judged; nothing where a model of it has learned, or no result can tell.

    The undefended models decide, or all where none is undefended. One has learned when its utility, on test or training
    rows, is above chance by more than its interval and ``RESOLUTION``. A kept score is that of a training's end:
    whether it was still rising is told by its steps alone.
    """
    grounds = evaluation.data.grounds
    if grounds.chance is None:
        return ""
    same = [one for one in every if one.seeds and _recipe(one.raw) == _recipe(evaluation.raw)]
    deciding = [one for one in same if one.raw["defense"]["name"] == "none"] or same
    reached = [number for one in deciding for score in OWN if (number := one.number(score)) and number.seeds > 1]
    sure = [number.mean - half_width([error_of(number.std, number.seeds)]) for number in reached]
    if not sure or max(sure) > grounds.chance + RESOLUTION:
        return ""
    if grounds.steps:
        return f"{grounds.steps['ours']:,} of the paper's {grounds.steps['paper']:,} steps"
    return f"utility {max(number.mean for number in reached):.2f}, chance {grounds.chance:.2f}"


def _recipe(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if key not in ("defense", "attacks")}


def _reason(cell: ComparedNumber, verdict: Verdict | None, found: Difference | None, untrained: str) -> str:
    """Return what stands beside a verdict: never more of a cause than the paper's file has."""
    if verdict == "not trained":
        return untrained
    if verdict in ("other data", "reproduced"):
        return ""
    if found is None:
        return "one seed has no standard error"
    if not found.away > found.width:
        return f"a difference below {found.width + cell.published.rounding:.2f} would not show"
    why = cell.evaluation.row.why
    return why.get(cell.heading, why.get(ALL, UNEXPLAINED))


def _ours(kept: Results, heading: str, formula: str) -> tuple[Number | None, Source]:
    measured = kept.number(formula)
    if measured is None and kept.recorded is not None:
        return kept.recorded.columns.get(heading), "recorded"
    return measured, "measured"


def _failed(kept: Results) -> str:
    """Return how many seeds ended without scores, and how."""
    failed = Counter(s.outcome for s in kept.seeds.values() if s.outcome != "ok")
    return ", ".join(f"{count} of {len(kept.seeds)} seeds {how}" for how, count in failed.items())


def _remarks(cell: ComparedNumber, kept: Results, source: Source) -> tuple[str, ...]:
    trust, remarks = cell.evaluation.row.trust, []
    if source == "recorded" and kept.recorded:
        remarks.append(f"recorded before, not re-run (measure {kept.recorded.measure}, {kept.recorded.date})")
    elif kept.stale(cell.evaluation):
        remarks.append("stale: recipe or measure have changed since")
    if failed := _failed(kept):
        remarks.append(failed)
    if cell.evaluation.data.unlike:
        remarks.append(cell.evaluation.data.unlike)
    if trust.get(cell.heading, trust.get(ALL)) == "L":
        remarks.append("the published number is suspect")
    return tuple(remarks)
