"""The records of a confirmation in the ledger: each once, apart from the trials, lost with nothing but their study."""

import pytest

from tests.helpers.campaigns import steady
from tests.helpers.confirmations import made_up_confirmation
from tests.helpers.ledgers import open_ledger, reopened
from tune_vfl.errors import StudyError
from tune_vfl.ledger.confirmation_store import Confirmations
from tune_vfl.ledger.reading import study_names
from tune_vfl.ledger.storage import storage_at
from tune_vfl.outcome import TunedAttack
from tune_vfl.records.answers import Confirmation, Line, PointName
from tune_vfl.records.confirmations import UNDEFENDED, AttackOfSeed, SeedRecord, records_of
from tune_vfl.spec.cell import MEASURE, References

pytestmark = pytest.mark.usefixtures("home")

SEEN = SeedRecord(
    outcome="ok", utility=0.9, attacks={"pmc": AttackOfSeed(guess=0.5, r_lower=0.6, candidates={"chosen": 0.7})}
)
LOST = SeedRecord(outcome="diverged", reason="NaN")


def test_a_record_is_read_by_another_process_and_kept_once() -> None:
    ledger = open_ledger()
    store = Confirmations(ledger.place, None)
    store.keep(("study", 3, 1000), LOST)
    store.keep(("study", 3, 1000), SEEN)
    store.keep(("study", UNDEFENDED, 1000), LOST)
    ledger.close()
    held = Confirmations(storage_at(), None).records("study")
    assert held == {("study", 3, 1000): SEEN, ("study", UNDEFENDED, 1000): LOST}
    assert reopened("study").record().trials == ()
    assert study_names() == ["study"]


def test_the_answer_is_part_of_the_study_s_record() -> None:
    ledger = open_ledger()
    assert ledger.record().confirmation is None
    assert ledger.record().confirmed == {}
    answer = made_up_confirmation("study")
    Confirmations(ledger.place, None).set_answer(answer)
    record = reopened("study").record()
    assert record.confirmation == answer
    assert list(record.confirmed) == [10], "those that did not stay are not confirmed"


def test_a_study_keeps_its_measure_and_refuses_another() -> None:
    ledger = open_ledger()
    ledger.close()
    held = reopened("study").study
    assert held.measure == MEASURE
    assert held.dumped()["measure"] == MEASURE
    ledger._set(measure=1)
    assert reopened("study").record().measure == 1, "it is still read"
    with pytest.raises(StudyError, match=rf"has measure 1, and what is run today has measure {MEASURE}.*--name NEW"):
        open_ledger()


def test_an_outcome_is_taken_apart_by_seed_and_what_it_does_not_say_of_every_seed_is_not_known() -> None:
    outcome = steady(0.9, 0.4, ("pmc", "norm"), seeds=2).model_copy(update={"utility_variance": [1e-4, 2e-4]})
    outcome.attacks["pmc"].noise.extend([0.02, 0.03])
    outcome.attacks["norm"].candidates["w"] = [0.7, 0.8]
    floors = {"": {"own columns": [0.6, 0.7]}}
    found = records_of(outcome, (1000, 1001), References(r_lower={"pmc": [0.55, 0.56]}, floors=floors))
    assert list(found) == [1000, 1001]
    second, values = found[1001], outcome.attacks["pmc"].values
    assert (second.outcome, second.utility, second.variance) == ("ok", pytest.approx(0.9), 2e-4)
    assert second.attacks["pmc"] == AttackOfSeed(
        guess=0.5, party="", r_lower=0.56, noise=0.03, candidates={"v": values[1]}
    )
    assert second.floors == {"": {"own columns": 0.7}}
    assert second.without_messages("pmc") == {"own columns": 0.7, "pmc on an untrained model": 0.56}
    assert second.without_messages("norm") == {"own columns": 0.7}
    assert second.attacks["norm"].candidates["w"] == 0.8
    assert (second.attacks["norm"].r_lower, second.attacks["norm"].noise) == (None, None)
    outcome.attacks["norm"].metric = "reconstruction"
    features = records_of(outcome, (1000, 1001), References(floors=floors))[1000]
    assert features.without_messages("norm") == {}, "an attack on features has its own"
    few = records_of(outcome.model_copy(update={"utility_variance": [1e-4]}), (1000, 1001), References())
    assert [record.variance for record in few.values()] == [None, None]


def test_attackers_that_were_tuned_are_kept_by_trial_and_each_once() -> None:
    ledger = open_ledger()
    first = TunedAttack(
        attack="pmc", params={"steps": 3}, variant="v", success=(0.9,), floors=(0.5,), advantages=(0.8,), tried=4,
        minutes=1.0,
    )  # fmt: skip
    longer = first.model_copy(update={"minutes": 2.0})
    for _ in range(13):
        ledger.begin({"scale": 0.01})
    for number, found in ((12, first), (3, first), (12, longer)):
        Confirmations(ledger.place, None).keep_tuned(("study", number), found)
    Confirmations(ledger.place, None).keep(("study", 12, 1000), SEEN)
    ledger.close()
    held = Confirmations(storage_at(), None)
    assert held.tuned("study") == {("study", 12): longer, ("study", 3): first}
    assert held.records("study") == {("study", 12, 1000): SEEN}


def test_points_of_a_joint_answer_are_found_by_study_data_set_and_whether_they_stay() -> None:
    points = tuple(
        p.model_copy(update={"study": study, "dataset": dataset})
        for study, dataset in (("a", "wine"), ("b", "digits"))
        for p in made_up_confirmation().points
    )
    line = Line(numbers=(10, 10), params={}, utility=(0.9, 0.9), leakage=(0.3, 0.3), dataset="wine", studies=("a", "b"))
    answer = Confirmation(
        schema="tune-vfl/confirmation/1", name="c", measure=MEASURE, seeds=(1000,), points=points, lines=(line,),
        checks=(), reserve={}, baseline={}, gap={}, knee={"wine": PointName(study="a", number=10)},
    )  # fmt: skip
    assert list(answer.by_setting) == [("a", 10), ("b", 10)], "those that stay"
    assert {p.study for p in answer.on("wine")} == {"a"}
    assert len(answer.on("wine")) == 3
    assert [str(p) for p in line.points] == ["a#10", "b#10"]
    assert answer.knee["wine"].setting == ("a", 10)
    assert Confirmation.model_validate(answer.plain()) == answer
