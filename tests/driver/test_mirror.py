"""What a sampler is told of a ledger that it begins from, and of proposals that the ledger can answer itself."""

import optuna
import pytest

from tests.helpers.ledgers import open_ledger
from tests.helpers.simulated import Simulation, closed_form, simulate
from tune_vfl.driver.proposals import Proposals
from tune_vfl.outcome import Outcome, read_outcome

pytestmark = pytest.mark.usefixtures("home")

FEW = {"name": "laplace", "space": {"scale": {"choice": [1e-5, 1e-3, 1e-1]}}}
COMPLETE, FAIL, RUNNING = (getattr(optuna.trial.TrialState, s) for s in ("COMPLETE", "FAIL", "RUNNING"))


def test_a_resumed_sampler_knows_every_end_and_is_told_again_what_it_proposes_again() -> None:
    ledger = open_ledger(sampler="random", defense=FEW)
    first = Proposals(ledger)
    asked = first.ask(2)
    good = read_outcome(simulate(Simulation(), ledger.cell, asked[0].params).model_dump(mode="json"))
    first.learn(ledger.tell(asked[0].number, good))
    first.learn(ledger.tell(asked[1].number, Outcome.failed("diverged", "NaN")))
    again = Proposals(ledger)
    held = again._mirror.trials
    assert [(t.state, t.values) for t in held] == [(COMPLETE, pytest.approx(list(good.objectives))), (FAIL, None)]
    assert [t.params for t in held] == [dict(a.params) for a in asked]
    (last,) = again.ask(5)
    assert last.params not in [a.params for a in asked], "what is left"
    told = {t.params["scale"]: (t.state, t.values) for t in again._mirror.trials[2:] if t.state != RUNNING}
    for scale, (state, values) in told.items():
        best = scale == asked[0].params["scale"]
        assert (state, values) == ((COMPLETE, pytest.approx(list(good.objectives))) if best else (FAIL, None))
    assert again.ask(5) == [], "while the last one runs there is nothing new"


def test_a_lost_trial_is_asked_again_as_it_was_and_the_sampler_forgets_its_first_run() -> None:
    ledger = open_ledger(sampler="random", defense=FEW)
    proposals = Proposals(ledger)
    (one,) = proposals.ask(1)
    lost = ledger.lose(one.number, "driver", "stopped")
    assert lost is not None
    proposals.learn(lost)
    (again,) = proposals.ask(1)
    assert again.params == one.params
    assert again.number != one.number
    assert next(t for t in ledger.trials() if t.number == again.number).retry_of == one.number
    outcome = read_outcome(simulate(Simulation(), ledger.cell, again.params).model_dump(mode="json"))
    proposals.learn(ledger.tell(again.number, outcome))
    ended = [t for t in proposals._mirror.trials if t.state == COMPLETE]
    assert [t.values for t in ended] == [pytest.approx(list(outcome.objectives))]
    at = {1e-5: 0.0, 1e-3: 0.5, 1e-1: 1.0}[again.params["scale"]]
    assert outcome.objectives == pytest.approx(closed_form(at))
