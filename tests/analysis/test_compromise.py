"""The knee of a study, weighed on the study's own scale, and what a cap of leakage means."""

from dataclasses import replace

import pytest

from tests.helpers.campaigns import chosen
from tests.helpers.confirmations import knee_named, made_up_confirmation
from tests.helpers.fronts import knee_of
from tests.helpers.studies import made_up_attack, made_up_outcome, made_up_study, made_up_trial
from tune_vfl.analysis.reliability import scale_of
from tune_vfl.errors import SelectionError
from tune_vfl.metrics import pareto
from tune_vfl.records.studies import StudyRecord
from tune_vfl.statistics import Scale

# On the undefended model's scale (utility .5 to .965, leakage 0 to .94) the second gives up least for what it brings.
FRONT = ((0.96, 0.90), (0.94, 0.60), (0.80, 0.55))


def study_of(*points: tuple[float, float], alone: tuple[float, ...] = ()) -> StudyRecord:
    """A study whose ok trials have exactly these (utility, attack success)."""
    trials = [made_up_trial(n, scale=10.0**-n, outcome=made_up_outcome(*p)) for n, p in enumerate(points)]
    return replace(made_up_study(2), trials=tuple(trials), alone=alone)


def test_the_scale_runs_from_the_guess_or_the_label_party_alone_to_the_undefended_model() -> None:
    assert scale_of(study_of(*FRONT)) == Scale(0.5, pytest.approx(0.965), pytest.approx(0.94))
    lifted = scale_of(study_of(*FRONT, alone=(0.90, 0.90, 0.90)))
    assert lifted is not None
    assert lifted.utility_low == pytest.approx(0.9)
    nothing = scale_of(study_of(*FRONT, alone=(0.96, 0.97, 0.966)))
    assert nothing is not None
    assert nothing.utility_low == 0.5, "a federation that adds nothing is weighed from the guess"
    assert scale_of(replace(study_of(*FRONT), baseline=None)) is None


def test_a_useless_end_of_the_front_moves_the_chord_and_not_the_knee() -> None:
    near, far = ((0.96, 0.95), (0.93, 0.90), (0.80, 0.72)), (0.05, 0.52)
    assert knee_of(study_of(*near)) == knee_of(study_of(*near, far)) == 2
    assert [pareto.knee([(u, 2 * a - 1) for u, a in points]) for points in (near, (*near, far))] == [1, 2]


def test_what_the_label_party_reaches_alone_makes_utility_dearer() -> None:
    points = ((0.96, 0.90), (0.92, 0.80))
    assert knee_of(study_of(*points)) == 1
    assert knee_of(study_of(*points, alone=(0.92, 0.92, 0.92))) == 0


def test_a_confirmed_knee_goes_before_the_search_s() -> None:
    record = made_up_study()
    own = knee_of(record)
    confirmation = made_up_confirmation()
    assert knee_of(replace(record, confirmation=confirmation)) == own, "an answer that does not name one"
    named = replace(record, confirmation=confirmation.model_copy(update={"knee": knee_named(record.name, 10)}))
    assert knee_of(named) == 10 != own
    assert chosen(named, "knee").number == 10


def test_a_cap_of_leakage_must_hold_with_90_percent_confidence() -> None:
    steady, shaky = (made_up_attack(0.58, spread=s) for s in (0.001, 0.05))
    outcomes = [
        made_up_outcome(u, 0.58).model_copy(update={"attacks": {"norm": attack}, "leakage": attack.advantage})
        for u, attack in ((0.92, shaky), (0.90, steady))
    ]
    trials = tuple(made_up_trial(n, scale=10.0**-n, outcome=o) for n, o in enumerate(outcomes))
    record = replace(made_up_study(2), trials=trials)
    assert chosen(record, "max-utility").number == 0
    # The mean leakage of both is .16; the seeds of the first one do not keep it below .2.
    assert [round(t.outcome.objectives[1], 2) for t in trials] == [0.16, 0.16]
    with pytest.raises(SelectionError, match=r"with 90% confidence, which holds from 0\.[23]"):
        chosen(replace(record, trials=trials[:1]), "leakage<=0.2")
