"""The order of a search's jobs, without workers."""

from types import SimpleNamespace

from tests.helpers.side_measurements import Asking, Empty
from tune_vfl.driver.source import SearchJobs
from tune_vfl.execution.jobs import Flight
from tune_vfl.execution.pack_searcher import PackSearcher


def started(searcher, name):
    """Start every pack that can start now; return them by their ids."""
    packs = {}
    while isinstance(pack := searcher.suggest(f"{name}{len(packs)}"), dict):
        packs[f"{name}{len(packs)}"] = pack
    return packs


def test_references_come_first_and_undefended_models_hold_up_no_trial():
    study = Empty()
    kinds = {kind: [Asking(kind), Asking(kind)] for kind in ("references", "undefended", "costs")}
    searcher = PackSearcher(SearchJobs([study], **kinds), lambda: 8, {})
    first = started(searcher, "first")
    assert [pack["asks"] for pack in first.values()] == ["references", "references", "costs", "costs"]
    searcher.on_trial_complete("first0", {"outcomes": ["answer"]})
    assert started(searcher, "none") == {}, "all else waits for both references"
    assert study.asked == 0
    searcher.on_trial_complete("first1", {"outcomes": ["answer"]})
    second = started(searcher, "second")
    assert [pack["asks"] for pack in second.values()] == ["undefended", "undefended"]
    assert study.asked == 1, "trials wait neither for costs nor for undefended models"
    for one in ("first2", "first3", *second):
        searcher.on_trial_complete(one, {"outcomes": ["answer"]})
    assert searcher.suggest("more") == str(PackSearcher.FINISHED)


def test_undefended_models_wait_for_all_references_and_trials_for_the_first():
    study, reference, model = Empty(), Asking("references", parts=2), Asking("undefended")
    jobs = SearchJobs([study], [reference], [model])
    searcher = PackSearcher(jobs, lambda: 8, {})
    assert [pack["asks"] for pack in started(searcher, "first").values()] == ["references"]
    assert jobs.beside() == ["measuring something"]
    assert study.asked == 0
    searcher.on_trial_complete("first0", {"outcomes": ["some"]})
    assert [pack["asks"] for pack in started(searcher, "second").values()] == ["references"]
    assert study.asked == 1, "trials may start"
    searcher.on_trial_complete("second0", {"outcomes": ["all"]})
    assert [pack["asks"] for pack in started(searcher, "third").values()] == ["undefended"]
    searcher.on_trial_complete("third0", {"outcomes": ["answer"]})
    assert searcher.suggest("more") == str(PackSearcher.FINISHED)
    assert jobs.beside() == []


def test_the_study_with_the_fewest_trials_comes_next_while_it_has_pending_ones():
    def study(name, taken, *, pending=True):
        return SimpleNamespace(taken=taken, has_pending=pending, next_job=lambda _id: f"job of {name}")

    studies = [study("a", 3), study("b", 1), study("c", 0, pending=False)]
    assert SearchJobs(studies).next_job("x", Flight()) == "job of b"
    assert SearchJobs(studies[2:]).next_job("x", Flight()) is None
