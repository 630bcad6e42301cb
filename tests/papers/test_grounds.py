"""Where a number can be judged: the paper's data, and a recipe whose undefended model has learned."""

from __future__ import annotations

import pytest

from tests.papers.test_tables import FILE
from tune_vfl.errors import SpecError
from tune_vfl.papers.comparison import ComparedNumber, compared
from tune_vfl.papers.overview import overview
from tune_vfl.papers.reading import read_paper
from tune_vfl.papers.results import Results, SeedResult, TableResults, kept_folder
from tune_vfl.papers.tables import Table

NAME = "test-table1"
TWO = FILE.replace("rows:", "rows:\n      - {dataset: breast_cancer, defense: kdk, published: '.8 | .5'}")
STEPS = "judging: {breast_cancer: {chance: .5, steps: {ours: 5250, paper: 26000}}}"


def compared_with(utilities: dict[str, list[float]], judging: str = STEPS) -> dict[str, ComparedNumber]:
    """Compare the norm attack, by defense, where models reach these utilities."""
    table: Table = read_paper(f"{judging}\n{TWO}", "test.yaml").tables[NAME]
    kept = {
        one.label: Results(
            raw=one.raw,
            seeds={i: SeedResult(scores={"utility": u, "norm": 0.5}) for i, u in enumerate(utilities[one.row.defense])},
        )
        for one in table.evaluations
        if one.row.defense in utilities
    }
    cells = compared(table, TableResults(table=NAME, evaluations=kept))
    return {cell.evaluation.row.defense: cell for cell in cells if cell.heading == "norm"}


@pytest.mark.parametrize(
    ("utilities", "trained"),
    [
        ({"none": [0.90, 0.91], "kdk": [0.50, 0.52]}, True),  # what a defense does to a model is its own affair
        ({"none": [0.52, 0.50, 0.53], "kdk": [0.90, 0.91]}, False),
        ({"none": [0.5, 0.9, 0.7]}, False),  # above chance by less than its noise
        ({"none": [0.53, 0.531, 0.532]}, False),  # surely above chance, and by next to nothing
        ({"kdk": [0.90, 0.91]}, True),  # without an undefended run any model of the recipe tells
        ({"kdk": [0.52, 0.50]}, False),
    ],
)
def test_a_number_is_judged_where_the_undefended_model_has_learned(
    utilities: dict[str, list[float]], trained: bool
) -> None:
    for cell in compared_with(utilities).values():
        if cell.ours is not None:
            assert cell.judged == trained
            assert (cell.verdict == "not trained") is not trained
            assert ("5,250 of the paper's 26,000 steps" in cell.says) is not trained


def test_without_steps_the_utility_is_said_and_without_a_chance_nothing_is_checked() -> None:
    weak = {"none": [0.52, 0.50]}
    said = compared_with(weak, "judging: {breast_cancer: {chance: .5}}")["none"].says
    assert said == "utility 0.51, chance 0.50"
    assert compared_with(weak, "")["none"].judged


def test_unknown_rows_have_no_verdict() -> None:
    cell = compared_with({"none": [0.9, 0.91]}, "judging: {test-table1 breast_cancer: {unknown: true}}")["none"]
    assert (cell.verdict, cell.judged, cell.says, cell.data) == ("other data", False, "", "other")


def test_judging_of_data_that_there_are_not_is_refused() -> None:
    with pytest.raises(
        SpecError, match="judging: no such data set: digits; known: breast_cancer, test-table1 breast_cancer"
    ):
        read_paper(f"judging: {{digits: {{chance: .5}}}}\n{FILE}", "test.yaml")


def test_no_number_of_an_untrained_net_is_judged_and_stand_ins_are_not_the_papers_data() -> None:
    cells = [cell for entry in overview(kept_folder()).entries for cell in entry.cells if cell.ours]
    for cell in cells:
        if cell.evaluation.dataset != cell.evaluation.row.dataset:
            assert cell.verdict == "other data"
        if cell.verdict == "not trained":
            assert "steps" in cell.says or "chance" in cell.says
    unknown = {cell.evaluation.row.dataset for cell in cells if cell.evaluation.data.grounds.unknown}
    assert unknown == {"loan", "fault"}


def test_one_evaluation_has_one_number_in_all_tables() -> None:
    """The first rows of GAFM's tables 2, 3, 6, 10 and 11 are one training each."""
    found: dict[tuple[str, str], set[object]] = {}
    for entry in overview(kept_folder()).entries:
        for cell in entry.cells:
            if cell.ours and cell.source == "measured":
                place = repr(sorted(cell.evaluation.raw.items()))
                found.setdefault((place, cell.formula), set()).add(cell.ours.mean)
    assert {key for key, means in found.items() if len(means) > 1} == set()
    assert sum(len(means) for means in found.values()) > 100
