"""Shared by the tests of confirmations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tune_vfl.confirmation import trainings
from tune_vfl.execution import ray_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def as_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Confirm with the attacks of the search alone, as before a confirmation added one."""
    monkeypatch.setattr("tune_vfl.confirmation.jobs._added", lambda cell: [])


class Here:
    """Runs calls one after the other; ``fate`` may say what becomes of one, ``after`` is called after each.

    It keeps what was asked of it, how long each job was allowed, and what Ray was given.
    """

    asked: list[tuple[str, Any]]
    limits: list[tuple[Any, float | None]]
    given: dict[str, list[Any]]
    fate: Callable[[str, Any], Any]
    after: Callable[[], None]

    def __init__(self, function: Any, resources: Any, room: Any, stopped: Callable[[], bool]) -> None:
        self.function, self.stopped = function, stopped
        self.given["resources"].append(resources)
        assert self.given["connections"], "Ray is connected to before anything is sent to it"
        assert room() == 2

    def run(self, calls: Any, seconds: Callable[[Any], float | None] = lambda _: None) -> Iterator[tuple[Any, Any]]:
        for key, arguments in calls:
            if self.stopped():
                return
            name = self.function.__name__
            self.asked.append((name, key))
            if name == "evaluated":
                self.limits.append((key, seconds(key)))
            lost = type(self).fate(name, key)
            yield key, self.function(*arguments) if lost is None else lost
            type(self).after()


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> type[Here]:
    """Have a confirmation's workers be this process."""

    class Fresh(Here):
        asked: list[tuple[str, Any]] = []  # noqa: RUF012 - made anew for each test
        limits: list[tuple[Any, float | None]] = []  # noqa: RUF012
        given = {"resources": [], "room": [], "connections": []}  # noqa: RUF012
        fate = staticmethod(lambda _name, _key: None)
        after = staticmethod(lambda: None)

    class Room:
        def __init__(self, *given: Any) -> None:
            Fresh.given["room"].append(given)

        def packs(self) -> int:
            return 2

    monkeypatch.setattr(trainings, "Pool", Fresh)
    monkeypatch.setattr(ray_session, "connect", lambda: Fresh.given["connections"].append(True))
    monkeypatch.setattr(ray_session, "capacity_for", Room)
    return Fresh
