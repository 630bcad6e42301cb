"""Published cells beside ours: number, verdict, reason and price of each cell of a table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from tune_vfl.papers.results import Number, Results
from tune_vfl.papers.tables import ALL
from tune_vfl.papers.verdict import Verdict, verdict_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tune_vfl.papers.published import PublishedNumber
    from tune_vfl.papers.results import TableResults
    from tune_vfl.papers.tables import Evaluation, Table

Source = Literal["measured", "recorded"]
UNKNOWN = "reason unknown"
OTHER_DATA = "measured on other data"
MIXED = "mixed"


@dataclass(frozen=True)
class ComparedNumber:
    """One published number beside ours.

    Attributes:
        evaluation: what measures it.
        heading: its column.
        published: the paper's number.
        ours: our number; None where there is none.
        source: ``measured``: by seed, with today's recipe unless ``stale``; ``recorded``: before, and not again.
        verdict: see :func:`tune_vfl.papers.verdict.verdict_of`; None where there is none.
        says: why it differs, or why there is no verdict.
        remarks: what a reader must know: a stand-in, a suspect number, a stale result.
        stale: recipe or measure have changed since.
        priced: two cores without downloads can measure it, in as long as its price says.
    """

    evaluation: Evaluation
    heading: str
    published: PublishedNumber
    ours: Number | None = None
    source: Source | None = None
    verdict: Verdict | None = None
    says: str = ""
    remarks: tuple[str, ...] = ()
    stale: bool = False
    priced: bool = False

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


def compared(table: Table, results: TableResults, refused: Mapping[str, str] | None = None) -> list[ComparedNumber]:
    """Return every cell that has a published number, in the order of the table.

    Args:
        table: the table.
        results: what is kept of it.
        refused: why evaluations were not run, by label.
    """
    cells = []
    for evaluation in table.evaluations:
        kept = results.evaluations.get(evaluation.label, Results())
        measured = table.formulas(evaluation)
        for heading in table.columns:
            published = table.published(evaluation.row, heading)
            if published is None or (evaluation.stands_in and heading not in measured):
                continue
            says = evaluation.data.cannot or "nothing here measures it"
            priced = heading in measured and not evaluation.data.needs
            cell = ComparedNumber(evaluation, heading, published, says=says, priced=priced)
            if heading in measured:
                not_run = (refused or {}).get(evaluation.label, "")
                cell = _judged(cell, measured[heading], kept, table.repeats, not_run=not_run)
            cells.append(cell)
    return cells


def _judged(cell: ComparedNumber, formula: str, kept: Results, repeats: int | None, *, not_run: str) -> ComparedNumber:
    """Return a cell with our number and the verdict, or with the reason why there is none."""
    evaluation, heading = cell.evaluation, cell.heading
    ours, source = _ours(kept, heading, formula)
    if ours is None:
        price = "; ".join(part for part in (price_text(evaluation), not_run) if part)
        return replace(cell, says=_failed(kept) or f"not run here: {price}")
    verdict = verdict_of(cell.published, repeats, ours.mean, ours.std, ours.seeds)
    why = evaluation.row.why
    unknown = OTHER_DATA if evaluation.stands_in or evaluation.data.unlike else UNKNOWN
    says = "" if verdict == "reproduced" else why.get(heading, why.get(ALL, unknown))
    return replace(
        cell,
        ours=ours,
        source=source,
        verdict=verdict,
        says=says if verdict else "one seed has no standard error",
        remarks=_remarks(cell, kept, source),
        stale=source == "measured" and kept.stale(evaluation),
    )


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


@dataclass(frozen=True)
class Tally:
    """Counts of a table's cells by verdict. A cell and its stand-ins count once.

    Attributes:
        cells: published numbers.
        judged: those with a verdict, of their own data or of a stand-in.
        owed: those without, which two cores without downloads can measure.
        verdicts: by verdict; that of the cell's own data, else of its stand-ins, ``mixed`` where these disagree.
        unlike: verdicts on other data than the paper's: a stand-in or a sample.
        recorded: verdicts of earlier measurements.
        stale: verdicts whose recipe or measure has changed.
    """

    cells: int
    judged: int
    owed: int
    verdicts: Counter[str]
    unlike: int
    recorded: int
    stale: int

    @property
    def state(self) -> str:
        """``verdict`` when all cells have one, ``partly``, or ``none``."""
        if not self.judged:
            return "none"
        return "verdict" if self.judged == self.cells else "partly"


def tally(cells: Iterable[ComparedNumber]) -> Tally:
    """Count a table's verdicts."""
    by_cell: dict[tuple[str, str], list[ComparedNumber]] = {}
    for cell in cells:
        row = cell.evaluation.row
        by_cell.setdefault((row.model_dump_json(exclude={"why"}), cell.heading), []).append(cell)
    judged = [deciding for group in by_cell.values() if (deciding := _deciding(group))]
    return Tally(
        cells=len(by_cell),
        judged=len(judged),
        owed=sum(any(c.priced for c in group) and not _deciding(group) for group in by_cell.values()),
        verdicts=Counter(_verdict(group) for group in judged),
        unlike=sum(all(cell.evaluation.data.unlike for cell in group) for group in judged),
        recorded=sum(all(cell.source == "recorded" for cell in group) for group in judged),
        stale=sum(any(cell.stale for cell in group) for group in judged),
    )


def _deciding(group: Sequence[ComparedNumber]) -> list[ComparedNumber]:
    """Return those of a cell and its stand-ins whose verdict counts: the cell's own, else all of its stand-ins'."""
    judged = [cell for cell in group if cell.verdict]
    return [cell for cell in judged if not cell.evaluation.stands_in] or judged


def _verdict(group: Sequence[ComparedNumber]) -> str:
    found = {str(cell.verdict) for cell in group}
    return found.pop() if len(found) == 1 else MIXED


def reasons_without(cells: Sequence[ComparedNumber]) -> list[str]:
    """Return why cells have no verdict: each reason once, the most frequent first."""
    return [says for says, _ in Counter(c.says for c in cells if c.verdict is None).most_common()]
