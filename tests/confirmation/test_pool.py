"""Calls in Ray's workers, with a Ray that is none: how many fly, what becomes of those that die, hang or raise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import ray
from ray.exceptions import RayTaskError, WorkerCrashedError

from tune_vfl.confirmation import pool as module
from tune_vfl.confirmation.pool import Died, Hung, Pool
from tune_vfl.errors import UnreachableError
from tune_vfl.execution import watchdogs
from tune_vfl.spec import Resources

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Ray:
    """Ends one call at each look, the last that began first; keeps what was asked of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.resources: dict[str, Any] = {}
        self.flying: list[list[Any]] = []
        self.most, self.begun, self.waited = 0, 0, []
        self.cancelled: list[tuple[Any, bool]] = []
        self.stuck = False
        self.now = 100.0
        for name in ("remote", "wait", "get", "cancel"):
            monkeypatch.setattr(ray, name, getattr(self, name))
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)

    def remote(self, **resources: Any) -> Callable[[Any], Any]:
        self.resources = resources

        class Remote:
            def __init__(self, function: Any) -> None:
                self.function = function

            def remote(_self: Any, *arguments: Any) -> Any:  # noqa: N805 - self is the Ray
                self.flying.append(reference := tuple([_self.function, *arguments]))  # noqa: C409
                self.most, self.begun = max(self.most, len(self.flying)), self.begun + 1
                return reference

        return Remote

    def wait(self, references: Sequence[Any], *, timeout: float) -> tuple[list[Any], list[Any]]:
        self.waited.append(timeout)
        assert list(references) == self.flying
        if self.stuck:
            self.now += timeout
            return [], list(references)
        return [self.flying.pop()], self.flying

    def get(self, reference: Any) -> Any:
        function, *arguments = reference
        return function(*arguments)

    def cancel(self, reference: Any, *, force: bool) -> None:
        self.cancelled.append((reference, force))
        self.flying.remove(reference)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Ray:
    monkeypatch.setattr(watchdogs, "own_node_lives", lambda: True)
    return Ray(monkeypatch)


def doubled(value: int) -> int:
    return 2 * value


def calls(*values: int) -> list[tuple[str, tuple[int]]]:
    return [(f"key {v}", (v,)) for v in values]


def test_every_call_is_answered_once_and_no_more_fly_than_there_is_room_for(stand_in: Ray) -> None:
    pool = Pool[str](doubled, Resources(cpu=2, gpu=0.5), lambda: 2, lambda: False)
    found = list(pool.run(calls(1, 2, 3, 4, 5)))
    assert sorted(found) == [(f"key {v}", 2 * v) for v in (1, 2, 3, 4, 5)]
    assert found[0] == ("key 2", 4), "in the order in which they end"
    assert (stand_in.most, stand_in.begun) == (2, 5)
    assert stand_in.resources == {"num_cpus": 2, "num_gpus": 0.5, "max_retries": 0}, "a death is told, not hidden"
    assert list(pool.run([])) == []


def test_room_is_asked_anew(stand_in: Ray) -> None:
    room = iter([1, 1, 3, 3, 3, 3, 3, 3, 3, 3, 3])
    pool = Pool[str](doubled, Resources(), lambda: next(room), lambda: False)
    assert len(list(pool.run(calls(1, 2, 3, 4)))) == 4
    assert stand_in.most == 3


def test_once_it_is_stopped_what_flies_answers_and_nothing_begins(stand_in: Ray) -> None:
    stopped: list[bool] = []
    pool = Pool[str](doubled, Resources(), lambda: 2, lambda: bool(stopped))
    found = []
    for key, answer in pool.run(calls(1, 2, 3, 4)):
        found.append((key, answer))
        stopped.append(True)
    assert found == [("key 2", 4), ("key 1", 2)]


def test_a_worker_that_dies_is_told_of_and_what_a_call_raises_is_raised_here(stand_in: Ray) -> None:
    def dies(value: int) -> int:
        if value == 2:
            raise WorkerCrashedError
        return doubled(value)

    found = dict(Pool[str](dies, Resources(), lambda: 1, lambda: False).run(calls(1, 2, 3)))
    assert (found["key 1"], found["key 3"]) == (2, 6)
    assert type(found["key 2"]) is Died

    def raises(value: int) -> int:
        raise RayTaskError("f", "the training broke", ValueError("no"))

    with pytest.raises(RayTaskError, match="the training broke"):
        list(Pool[str](raises, Resources(), lambda: 1, lambda: False).run(calls(1)))


def test_a_call_that_is_over_its_time_is_ended_with_its_worker(stand_in: Ray) -> None:
    stand_in.stuck = True
    pool = Pool[str](doubled, Resources(), lambda: 2, lambda: False)
    found = list(pool.run(calls(1, 2), lambda key: 60.0 if key == "key 1" else 3600.0))
    assert [(key, type(answer)) for key, answer in found] == [("key 1", Hung), ("key 2", Hung)]
    assert [(reference[1], force) for reference, force in stand_in.cancelled] == [(1, True), (2, True)]
    assert set(stand_in.waited) == {10.0}, "looked at every ten seconds"
    assert stand_in.now >= 100 + 3600 + watchdogs.GRACE_SECONDS
    before = 100 + 3600 + watchdogs.GRACE_SECONDS + 2 * 10
    assert stand_in.now <= before


def test_a_call_is_not_ended_before_its_time_and_grace_are_over(stand_in: Ray) -> None:
    stand_in.stuck = True
    pool = Pool[str](doubled, Resources(), lambda: 1, lambda: False)
    ((_, answer),) = pool.run(calls(1), lambda _: 60.0)
    assert isinstance(answer, Hung)
    assert 160 + watchdogs.GRACE_SECONDS < stand_in.now <= 160 + watchdogs.GRACE_SECONDS + 10


def test_without_a_limit_a_call_may_take_for_ever_and_a_dead_ray_is_said(
    stand_in: Ray, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in.stuck = True
    monkeypatch.setattr(watchdogs, "own_node_lives", lambda: stand_in.now < 1e6)
    with pytest.raises(UnreachableError, match="what was finished is kept, and the same command goes on"):
        list(Pool[str](doubled, Resources(), lambda: 1, lambda: False).run(calls(1)))
    assert stand_in.now >= 1e6
    assert stand_in.cancelled == []
