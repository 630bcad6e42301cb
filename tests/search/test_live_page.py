"""The page of a search that runs."""

from dataclasses import replace

import pytest

from tune_vfl.ledger.campaigns import CampaignRecord
from tune_vfl.search.live_page import EVERY_SECONDS, FIRST_AFTER_SECONDS, LivePage
from tune_vfl.testing.studies import made_up_study


@pytest.fixture
def written(monkeypatch):
    calls = []
    monkeypatch.setattr(
        "reports.page.write_report", lambda c, out, *, refreshing: calls.append(refreshing) or out / "index.html"
    )
    return calls


def test_it_is_written_now_and_then_and_at_the_end(tmp_path, written, capsys):
    study, clock = made_up_study(8), [0.0]
    held = [CampaignRecord.of(replace(study, running=2))]
    page = LivePage(lambda: held[0], tmp_path, lambda: clock[0])
    page.on_trials("s", study.trials[:1])
    assert written == [], "a short search does not pay for it"
    clock[0] = FIRST_AFTER_SECONDS
    page.on_trials("s", study.trials[1:2])
    page.on_trials("s", study.trials[2:3])
    assert written == [True]
    assert "index.html shows how it goes" in capsys.readouterr().err
    clock[0] += EVERY_SECONDS
    page.on_trials("s", study.trials[3:4])
    assert written == [True, True]
    held[0] = CampaignRecord.of(study)
    page.on_end()
    assert written == [True, True, False]


def test_a_search_that_was_over_at_once_has_no_page(tmp_path, written):
    page = LivePage(lambda: CampaignRecord.of(made_up_study(8)), tmp_path)
    page.on_end()
    assert written == []
