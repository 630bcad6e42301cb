"""Which models a page's pictures are of, and what is said where there is nothing to picture."""

from dataclasses import replace

import pytest

from tests.helpers.studies import made_up_outcome, made_up_study, made_up_trial
from tune_vfl.errors import StudyError
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.service import picturing

POINTS = ((0.51, 0.50), (0.90, 0.80), (0.88, 0.62))


def campaign():
    trials = [made_up_trial(n, scale=10.0**-n, outcome=made_up_outcome(*p)) for n, p in enumerate(POINTS)]
    return CampaignRecord.of(replace(made_up_study(2), trials=tuple(trials)))


def test_pictured_are_no_defense_and_the_best_compromise_not_what_leaks_least_of_all(monkeypatch):
    trained, lines = [], []
    monkeypatch.setattr(picturing, "pictured", lambda cell, params: trained.append((cell.defense, params)) or ["image"])
    monkeypatch.setattr(picturing, "drawn", lambda found: lines.extend(found) or b"png")
    record = campaign()
    assert picturing.pictures_of(record) == {record.studies[0].cell.dataset.name: b"png"}
    assert trained == [("none", {}), (record.studies[0].cell.defense, {"scale": 0.01})]
    assert [line.called for line in lines] == ["no defense", "laplace scale=0.01"]


def test_where_no_attack_is_after_images_it_says_what_there_must_be(monkeypatch):
    monkeypatch.setattr(picturing, "pictured", lambda cell, params: [])
    with pytest.raises(StudyError, match="nothing to picture: that takes images"):
        picturing.pictures_of(campaign())
