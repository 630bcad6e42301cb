"""``stop: {front: N}``: a search ends once its front has not grown for N trials, and its ledger alone decides that."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import Run
from tests.driver.conftest import Workers
from tests.helpers.campaigns import campaign_of, part_of
from tests.helpers.ledgers import open_ledger, reopened
from tests.helpers.resuming import resume
from tests.helpers.simulated import SimulatedTrainable
from tune_vfl.analysis.alternatives import ended
from tune_vfl.driver.campaign_run import run_campaign
from tune_vfl.driver.planning import planned_campaign
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.ledger.reading import open_study
from tune_vfl.outcome import Outcome, Score
from tune_vfl.records.studies import StudyRecord, TrialRecord
from tune_vfl.service.studies import finished, state_of

MANY = {"trials": 40, "seeds": 1}


def spec_of(**fields: Any) -> dict[str, Any]:
    known = {"study": "s", "dataset": "breast_cancer", "defense": "laplace", "attacks": ["norm"], "budget": MANY}
    return {**known, "sampler": "random", "resources": {"pack": 1}, **fields}


# A grid of few points, so that equal ones and ties in one number occur.
POINTS = st.one_of(st.none(), st.tuples(st.integers(0, 4), st.integers(0, 4)))


def ends_by_hand(points: list[tuple[int, int] | None], most: int) -> bool:
    """Return whether somewhere each of ``most`` points in a row is matched or beaten in both by one before it."""
    grew = []
    for place, point in enumerate(points):
        before = [other for other in points[:place] if other is not None]
        beaten = point is None or any(u >= point[0] and x <= point[1] for u, x in before)
        grew.append(not beaten)
    return any(not any(grew[end - most : end]) for end in range(most, len(points) + 1))


def trials_of(points: list[tuple[int, int] | None]) -> tuple[TrialRecord, ...]:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    outcomes = [
        Outcome.failed("diverged", "NaN")
        if point is None
        else Outcome(outcome="ok", utility=Score.of("auc", [point[0] / 4]), leakage=point[1] / 4)
        for point in points
    ]
    return tuple(
        TrialRecord(n, {"scale": 0.1}, outcome, moment, moment + timedelta(seconds=n // 2))  # two end together
        for n, outcome in enumerate(outcomes)
    )


@settings(deadline=None)
@given(st.lists(POINTS, max_size=14), st.integers(1, 5), st.integers(0, 6))
def test_the_decision_is_that_of_a_plain_look_at_all_trials(
    points: list[tuple[int, int] | None], most: int, waiting: int
) -> None:
    blank = part_of("laplace", [])
    spec = blank.spec.model_copy(update={"stop": blank.spec.stop.model_copy(update={"front": most})})
    record = replace(blank, spec=spec, trials=trials_of(points)).owing(waiting)
    over = waiting > 0 and ends_by_hand(points, most)
    assert bool(record.ended) == over
    assert record.waiting == (0 if over else waiting)
    without = replace(blank, trials=trials_of(points)).owing(waiting)
    assert (without.ended, without.waiting) == ("", waiting), "nothing ends without the key"


def record() -> StudyRecord:
    return open_study("s").record().studies[0]


@pytest.mark.parametrize("pack", [1, 4])
def test_a_search_ends_and_says_why(pack: int, workers: Workers, home: Any, capsys: Any, run: Run) -> None:
    """Each setting that does not diverge is on the simulated front: those that do are what does not grow it."""
    work = TrainableSpec(SimulatedTrainable, {"diverge_above": 0.5})
    plan = planned_campaign(spec_of(stop={"front": 3}, resources={"pack": pack}, start=[{"scale": 0.05}]))
    assert not run_campaign(plan, work=work, progress=True)
    found = record()
    assert found.waiting == found.running == 0
    assert found.ended == "the front has not grown for 3 trials"
    assert len(found.counted) < 40
    assert state_of(found, running=False) == "finished"
    said = capsys.readouterr().err
    sentence = (
        "The search has ended: the front has not grown for 3 trials; a larger stop.front in the study file goes on."
    )
    assert f"s: {sentence}" in said
    assert "owed" not in said
    code, out, _ = run("status", "s")
    assert code == 0
    assert sentence in out
    assert finished(plan)
    before = len(workers.packs)
    resume("s", progress=False, sinks=(), work=work)
    resume("s", 60, progress=False, sinks=(), work=work)
    assert len(workers.packs) == before, "more trials do not change what ended it"
    raised = planned_campaign(spec_of(stop={"front": 12}, resources={"pack": pack}))
    assert not finished(raised), "a larger number goes on"
    run_campaign(raised, work=work, progress=False)
    assert len(record().counted) > len(found.counted)


def test_what_still_ran_counts_and_does_not_open_it_again(home: Any) -> None:
    """The third trial ends the search; one of the two that ran then grows the front."""
    ledger = open_ledger(stop={"front": 2}, budget={"trials": 9})
    numbers = [ledger.begin({"scale": 0.01 * (n + 1)}) for n in range(5)]

    def tell(number: int, utility: float) -> StudyRecord:
        outcome = Outcome(outcome="ok", utility=Score.of("auc", [utility]), leakage=0.5)
        assert ledger.tell(numbers[number], outcome) is not None
        return reopened("study").record()

    assert [tell(n, 0.5).waiting for n in (0, 1)] == [4, 4]
    assert [(found.waiting, found.running) for found in (tell(2, 0.4), tell(3, 0.3))] == [(0, 2), (0, 1)]
    last = tell(4, 0.9)
    assert (last.waiting, len(last.ok)) == (0, 5)
    assert last.ended == "the front has not grown for 2 trials"


def test_the_studies_of_a_campaign_end_one_by_one() -> None:
    why = "the front has not grown for 3 trials"
    parts = [replace(part_of(name, [(0.9, 0.3)]), ended=why) for name in ("laplace", "kdk")]
    assert [*ended([*parts, part_of("iso", [(0.9, 0.3)])])] == [
        f"The search of laplace and kdk has ended: {why}; a larger stop.front in the study file goes on."
    ]
    assert [*ended(campaign_of(part_of("iso", [(0.9, 0.3)])).studies)] == []
