"""The order of a search's packs, without workers."""

from types import SimpleNamespace

from tests.helpers.side_measurements import Asking, Empty
from tune_vfl.driver.search_packs import SearchPacks
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
    searcher = PackSearcher(SearchPacks([study], **kinds), lambda: 8, {})
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


def test_the_study_with_the_fewest_trials_comes_next_while_it_has_pending_ones():
    def study(name, taken, *, pending=True):
        pack = SimpleNamespace(seconds_allowed=None, message=lambda: {"of": name})
        return SimpleNamespace(name=name, taken=taken, has_pending=pending, next_pack=lambda _id: pack)

    studies = [study("a", 3), study("b", 1), study("c", 0, pending=False)]
    assert SearchPacks(studies).next_pack("x").message()["of"] == "b"
    assert SearchPacks(studies[2:]).next_pack("x") is None
