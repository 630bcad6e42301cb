"""What one look of the doctor answers."""

from __future__ import annotations

from typing import Literal, NamedTuple

Status = Literal["ok", "finding", "unreachable"]


class Check(NamedTuple):
    """What one check found.

    Attributes:
        name: what was looked at.
        status: ``finding`` is something to mend, ``unreachable`` something that does not answer.
        detail: what is there.
        advice: what to do; empty when all is well.
    """

    name: str
    status: Status
    detail: str
    advice: str = ""
