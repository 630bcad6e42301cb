"""The page of a search."""

from dataclasses import replace

import pytest

import reports.page
from tests.helpers.studies import made_up_study
from tune_vfl.driver.live_page import EVERY_SECONDS, FIRST_AFTER_SECONDS, LivePage
from tune_vfl.records.campaigns import CampaignRecord

pytestmark = pytest.mark.usefixtures("home")

STUDIES = (made_up_study(8, failures=()), made_up_study(9, failures=()))


@pytest.fixture
def made(monkeypatch):
    calls = []

    def report_files(campaign, *, refreshing=False, pictures=None):
        calls.append(refreshing)
        return {"index.html": f"{sum(len(s.trials) for s in campaign.studies)} trials".encode()}

    monkeypatch.setattr(reports.page, "report_files", report_files)
    return calls


def drawn(look):
    """What draws the report of the end."""
    return lambda: reports.page.report_files(look())


def test_it_is_written_now_and_then_and_at_the_end(home, made, capsys):
    study, clock = made_up_study(8), [0.0]
    held = [CampaignRecord.of(replace(study, running=2))]
    page = LivePage("s", lambda: held[0], drawn(lambda: held[0]), lambda: clock[0])
    page.on_study(replace(study, trials=(), waiting=8))
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


def test_a_lone_study_is_shown_as_it_was_told_without_a_look_at_the_ledger(monkeypatch):
    shown, clock, whole = [], [0.0], made_up_study(8, failures=())
    monkeypatch.setattr(reports.page, "report_files", lambda c, **_: shown.append(c) or {"index.html": b""})
    page = LivePage(whole.name, pytest.fail, dict, lambda: clock[0])
    page.on_study(replace(whole, trials=whole.trials[:2], waiting=5, running=1))
    for trial in reversed(whole.trials[2:]):
        page.on_trials(whole.name, [trial])
        clock[0] += 1000 * EVERY_SECONDS
    assert [len(c.studies[0].trials) for c in shown] == [4, 5, 6, 7], "the last page comes when nothing is left"
    assert [c.owed for c in shown] == [4, 3, 2, 1], "of eight in all"
    assert shown[-1].studies[0].trials == tuple(t for t in whole.trials if t.number != 2), "in their order"


def test_shortly_before_the_end_no_page_is_begun(monkeypatch):
    """A page takes ten seconds here, a trial one: of the last fifty seconds, or trials, the last page tells."""
    clock, shown, whole = [0.0], [], made_up_study(200, failures=())

    def slow(campaign, **_):
        clock[0] += 10.0
        shown.append(len(campaign.studies[0].trials))
        return {"index.html": b""}

    monkeypatch.setattr(reports.page, "report_files", slow)
    monkeypatch.setattr("tune_vfl.driver.live_page._SHARE", 1)
    page = LivePage(whole.name, pytest.fail, dict, lambda: clock[0])
    page.on_study(replace(whole, trials=(), waiting=200))
    for trial in whole.trials:
        clock[0] += 1.0
        page.on_trials(whole.name, [trial])
    assert shown[0] == 30
    assert 120 < shown[-1] <= 165


def test_a_search_that_is_soon_over_has_no_page_before_its_last(made):
    clock, study = [0.0], made_up_study(8, failures=())
    page = LivePage(study.name, pytest.fail, drawn(lambda: CampaignRecord.of(study)), lambda: clock[0])
    page.on_study(replace(study, trials=(), waiting=8))
    page.on_trials(study.name, study.trials[:1])
    clock[0] = FIRST_AFTER_SECONDS
    page.on_trials(study.name, study.trials[1:7])
    assert made == [], "the last trial takes four seconds, a first page three"
    clock[0] *= 10
    page.on_trials(study.name, study.trials[7:7])
    assert made == [True], "it did not"
    page.on_end()
    assert made == [True, False]


def test_when_nothing_is_left_of_any_study_the_last_page_is_waited_for(made):
    clock = [FIRST_AFTER_SECONDS]
    one, other = (replace(s, spec=s.spec.model_copy(update={"study": n})) for s, n in zip(STUDIES, "ab", strict=True))
    look = lambda: CampaignRecord.of(one)  # noqa: E731
    page = LivePage("c", look, drawn(look), lambda: clock[0])
    clock[0] *= 2
    for study in (one, other):
        page.on_study(replace(study, trials=study.trials[:2], waiting=len(study.counted) - 2))
    page.on_trials("a", one.trials[2:])
    assert made == [True]
    clock[0] += 2 * EVERY_SECONDS
    page.on_trials("b", other.trials[2:])
    assert made == [True], "only what the defenses cost is still measured"
    page.on_end()
    assert made == [True, False]


def test_a_search_that_was_over_soon_has_its_page_at_the_end(home, made, capsys):
    study = made_up_study(8)
    page = LivePage("s", pytest.fail, drawn(lambda: CampaignRecord.of(study)))
    page.on_study(study)
    page.on_trials("s", study.trials)
    page.on_end()
    assert (home / "reports" / "s" / "index.html").read_text() == f"{len(study.trials)} trials"
    assert "index.html shows how it went" in capsys.readouterr().err


def test_a_search_that_brought_nothing_new_writes_no_page(home, made):
    LivePage("s", pytest.fail, pytest.fail).on_end()
    assert made == []
    assert not home.exists()
