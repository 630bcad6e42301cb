"""Shared by the tests of confirmations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tune_vfl.execution import ray_session, runner
from tune_vfl.execution.pack_searcher import PackSearcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from tune_vfl.execution.jobs import Job
    from tune_vfl.spec.cell import Cell


@pytest.fixture
def as_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Confirm with the attacks of the search alone, as before a confirmation added one."""
    monkeypatch.setattr("tune_vfl.confirmation.jobs._added", lambda cell: [])


class Trainings(NamedTuple):
    """The trainings of one job: settings of a study."""

    study: str
    numbers: tuple[int, ...]
    cell: Cell


class Here:
    """A worker in this process.

    Attributes:
        asked: the kind of each job (floors, job, attacker, a search's own), and its cell, trainings or setting.
        limits: trainings with their time limit in seconds.
        given: what Ray was connected with and asked for.
        fate: returns the cause of a pack's failure, None for none.
        after: called after each answer.
    """

    asked: list[tuple[str, Any]]
    limits: list[tuple[Any, float | None]]
    given: dict[str, list[Any]]
    fate: Callable[[str, Any], Any]
    after: Callable[[], None]

    @classmethod
    def run(cls, searcher: PackSearcher, trainable: Any, resources: Any, *_: Any) -> None:
        cls.given["resources"].append(resources)
        assert cls.given["connections"], "Ray is connected to before anything is sent to it"
        count = 0
        while isinstance(message := searcher.suggest(f"pack{count}"), dict):
            kind, key = cls._kind(searcher._running[f"pack{count}"])
            cls._end(searcher, trainable, f"pack{count}", (kind, key, message))
            count += 1
        assert message == PackSearcher.FINISHED

    @classmethod
    def _kind(cls, job: Job) -> tuple[str, Any]:
        first = next(iter(job.settings))
        if job.asks == "floors":
            return "floors", job.cell
        if job.asks == "attacker" or not isinstance(first, tuple):  # or a search's
            return job.asks, first
        trainings = Trainings(first[0], tuple(number for _, number in job.settings), job.cell)
        cls.limits.append((trainings, job.seconds_allowed))
        return "job", trainings

    @classmethod
    def _end(cls, searcher: PackSearcher, trainable: Any, name: str, pack: tuple[str, Any, dict[str, Any]]) -> None:
        kind, key, message = pack
        cls.asked.append((kind, key))
        if (cause := cls.fate(kind, key)) is not None:
            searcher.fail(name, cause)
        else:
            worker = object.__new__(trainable)
            worker._pack = {**message, "seconds": None}
            searcher.on_trial_complete(name, worker.step())
        cls.after()
        if searcher.failure is not None:
            raise searcher.failure


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> type[Here]:
    """Have a confirmation's workers be this process."""

    class Fresh(Here):
        asked: list[tuple[str, Any]] = []  # noqa: RUF012 - made anew for each test
        limits: list[tuple[Any, float | None]] = []  # noqa: RUF012
        given = {"resources": [], "room": [], "connections": []}  # noqa: RUF012
        fate = staticmethod(lambda _name, _key: None)
        after = staticmethod(lambda: None)

    class Two:
        def __init__(self, *given: Any) -> None:
            Fresh.given["room"].append(given)

        def packs(self) -> int:
            return 2

    monkeypatch.setattr(runner, "run_tune", Fresh.run)
    monkeypatch.setattr(ray_session, "connect", lambda: Fresh.given["connections"].append(True))
    monkeypatch.setattr(ray_session, "capacity_for", Two)
    return Fresh
