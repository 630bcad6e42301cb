"""The undefended model of studies: measured once for those that have the same, kept with each, and measured again."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.helpers.campaigns import steady
from tests.helpers.ledgers import open_ledger
from tune_vfl.driver.undefended import Undefended, shared, undefended
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.outcome import Outcome
from tune_vfl.records.studies import StudyRecord
from tune_vfl.spec import Named
from tune_vfl.spec.cell import References

pytestmark = pytest.mark.usefixtures("home")

MODEL = steady(0.95, 0.9, ("norm",), seeds=10)


class Hears:
    """Remembers what it is told of undefended models."""

    def __init__(self) -> None:
        self.told: list[tuple[Sequence[str], Outcome]] = []

    def on_baseline(self, records: Sequence[StudyRecord], outcome: Outcome) -> None:
        self.told.append(([record.name for record in records], outcome))


def two(**fields: Any) -> list[Ledger]:
    return [open_ledger(name, defense=name, **fields) for name in ("laplace", "gaussian")]


def test_a_cell_without_its_defense_has_more_seeds_and_a_head_of_its_own() -> None:
    cell = open_ledger().cell
    plain = undefended(cell)
    assert (plain.defense, plain.fixed, len(plain.seeds)) == ("none", {}, 10)
    assert (plain.dataset, plain.training, plain.attacks, plain.model) == (
        cell.dataset, cell.training, cell.attacks, cell.model,
    )  # fmt: skip
    scalar = cell.model_copy(update={"defense": "gafm", "model": Named(name="mlp", head="scalar")})
    assert undefended(scalar).model.options["head"] == "auto", "a head that the defense asks for goes with it"
    kept = cell.model_copy(update={"model": Named(name="mlp", head="scalar")})
    assert undefended(kept).model.options["head"] == "scalar"


def test_studies_that_differ_by_their_defense_alone_share_one() -> None:
    alike = two()
    other = open_ledger("other", attacks=["norm", "mean"])
    assert [[one.study.name for one in model._ledgers] for model in shared([alike[0], other, alike[1]])] == [
        ["laplace", "gaussian"],
        ["other"],
    ]


def test_what_was_measured_is_kept_with_each_study_and_told_once() -> None:
    ledgers, hears = two(), Hears()
    model = Undefended(ledgers)
    model.observers = [hears]
    assert model.pending
    job = model.next_job()
    assert job is not None
    pack = job.message()
    assert (pack["params"], pack["references"]) == ([{}], References().model_dump_json())
    assert '"defense":"none"' in pack["cell"]
    model.store(job, [MODEL.model_dump(mode="json")])
    assert [ledger.baseline for ledger in ledgers] == [MODEL, MODEL]
    assert hears.told == [(["laplace", "gaussian"], MODEL)]
    assert not model.pending


def test_what_one_study_knows_the_others_are_given() -> None:
    ledgers = two()
    ledgers[1].set_baseline(MODEL)
    model = Undefended(ledgers)
    assert model.over
    assert not model.pending
    assert [ledger.baseline for ledger in ledgers] == [MODEL, MODEL]


@pytest.mark.parametrize("outcome", ["error", "oom", "timeout", "preempted"])
def test_what_says_nothing_of_the_model_is_measured_again(outcome: Any) -> None:
    ledgers = two()
    ledgers[0].set_baseline(Outcome.failed(outcome, "no room"))
    model = Undefended(ledgers)
    assert model.pending
    job = model.next_job()
    assert job is not None
    model.store(job, [MODEL.model_dump(mode="json")])
    assert [ledger.baseline for ledger in ledgers] == [MODEL, MODEL]


def test_a_model_that_diverges_does_so_again() -> None:
    ledgers = two()
    ledgers[0].set_baseline(Outcome.failed("diverged", "NaN"))
    assert Undefended(ledgers).over
    assert [ledger.baseline for ledger in ledgers] == [Outcome.failed("diverged", "NaN")] * 2


def test_it_may_take_as_long_as_a_trial() -> None:
    assert Undefended(two()).job().seconds_allowed is None
    limited = open_ledger("limited", budget={"trial_minutes": 3})
    assert Undefended([limited]).job().seconds_allowed == 180.0
