"""What a search hands out, and in which order, without workers."""

from types import SimpleNamespace

from ray.tune.search.searcher import Searcher

from tune_vfl.search.errands import Errands
from tune_vfl.search.searcher import LedgerSearcher, RunSettings

CELL = SimpleNamespace(model_dump_json=lambda: "{}")


class Errand:
    """A measurement or a cost that is over when it was told."""

    steers, over, taken = True, False, False

    @property
    def owed(self):
        return not self.taken

    def announce(self):
        pass

    def take(self):
        self.taken = True
        return CELL

    def end(self, numbers, sent):
        self.over = True


class Priced(Errand):
    """A cost."""

    def take(self):
        return super().take(), {"scale": 0.1}, CELL


def test_what_trials_wait_for_is_asked_first_and_waits_for_no_other_worker():
    asked = []
    turns = SimpleNamespace(packs=8, next=lambda: asked.append("trials"))
    errands = Errands([Errand(), Errand()], [], [Priced(), Priced()])
    searcher = LedgerSearcher(turns, errands, RunSettings(8, lambda: 8))
    packs = [searcher.suggest(str(number)) for number in range(5)]
    assert [pack["asks"] for pack in packs[:4]] == ["references", "references", "cost", "cost"]
    assert [pack["gate"] for pack in packs[:4]] == [None] * 4
    assert packs[4] is None
    for number in (2, 0, 3, 1):
        assert searcher.suggest("more") is None
        assert asked == [], "trials wait for both"
        searcher.on_trial_complete(str(number), {"outcomes": []})
    assert searcher.suggest("more") == str(Searcher.FINISHED)
    assert asked == ["trials"]
