"""What a search hands out, and in which order, without workers."""

from types import SimpleNamespace

from ray.tune.search.searcher import Searcher

from tests.helpers.errands import Asking
from tune_vfl.search.errands import Errands
from tune_vfl.search.searcher import LedgerSearcher, RunSettings


def searcher_of(*, costs_block):
    """A searcher with two errands of each kind, and what it asked of its studies, which have no trial."""
    asked = []
    turns = SimpleNamespace(next=lambda: asked.append("trials"))
    errands = Errands(
        references=[Asking("references", blocks=True), Asking("references", blocks=True)],
        undefended=[Asking("undefended"), Asking("undefended")],
        costs=[Asking("cost", blocks=costs_block), Asking("cost", blocks=costs_block)],
    )
    return LedgerSearcher(turns, errands, RunSettings(lambda: 8)), asked


def handed_out(searcher, name):
    """All that can be handed out now, named one after the other."""
    packs = {}
    while isinstance(pack := searcher.suggest(f"{name}{len(packs)}"), dict):
        packs[f"{name}{len(packs)}"] = pack
    return packs


def test_what_trials_wait_for_is_asked_first_and_waits_for_no_other_worker():
    searcher, asked = searcher_of(costs_block=True)
    first = handed_out(searcher, "first")
    assert [pack["asks"] for pack in first.values()] == ["references", "references", "cost", "cost"]
    searcher.on_trial_complete("first0", {"outcomes": ["answer"]})
    assert handed_out(searcher, "none") == {}, "all else waits for both references"
    searcher.on_trial_complete("first1", {"outcomes": ["answer"]})
    second = handed_out(searcher, "second")
    assert [pack["asks"] for pack in second.values()] == ["undefended", "undefended"]
    searcher.on_trial_complete("first2", {"outcomes": ["answer"]})
    assert searcher.suggest("more") is None
    assert asked == [], "trials wait for both costs"
    searcher.on_trial_complete("first3", {"outcomes": ["answer"]})
    assert searcher.suggest("more") is None
    assert asked == ["trials"], "they do not wait for undefended models"
    for one in second:
        searcher.on_trial_complete(one, {"outcomes": ["answer"]})
    assert searcher.suggest("more") == str(Searcher.FINISHED)


def test_costs_that_no_trial_waits_for_come_when_no_trial_is_left_to_ask():
    searcher, asked = searcher_of(costs_block=False)
    first = handed_out(searcher, "first")
    assert [pack["asks"] for pack in first.values()] == ["references", "references", "cost", "cost"]
    assert asked == [], "beside the last references there is nothing else to do"
    for one in first:
        searcher.on_trial_complete(one, {"outcomes": ["answer"]})
    assert [pack["asks"] for pack in handed_out(searcher, "second").values()] == ["undefended", "undefended"]
    assert asked
