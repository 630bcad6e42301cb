"""What MLflow holds of a run, and what is still to be written of it."""

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
    """What MLflow holds of one run, or will once its change is written; a run without an id is not there yet."""

    run_id: str = ""
    params: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    status: str = "RUNNING"
    finished: int | None = None


@dataclass
class Change:
    """What is to be written of one run.

    Attributes:
        run: which; a new one gets its id as it is written.
        name: of a new run.
        started: of a new run, in milliseconds since 1970; None where the run exists.
        params, tags: by name.
        measurements: in their order.
        ended: status and moment, where they change.
    """

    run: Held
    name: str = ""
    started: int | None = None
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    measurements: list[Measurement] = field(default_factory=list)
    ended: tuple[str, int] | None = None
