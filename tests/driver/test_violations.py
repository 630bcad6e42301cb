"""Constraints in a search: how far a trial is from keeping them, and that samplers look where they are kept."""

import pytest

from tests.helpers.simulated import SimulatedTrainable, closed_form, simulated_cell, simulated_spec
from tests.helpers.studies import made_up_study
from tune_vfl.driver.proposals import Proposals
from tune_vfl.driver.violations import violations
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.storage import storage_at
from tune_vfl.outcome import Outcome
from tune_vfl.records.campaigns import PlannedCampaign
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.spaces.named import space_of
from tune_vfl.spec.cell import References

WIDE = {"name": "laplace", "space": {"scale": {"float": [1e-5, 1e-1], "log": True}}}


def test_violations_are_what_is_missing():
    record = made_up_study(8)
    outcome = record.ok[0].outcome
    utility, leakage = outcome.objectives
    name, score = next(iter(outcome.attacks.items()))
    undefended = record.baseline.objectives[0]
    asked = {
        "utility": utility + 0.1,
        "utility_loss": 0.0,
        "leakage": leakage - 0.2,
        f"attacks.{name}.advantage": score.advantage,
        f"attacks.{name}.success": score.mean - 0.05,
        "attacks.unheard_of.success": 0.0,
        "cost": 0.0,
    }
    found = violations(outcome, record.baseline, asked)
    assert found == pytest.approx([0.1, undefended - utility, 0.2, 0.0, 0.05, 0.0, 0.0])
    for unknown in (None, Outcome.failed("oom", "full")):
        assert violations(outcome, unknown, {"utility_loss": 0.0, "utility": utility}) == [0.0, 0.0]


def search_of(name, sampler, constraints, rounds=2, each=15):
    """Search the simulated curve, anew after each round as a search that is resumed; return its late trials."""
    spec = simulated_spec(name, defense=WIDE, sampler=sampler, constraints=constraints, budget={"trials": 60})
    cell = simulated_cell(spec)
    place = storage_at(None)
    with place.lease(name) as lease:
        ledger = Ledger.of_campaign(PlannedCampaign.of(PlannedStudy(spec, cell, space_of(spec, cell))), place, lease)[0]
        ledger.set_baseline(SimulatedTrainable.evaluate(cell, [{}], References(), {})[0])
        for _ in range(rounds):
            proposals = Proposals(ledger)
            for _ in range(each):
                (asked,) = proposals.ask(1)
                (outcome,) = SimulatedTrainable.evaluate(cell, [asked.params], References(), {})
                proposals.learn(ledger.tell(asked.number, outcome))
        mirrored = proposals._mirror.trials
        ledger.close()
    return mirrored


def test_a_constrained_search_looks_where_constraints_are_kept(home):
    """Leakage (1 - t)^2 at most .04: t at least .8, a fifth of the log range."""
    kept = {}
    for name, constraints in (("free", {}), ("bound", {"leakage": 0.04})):
        late = search_of(name, "tpe", constraints, rounds=3, each=20)[30:]
        kept[name] = sum(t.values[1] <= closed_form(0.8)[1] for t in late)
    assert kept["bound"] > 1.3 * kept["free"]


@pytest.mark.parametrize("sampler", ["tpe", "nsga2", "gp"])
def test_samplers_know_how_far_every_trial_is_from_the_constraints(home, sampler):
    """Also those of before a search was resumed."""
    for trial in search_of("study", sampler, {"leakage": 0.04}, each=5):
        assert trial.system_attrs["constraints"] == pytest.approx((trial.values[1] - 0.04,))
