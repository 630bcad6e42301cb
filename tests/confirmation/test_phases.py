"""A confirmation from phase to phase with this process for workers: in what order, what it is given, where it stops."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.confirmation.conftest import Here
from tests.helpers.contests import in_campaign, played, searched
from tests.helpers.ledgers import reopened
from tests.helpers.simulated import SimulatedTrainable
from tune_vfl.confirmation.contest import Contest
from tune_vfl.confirmation.run import confirm
from tune_vfl.execution import runner
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.ledger.confirmation_store import Confirmations
from tune_vfl.records.confirmations import UNDEFENDED
from tune_vfl.spec.cell import Cell

pytestmark = pytest.mark.usefixtures("home")

SCALES = (1e-5, 1e-3, 1e-1)
WORK = TrainableSpec(SimulatedTrainable, {"noise": 0.02})


def phases(capfd: Any) -> list[int]:
    """Return the phases that were said, in their order."""
    return [int(n) for n in re.findall(r": phase (\d+): ", capfd.readouterr().err)]


def test_phases_are_said_as_they_come(here: type[Here], capfd: Any) -> None:
    searched(scales=SCALES).close()
    assert confirm("study", seeds=3, work=WORK).answer is not None
    said = phases(capfd)
    assert said[0] == 1
    assert said == sorted(set(said))
    assert 1 < len(said) <= 4, "there are four, the last ones for what is contested"


@pytest.mark.parametrize("known", [1002, 10_000], ids=["the first phase of one is over", "one has come to its end"])
def test_of_two_data_sets_the_earliest_phase_is_said(here: type[Here], capfd: Any, known: int) -> None:
    first, second = searched("first", scales=SCALES), searched("second", scales=SCALES, dataset={"name": "wine"})
    for place, record in played(Contest.of(first.record(), 3)).items():
        if place[2] < known or place[1] == UNDEFENDED:
            Confirmations(first.place, None).keep(place, record)
    in_campaign([first, second])
    ended = confirm("campaign", seeds=3, work=WORK)
    assert phases(capfd)[0] == 1
    assert {p.dataset for p in ended.answer.points} == {"breast_cancer", "wine"}  # type: ignore[union-attr]
    asked = {(job.study, number, s) for name, job in here.asked if name == "job" for number in job.numbers
             for s in job.cell.seeds}  # fmt: skip
    assert not any(study == "first" and seed < known for study, _, seed in asked), "what is known is not run again"


def test_workers_are_given_what_the_study_asks_for_and_the_lease_s_share_of_ray(here: type[Here]) -> None:
    searched(scales=SCALES, resources={"cpu": 3}).close()
    confirm("study", seeds=1, work=WORK)
    ((resources, lease),) = here.given["room"]
    assert resources.cpu == 3
    assert lease.study == "study"
    assert {given.cpu for given in here.given["resources"]} == {3}
    assert here.given["connections"]


def test_the_real_thing_is_trained_where_nothing_else_is_said(
    here: type[Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    searched(scales=SCALES).close()
    monkeypatch.setattr(TrainableSpec, "real", classmethod(lambda _cls: WORK))
    assert confirm("study", seeds=1).answer == confirm("study", seeds=1, work=WORK).answer
    assert here.asked


def test_what_does_not_stack_is_trained_alone(here: type[Here]) -> None:
    class Halved(SimulatedTrainable):
        @classmethod
        def most_per_pack(cls, cell: Cell) -> int:
            return 1 if cell.defense == "none" else 2

    searched(scales=SCALES).close()
    confirm("study", seeds=3, work=TrainableSpec(Halved, {"noise": 0.02}))
    jobs = [job for name, job in here.asked if name == "job"]
    assert {len(job.cell.seeds) for job in jobs if job.numbers == (UNDEFENDED,)} == {1}
    assert max(len(job.cell.seeds) * len(job.numbers) for job in jobs) > 1


def test_a_setting_that_fails_takes_none_down_that_comes_after_it(here: type[Here]) -> None:
    searched(scales=SCALES[::-1]).close()
    ended = confirm("study", seeds=3, work=TrainableSpec(SimulatedTrainable, {"noise": 0.02, "raise_above": 0.8}))
    assert list(ended.failed) == [("study", 0)]
    assert {p.number for p in ended.answer.points if p.outcome == "ok"} == {1, 2}  # type: ignore[union-attr]


def test_an_undefended_model_that_cannot_be_measured_is_called_that(here: type[Here], capfd: Any) -> None:
    def fate(name: str, key: Any) -> Any:
        return "crash" if name == "job" and UNDEFENDED in key.numbers else None

    here.fate = staticmethod(fate)
    searched(scales=SCALES).close()
    ended = confirm("study", seeds=2, work=WORK)
    assert "confirm study: the undefended model could not be measured: its worker" in capfd.readouterr().err
    assert ended.answer is not None
    assert ended.answer.undefended.outcome == "error"  # type: ignore[union-attr]
    assert "its worker process died" in ended.answer.undefended.reason  # type: ignore[union-attr]
    in_campaign([searched(name, defense=name, scales=SCALES) for name in ("laplace", "gaussian")])
    confirm("campaign", seeds=2, work=WORK)
    assert "confirm campaign: the undefended model of laplace could not be" in capfd.readouterr().err


def test_a_stop_among_attackers_says_how_many_are_owed(here: type[Here], monkeypatch: pytest.MonkeyPatch) -> None:
    searched(scales=SCALES).close()
    kept = [p.number for p in confirm("study", seeds=2, work=WORK).answer.points if p.confirmed]  # type: ignore[union-attr]
    here.given["connections"].clear()
    stops: list[Callable[[], None]] = []
    usual = runner.answered

    def answered(say: Any, **given: Any) -> Any:
        stops.extend(given.values())
        return usual(say, **given)

    monkeypatch.setattr(runner, "answered", answered)
    here.after = staticmethod(lambda: stops[-1]())  # noqa: PLW0108 - the last one that there is then
    stopped = confirm("study", seeds=2, adaptive=0.5, work=WORK)
    assert (stopped.answer, stopped.owed) == (None, len(kept) - 1)
    here.after = staticmethod(lambda: None)
    ended = confirm("study", seeds=2, adaptive=0.5, work=WORK)
    assert ended.owed == 0
    assert {p.number for p in ended.answer.points if p.tuned} == set(kept)  # type: ignore[union-attr]
    assert [name for name, _ in here.asked].count("attacker") == len(kept), "nobody is tuned twice"


def test_a_campaign_s_answer_is_what_its_studies_say_together(here: type[Here]) -> None:
    ledgers = [searched(name, defense=name, scales=SCALES) for name in ("laplace", "gaussian")]
    in_campaign(ledgers)
    work = replace(WORK, options={"noise": 0.02, "by_defense": {"gaussian": {"parameter": "sigma"}}})
    tuned = confirm("campaign", seeds=2, adaptive=0.5, work=work).answer
    assert tuned is not None
    for name in ("laplace", "gaussian"):
        own = reopened(name).record().confirmation
        assert own is not None
        assert own.points == tuple(p for p in tuned.points if p.study == name)
        assert all(p.tuned for p in own.points if p.confirmed), "attackers are part of both answers"
