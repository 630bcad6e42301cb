"""Data classes of an MLflow run: its recorded content, and the changes to write."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Measurement(NamedTuple):
    """One value of a metric; ``at`` in milliseconds since 1970. Of two with one step MLflow shows the later."""

    name: str
    value: float
    at: int
    step: int = 0


@dataclass
class Held:
    """The content of one MLflow run, pending changes included; a run without an id is not created yet."""

    run_id: str = ""
    params: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    status: str = "RUNNING"
    finished: int | None = None


@dataclass
class Change:
    """The pending changes of one run.

    Attributes:
        run: its content; a new one gets an id when it is written.
        name: that of a new run.
        started: a new run's start, in milliseconds since 1970; None where the run exists.
        params, tags: by name.
        measurements: in the order of writing.
        ended: status and time, where they change.
    """

    run: Held
    name: str = ""
    started: int | None = None
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    measurements: list[Measurement] = field(default_factory=list)
    ended: tuple[str, int] | None = None
