"""What Tune would hold of packs that have ended."""

import pytest
from ray.tune.experiment import Trial

from trainables.simulated import SimulatedTrainable
from tune_vfl.search.forgetting import Forgetting

ASKED, TOLD = "what was asked", "what came back"


@pytest.fixture
def pack():
    trial = Trial(SimulatedTrainable.__name__, config={"cell": ASKED}, evaluated_params={"cell": ASKED}, stub=True)
    trial.experiment_tag = f"0_cell={ASKED}"
    trial.update_last_result({"outcomes": [TOLD], "config": {"cell": ASKED}, "training_iteration": 1, "seconds": 0.25})
    return trial


@pytest.mark.parametrize("ending", ["on_trial_complete", "on_trial_error"])
def test_of_a_pack_that_has_ended_nothing_is_held_that_the_ledger_has(pack, ending):
    before = "".join(pack.get_json_state())
    assert ASKED in before
    assert TOLD in before
    getattr(Forgetting(), ending)(1, [pack], pack)
    pack.set_status(Trial.TERMINATED)  # as Tune goes on to do
    after = "".join(pack.get_json_state())
    assert ASKED not in after
    assert TOLD not in after
    assert "0.25" not in after


def test_whoever_looks_at_such_a_pack_does_not_ask_its_worker(pack, monkeypatch):
    monkeypatch.setattr(Trial, "_get_default_result_or_future", lambda _trial: pytest.fail("its worker may be dead"))
    Forgetting().on_trial_error(1, [pack], pack)
    assert "outcomes" not in pack.last_result
