"""How published numbers are counted where other data stand in for the paper's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tune_vfl.papers.comparison import compared, tally
from tune_vfl.papers.reading import find_table
from tune_vfl.papers.results import TableResults
from tune_vfl.papers.verdict import Verdict

OWN, FIRST, SECOND, THIRD = 0, 1, 2, 3


@pytest.mark.parametrize(
    ("verdicts", "counted"),
    [
        ({}, {}),
        ({FIRST: "lower"}, {"lower": 1}),
        ({FIRST: "lower", SECOND: "lower"}, {"lower": 1}),
        ({FIRST: "reproduced", SECOND: "lower"}, {"mixed": 1}),
        ({FIRST: "higher", SECOND: "lower"}, {"mixed": 1}),
        ({OWN: "lower", FIRST: "reproduced"}, {"lower": 1}),
    ],
)
def test_own_data_decide_and_stand_ins_that_disagree_are_mixed(
    verdicts: dict[int, Verdict], counted: dict[str, int]
) -> None:
    """Not the kinder one of several: a number with stand-ins on both sides says nothing yet."""
    _, table = find_table("kdk-table6")
    cells = [c for c in compared(table, TableResults(table="kdk-table6")) if c.evaluation.row.dataset == "cifar10"][:4]
    assert [c.evaluation.stands_in for c in cells] == [False, True, True, True]
    found = tally([replace(cell, verdict=verdicts.get(i)) for i, cell in enumerate(cells)])
    assert (found.cells, found.judged, dict(found.verdicts)) == (1, len(counted), counted)


def test_a_number_is_owed_where_neither_files_nor_a_gpu_are_missing() -> None:
    """A table of which one data set is priced in CPU time alone, and the others need the official pictures."""
    _, table = find_table("fedadob-table4")
    cells = compared(table, TableResults(table="fedadob-table4"))
    assert {c.evaluation.dataset for c in cells if c.priced} == {"mnist"}
    assert (tally(cells).cells, tally(cells).owed) == (68, 17)
    judged = [replace(cell, verdict="lower") if cell.priced else cell for cell in cells]
    assert (tally(judged).judged, tally(judged).owed) == (17, 0)
