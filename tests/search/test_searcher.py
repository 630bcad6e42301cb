"""What a search hands out, and in which order, without workers."""

from types import SimpleNamespace

from ray.tune.search.searcher import Searcher

from tests.helpers.errands import Asking
from tune_vfl.search.errands import Errands
from tune_vfl.search.searcher import LedgerSearcher, RunSettings


class Empty:
    """A study without a trial to ask for, which notes that it was asked."""

    taken = 0

    def __init__(self):
        self.asked = 0

    @property
    def owes(self):
        self.asked += 1
        return False


def searcher_of():
    """A searcher with two errands of each kind, and its study, which has no trial."""
    study = Empty()
    errands = Errands(
        references=[Asking("references"), Asking("references")],
        undefended=[Asking("undefended"), Asking("undefended")],
        costs=[Asking("cost"), Asking("cost")],
    )
    return LedgerSearcher([study], errands, RunSettings(lambda: 8)), study


def handed_out(searcher, name):
    """All that can be handed out now, named one after the other."""
    packs = {}
    while isinstance(pack := searcher.suggest(f"{name}{len(packs)}"), dict):
        packs[f"{name}{len(packs)}"] = pack
    return packs


def test_references_are_asked_first_and_undefended_models_hold_up_no_trial():
    searcher, study = searcher_of()
    first = handed_out(searcher, "first")
    assert [pack["asks"] for pack in first.values()] == ["references", "references", "cost", "cost"]
    searcher.on_trial_complete("first0", {"outcomes": ["answer"]})
    assert handed_out(searcher, "none") == {}, "all else waits for both references"
    assert study.asked == 0
    searcher.on_trial_complete("first1", {"outcomes": ["answer"]})
    second = handed_out(searcher, "second")
    assert [pack["asks"] for pack in second.values()] == ["undefended", "undefended"]
    assert study.asked == 1, "trials wait neither for costs nor for undefended models"
    for one in ("first2", "first3", *second):
        searcher.on_trial_complete(one, {"outcomes": ["answer"]})
    assert searcher.suggest("more") == str(Searcher.FINISHED)


def test_the_study_with_the_fewest_trials_asks_next_while_it_owes_some():
    def part(name, taken, *, owes=True):
        told = {"ask": lambda _id: ([taken], [{}]), "pack": lambda _params: {"of": name}}
        return SimpleNamespace(name=name, taken=taken, owes=owes, seconds_allowed=lambda _: None, **told)

    nothing = Errands(references=[], undefended=[], costs=[])
    parts = [part("a", 3), part("b", 1), part("c", 0, owes=False)]
    assert LedgerSearcher(parts, nothing, RunSettings(lambda: 1)).suggest("x")["of"] == "b"
    assert LedgerSearcher(parts[2:], nothing, RunSettings(lambda: 1)).suggest("x") == str(Searcher.FINISHED)
