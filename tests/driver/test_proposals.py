"""What is asked next: published settings first, nothing twice, all of a finite space, the same from the same seed."""

import math
import statistics

import optuna
import pytest

from tests.helpers.ledgers import open_ledger
from tests.helpers.simulated import Simulation, simulate
from tune_vfl.driver.proposals import Proposals
from tune_vfl.errors import SpecError
from tune_vfl.outcome import Outcome, read_outcome
from tune_vfl.samplers.base import SAMPLERS, sampler_seed
from tune_vfl.spaces.space import point_key

WIDE = {"name": "laplace", "space": {"scale": {"float": [1e-5, 1e-1], "log": True}}}
FEW = {"name": "laplace", "space": {"scale": {"choice": [1e-4, 1e-3, 1e-2, 1e-1]}}}


pytestmark = pytest.mark.usefixtures("home")


def answer(ledger, proposals, asked):
    for one in asked:
        outcome = read_outcome(simulate(Simulation(noise=0.01), ledger.cell, one.params).model_dump(mode="json"))
        proposals.learn(ledger.tell(one.number, outcome))


def run(ledger, trials, pack=3):
    proposals = Proposals(ledger)
    points = []
    while len(points) < trials and (asked := proposals.ask(min(pack, trials - len(points)))):
        points += [a.params for a in asked]
        answer(ledger, proposals, asked)
    return points


@pytest.mark.parametrize("sampler", ["tpe", "nsga2", "random", "gp", "grid"])
def test_published_settings_come_first(sampler):
    points = run(open_ledger(sampler=sampler), 6)
    assert [p["scale"] for p in points[:4]] == [1e-4, 1e-3, 1e-2, 1e-1]


# Beyond the ten that are drawn at first: each later one of gp takes a fit.
@pytest.mark.parametrize(("sampler", "count"), [("tpe", 16), ("nsga2", 16), ("random", 16), ("gp", 12)])
def test_no_point_twice_and_the_same_from_the_same_seed(sampler, count):
    first = run(open_ledger("a", sampler=sampler, defense=WIDE), count)
    assert len({point_key(p) for p in first}) == count
    assert run(open_ledger("b", sampler=sampler, defense=WIDE), count) == first
    assert run(open_ledger("c", sampler={"name": sampler, "seed": 1}, defense=WIDE), count) != first


@pytest.mark.parametrize("sampler", ["tpe", "nsga2", "random", "gp", "grid"])
def test_a_finite_space_ends_when_it_is_used_up(sampler):
    ledger = open_ledger(sampler=sampler, defense=FEW)
    points = run(ledger, 40)
    assert sorted(p["scale"] for p in points) == [1e-4, 1e-3, 1e-2, 1e-1]
    assert ledger.record().waiting == 0


def test_an_empty_space_has_one_trial():
    assert run(open_ledger(defense="max_norm"), 40) == [{}]


def test_a_grid_over_an_unlisted_range_has_as_many_levels_as_trials():
    points = run(open_ledger(sampler="grid", defense=WIDE, budget={"trials": 9}), 40)
    assert len(points) == 9
    assert min(p["scale"] for p in points) == pytest.approx(1e-5)
    assert max(p["scale"] for p in points) == pytest.approx(1e-1)


@pytest.mark.parametrize("sampler", ["tpe", "nsga2", "random", "gp"])
def test_a_resumed_search_repeats_no_start_up_point(sampler):
    first = run(open_ledger(sampler=sampler, defense=WIDE), 6)
    second = run(open_ledger(sampler=sampler, defense=WIDE), 6)
    assert len({point_key(p) for p in first + second}) == 12
    assert sampler_seed(0, 6) != sampler_seed(0, 0)


def test_a_repeated_proposal_is_answered_from_the_ledger(monkeypatch):
    ledger = open_ledger(sampler="random", defense=FEW)
    proposals = Proposals(ledger)
    answer(ledger, proposals, proposals.ask(3))
    before = len(proposals._mirror.trials)
    asked = proposals.ask(3)
    assert len(asked) == 1
    assert len(ledger.trials()) == 4, "what was answered from the ledger was not written again"
    answered = [t for t in proposals._mirror.trials[before:] if t.state.name == "COMPLETE"]
    known = {t.objectives for t in ledger.trials() if t.objectives}
    assert all(tuple(t.values) in known for t in answered)


@pytest.mark.parametrize("sampler", ["tpe", "nsga2", "random", "grid"])
def test_packs_in_flight_share_no_point_of_a_finite_space(sampler):
    choices = [10 ** (-5 + k / 10) for k in range(30)]
    finite = {"name": "laplace", "space": {"scale": {"choice": choices}}}
    ledger = open_ledger(sampler=sampler, defense=finite)
    proposals = Proposals(ledger)
    flying = [proposals.ask(6) for _ in range(4)]
    answer(ledger, proposals, flying[1])
    flying += [proposals.ask(6), proposals.ask(6)]
    points = [a.params["scale"] for pack in flying for a in pack]
    assert sorted(points) == sorted(choices)
    assert not flying[-1]


def nearness(sampler, *, packs=2, rounds=8):
    """Return how near each later point came to one still in flight, in powers of ten of a scale."""
    study = optuna.create_study(directions=["maximize", "minimize"], sampler=sampler)
    domain = {"scale": optuna.distributions.FloatDistribution(1e-5, 1e-1, log=True)}
    flying, near = [[study.ask(domain) for _ in range(6)] for _ in range(packs)], []
    for _ in range(rounds):
        for trial in flying.pop(0):
            place = (math.log10(trial.params["scale"]) + 5) / 4
            study.tell(trial, (0.9 - 0.2 * place**2, (1 - place) ** 2))
        running = [trial.params["scale"] for pack in flying for trial in pack]
        flying.append([study.ask(domain) for _ in range(6)])
        for trial in flying[-1]:
            near.append(min(abs(math.log10(trial.params["scale"] / other)) for other in running))
            running.append(trial.params["scale"])
    return near


def test_tpe_keeps_away_from_what_is_running():
    seeds = range(6)
    seeing = [d for seed in seeds for d in nearness(SAMPLERS["tpe"].build(seed, budget=60))]
    blind = [d for seed in seeds for d in nearness(optuna.samplers.TPESampler(seed=seed, constant_liar=False))]
    assert statistics.median(seeing) > 1.5 * statistics.median(blind)


def test_what_failed_does_not_stop_the_sampler():
    ledger = open_ledger(defense=WIDE)
    proposals = Proposals(ledger)
    for _ in range(15):
        (asked,) = proposals.ask(1)
        proposals.learn(ledger.tell(asked.number, Outcome.failed("diverged", "NaN")))
    assert len(proposals.ask(2)) == 2


def test_nsga2_goes_on_with_its_generations_after_a_resume():
    fields = {"sampler": "nsga2", "defense": WIDE, "budget": {"trials": 40}}
    run(open_ledger(**fields), 12)
    ledger = open_ledger(**fields)
    run(ledger, 8)
    generations = [v for t in ledger.trials() for k, v in t.sampler.items() if k.endswith("generation")]
    assert max(generations) >= 1


def test_gp_that_cannot_run_says_what_to_take(monkeypatch):
    def broken(**_):
        raise ImportError("no scipy")

    monkeypatch.setattr(optuna.samplers, "GPSampler", broken)
    with pytest.raises(SpecError, match="take tpe"):
        SAMPLERS["gp"].build(0, budget=40)
