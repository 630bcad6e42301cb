"""The page of a search."""

from dataclasses import replace

import pytest

import reports.page
from reports.latest import LatestReport
from tune_vfl.ledger.campaigns import CampaignRecord
from tune_vfl.search.live_page import EVERY_SECONDS, FIRST_AFTER_SECONDS, LivePage
from tune_vfl.testing.studies import made_up_study


@pytest.fixture
def made(monkeypatch):
    calls = []

    def report_files(campaign, *, refreshing=False, pictures=None):
        calls.append(refreshing)
        return {"index.html": f"{sum(len(s.trials) for s in campaign.studies)} trials".encode()}

    monkeypatch.setattr(reports.page, "report_files", report_files)
    return calls


def test_it_is_written_now_and_then_and_at_the_end(tmp_path, made, capsys):
    study, clock = made_up_study(8), [0.0]
    held = [CampaignRecord.of(replace(study, running=2))]
    page = LivePage(lambda: held[0], tmp_path / "out", LatestReport(), lambda: clock[0])
    page.on_trials("s", study.trials[:1])
    assert made == [], "a short search does not pay for it"
    clock[0] = FIRST_AFTER_SECONDS
    page.on_trials("s", study.trials[1:2])
    page.on_trials("s", study.trials[2:3])
    assert made == [True]
    assert "index.html shows how it goes" in capsys.readouterr().err
    clock[0] += EVERY_SECONDS
    page.on_trials("s", study.trials[3:4])
    assert made == [True, True]
    held[0] = CampaignRecord.of(study)
    page.on_end()
    assert made == [True, True, False]
    assert capsys.readouterr().err == ""


def test_a_lone_study_is_shown_as_it_was_told_without_a_look_at_the_ledger(tmp_path, monkeypatch):
    shown, clock, whole = [], [0.0], made_up_study(8, failures=())
    monkeypatch.setattr(reports.page, "report_files", lambda c, **_: shown.append(c) or {"index.html": b""})
    page = LivePage(pytest.fail, tmp_path / whole.name, LatestReport(), lambda: clock[0])
    page.on_study(replace(whole, trials=whole.trials[:2], waiting=5, running=1))
    for trial in reversed(whole.trials[2:]):
        page.on_trials(whole.name, [trial])
        clock[0] += 1000 * EVERY_SECONDS
    assert [len(c.studies[0].trials) for c in shown] == [4, 5, 6, 7, 8]
    assert [c.owed for c in shown] == [4, 3, 2, 1, 0], "of eight in all"
    assert shown[-1].studies[0].trials == whole.trials, "in their order"
    confirmed = replace(whole, cost=1.5)
    page.on_study(confirmed)
    page.on_end()
    assert shown[-1] == CampaignRecord.of(confirmed)


def test_shortly_before_the_end_no_page_is_begun(tmp_path, monkeypatch):
    """A page takes ten seconds here, a trial one: of the last fifty seconds, or trials, the last page tells."""
    clock, shown, whole = [0.0], [], made_up_study(200, failures=())

    def slow(campaign, **_):
        clock[0] += 10.0
        shown.append(len(campaign.studies[0].trials))
        return {"index.html": b""}

    monkeypatch.setattr(reports.page, "report_files", slow)
    monkeypatch.setattr("tune_vfl.search.live_page._SHARE", 1)
    page = LivePage(pytest.fail, tmp_path / whole.name, LatestReport(), lambda: clock[0])
    page.on_study(replace(whole, trials=(), waiting=200))
    for trial in whole.trials:
        clock[0] += 1.0
        page.on_trials(whole.name, [trial])
    assert shown[0] == 30
    assert 120 < shown[-1] <= 165
    page.on_end()
    assert shown[-1] == 200


def test_a_search_that_was_over_soon_has_its_page_at_the_end(tmp_path, made, capsys):
    study = made_up_study(8)
    page = LivePage(lambda: CampaignRecord.of(study), tmp_path / "out", LatestReport())
    page.on_trials("s", study.trials)
    page.on_end()
    assert (tmp_path / "out" / "index.html").read_text() == f"{len(study.trials)} trials"
    assert "index.html shows how it went" in capsys.readouterr().err


def test_a_search_that_brought_nothing_new_writes_no_page(tmp_path, made):
    LivePage(lambda: CampaignRecord.of(made_up_study(8)), tmp_path / "out", LatestReport()).on_end()
    assert made == []
    assert not (tmp_path / "out").exists()


def test_a_report_is_made_once_of_each_state(made):
    latest, study = LatestReport(), made_up_study(8)
    first = latest.of(CampaignRecord.of(study))
    again = latest.of(CampaignRecord.of(made_up_study(8)))
    assert again is first
    assert made == [False]
    assert latest.of(CampaignRecord.of(replace(study, trials=study.trials[:7]))) == {"index.html": b"7 trials"}
    assert made == [False, False]
