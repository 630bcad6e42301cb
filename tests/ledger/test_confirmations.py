"""The records of a confirmation in the ledger: each once, apart from the trials, lost with nothing but their study."""

from __future__ import annotations

import pytest

from tests.helpers.confirmations import made_up_confirmation
from tests.helpers.ledgers import open_ledger
from tune_vfl.errors import StudyError
from tune_vfl.ledger.confirmations import UNDEFENDED, AttackOfSeed, SeedRecord
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.planned import PlannedStudy
from tune_vfl.ledger.reading import study_names
from tune_vfl.spec.cell import MEASURE

pytestmark = pytest.mark.usefixtures("home")

SEEN = SeedRecord(
    outcome="ok", utility=0.9, attacks={"pmc": AttackOfSeed(guess=0.5, r_lower=0.6, candidates={"chosen": 0.7})}
)
LOST = SeedRecord(outcome="diverged", reason="NaN")


def test_a_record_is_read_by_another_process_and_kept_once() -> None:
    ledger = open_ledger()
    ledger.confirmations.keep((3, 1000), LOST)
    ledger.confirmations.keep((3, 1000), SEEN)
    ledger.confirmations.keep((UNDEFENDED, 1000), LOST)
    ledger.close()
    assert Ledger.open("study").confirmations.records() == {(3, 1000): SEEN, (UNDEFENDED, 1000): LOST}
    assert Ledger.open("study").record().trials == ()
    assert study_names() == ["study"]


def test_the_answer_is_part_of_the_study_s_record() -> None:
    ledger = open_ledger()
    assert ledger.record().confirmation is None
    assert ledger.record().confirmed == {}
    answer = made_up_confirmation()
    ledger.confirmations.set_answer(answer)
    record = Ledger.open("study").record()
    assert record.confirmation == answer
    assert list(record.confirmed) == [10], "those that did not stay are not confirmed"


def test_a_study_keeps_its_measure_and_refuses_another() -> None:
    ledger = open_ledger()
    ledger.close()
    held = Ledger.open("study").study
    assert held.measure == MEASURE
    dumped = held.dumped()
    assert dumped["measure"] == MEASURE
    del dumped["measure"]
    assert PlannedStudy.read(dumped).measure == 1, "studies that do not say so are older"
    ledger._set(measure=1)
    assert Ledger.open("study").record().measure == 1, "it is still read"
    with pytest.raises(StudyError, match=rf"has measure 1, and what is run today has measure {MEASURE}.*--name NEW"):
        open_ledger()
