"""What attacks are compared with in a confirmation belongs to its own seeds, and to the rows that these draw."""

import pytest

from tests.helpers.cells import cells
from trainables.cell import CellTrainable
from tune_vfl.confirmation.values import fresh
from tune_vfl.evaluation.packs import evaluate_pack
from tune_vfl.evaluation.references import measure_references
from tune_vfl.records.confirmations import records_of

PMC = {"name": "pmc", "variants": ["logreg"]}
cell_of = cells("training.epochs=1")


def test_references_are_those_of_the_fresh_seeds_together_or_one_by_one() -> None:
    cell = cell_of(PMC).model_copy(update={"rows": "report", "seeds": (1003, 1000)})
    found = CellTrainable.references(cell, {}).r_lower["pmc"]
    assert len(found) == 2
    for seed, lower in zip(cell.seeds, found, strict=True):
        alone = CellTrainable.references(cell.model_copy(update={"seeds": (seed,)}), {})
        assert alone.r_lower["pmc"] == pytest.approx([lower], abs=1e-6)
    assert found != pytest.approx(measure_references(cell.model_copy(update={"seeds": (0, 1)})).r_lower["pmc"])


def test_a_record_holds_the_floor_that_its_success_was_compared_with() -> None:
    cell = cell_of(PMC).model_copy(update={"rows": "report", "seeds": (1000, 1001)})
    references = CellTrainable.references(cell, {})
    [outcome] = evaluate_pack(cell, [{"scale": 1e-3}], references)
    assert outcome.outcome == "ok", outcome.reason
    kept = records_of(outcome, cell.seeds, references)
    score = outcome.attacks["pmc"]
    assert [kept[s].attacks["pmc"].r_lower for s in cell.seeds] == references.r_lower["pmc"]
    best = max(references.floors[""].values(), key=sum)
    assert score.floors == best
    assert [kept[s].without_messages("pmc")[score.floor_by] for s in cell.seeds] == best
    assert fresh([list(kept.values())], [("pmc", "logreg")]).advantages.ravel() == pytest.approx(score.advantages)
    assert outcome.utility is not None
    assert [kept[s].utility for s in cell.seeds] == outcome.utility.values
