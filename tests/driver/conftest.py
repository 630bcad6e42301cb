"""Shared by the tests of searches: workers that are this process."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from ray.tune.search.searcher import Searcher

from tune_vfl.execution import ray_session, runner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tune_vfl.execution.losses import Cause
    from tune_vfl.execution.pack_searcher import PackSearcher


class Workers:
    """Answers packs, as many at a time as there is room for, in the order in which they were asked.

    Attributes:
        packs: all that were handed out.
        together: the largest number that ran at once.
        costs_together: the largest number of costs that were measured at once.
        fate: says of a pack why its worker fails, or nothing.
        after: is called when a pack was answered.
    """

    def __init__(self, room: int) -> None:
        self.room, self.together, self.costs_together = room, 0, 0
        self.packs: list[Mapping[str, Any]] = []
        self.fate: Callable[[Mapping[str, Any]], Cause | None] = lambda _pack: None
        self.after: Callable[[PackSearcher], None] = lambda _searcher: None

    def tuned(self, searcher: PackSearcher, trainable: Any, *_: Any) -> None:
        flying: dict[str, Mapping[str, Any]] = {}
        while True:
            pack = searcher.suggest(f"pack{len(self.packs)}")
            if isinstance(pack, dict):
                flying[f"pack{len(self.packs)}"] = pack
                self.packs.append(pack)
                self.together = max(self.together, len(flying))
                costs = sum(p.get("asks") == "cost" for p in flying.values())
                self.costs_together = max(self.costs_together, costs)
                continue
            if not flying:
                assert pack == Searcher.FINISHED
                return
            name = next(iter(flying))
            self._end(searcher, trainable, name, flying.pop(name))
            self.after(searcher)

    def _end(self, searcher: PackSearcher, trainable: Any, name: str, pack: Mapping[str, Any]) -> None:
        lost = self.fate(pack)
        if lost is not None:
            searcher.on_trial_complete(name, error=True)
            searcher.fail(name, lost)
        else:
            worker = object.__new__(trainable)
            worker._pack = {**pack, "seconds": None}
            searcher.on_trial_complete(name, copy.deepcopy(worker.step()))  # as another process reads it
        if searcher.failure is not None:
            raise searcher.failure

    @property
    def trials(self) -> list[Mapping[str, Any]]:
        """The packs of trials, the undefended model's left out."""
        return [p for p in self.packs if "asks" not in p and '"defense":"none"' not in p["cell"]]


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    found = Workers(2)

    class Room:
        def __init__(self, *_: Any) -> None:
            pass

        def packs(self) -> int:
            return found.room

    monkeypatch.setattr(ray_session, "connect", lambda: None)
    monkeypatch.setattr(ray_session, "capacity_for", Room)
    monkeypatch.setattr(runner, "run_tune", found.tuned)
    return found
