"""How published numbers are counted: stand-ins apart, a number of several tables once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tune_vfl.papers.comparison import ComparedNumber, compared
from tune_vfl.papers.overview import overview
from tune_vfl.papers.reading import find_table
from tune_vfl.papers.results import Number, TableResults, kept_folder
from tune_vfl.papers.tally import once, split, tally
from tune_vfl.papers.verdict import JUDGED, Verdict

OWN, SAMPLE, SECOND, THIRD = 0, 1, 2, 3


@pytest.mark.parametrize(
    ("verdicts", "judged", "apart"),
    [
        ({}, {}, {}),
        ({SAMPLE: "lower", SECOND: "other data"}, {"lower": 1}, {}),
        ({OWN: "reproduced", SAMPLE: "lower"}, {"reproduced": 1}, {}),
        ({SECOND: "other data", THIRD: "other data"}, {}, {"other data": 1}),
        ({SAMPLE: "not trained", SECOND: "other data"}, {}, {"not trained": 1}),
    ],
)
def test_a_number_and_its_stand_ins_count_once(
    verdicts: dict[int, Verdict], judged: dict[str, int], apart: dict[str, int]
) -> None:
    _, table = find_table("kdk-table6")
    cells = [c for c in compared(table, TableResults(table="kdk-table6")) if c.evaluation.row.dataset == "cifar10"][:4]
    assert [c.evaluation.place for c in cells][:2] == ["cifar10", "cifar10 sample"]
    found = tally([_judged_as(cell, verdicts.get(i)) for i, cell in enumerate(cells)])
    assert (len(found.numbers), len(found.judged), dict(found.verdicts)) == (1, sum(judged.values()), judged | apart)


def _judged_as(cell: ComparedNumber, verdict: Verdict | None) -> ComparedNumber:
    return cell if verdict is None else replace(cell, verdict=verdict, ours=Number(mean=0.5, std=0.1, seeds=3))


def test_a_number_is_owed_where_neither_files_nor_a_gpu_are_missing() -> None:
    """A table of which one data set is priced in CPU time alone, and the others need the official pictures."""
    _, table = find_table("fedadob-table4")
    cells = compared(table, TableResults(table="fedadob-table4"))
    assert {c.evaluation.dataset for c in cells if c.priced} == {"mnist"}
    assert (len(tally(cells).numbers), tally(cells).owed) == (68, 17)
    run = [_judged_as(cell, "lower") if cell.priced else cell for cell in cells]
    assert (len(tally(run).judged), tally(run).owed) == (17, 0)


def test_a_number_that_several_tables_print_counts_once() -> None:
    """GAFM's row of table 2 stands in tables 6 and 11, too, and in table 9 for ISIC."""
    entries = {e.name: e for e in overview(kept_folder()).entries}
    table2, table6 = (entries[name].tally for name in ("gafm-table2", "gafm-table6"))
    both = once([table2, table6])
    again = {"spambase", "imdb", "criteo", "isic"}
    assert len(both.numbers) == len(table2.numbers) + len(table6.numbers) - 4 * len(again)
    assert len(both.judged) < len(table2.judged) + len(table6.judged)


def test_numbers_are_split_without_losing_any() -> None:
    total = overview(kept_folder()).total
    parts = split(total, lambda cell: cell.data)
    assert sum(len(part.judged) for part in parts.values()) == len(total.judged)
    assert "other" not in parts
    assert sum(total.sizes.values()) == len(total.judged)
    assert sum(len(one.numbers) for one in overview(kept_folder()).by_paper.values()) == len(total.numbers)
    assert sum(total.verdicts[verdict] for verdict in JUDGED) == len(total.judged)
