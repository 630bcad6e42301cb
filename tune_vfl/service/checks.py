"""The result of one check of ``tune-vfl doctor``."""

from __future__ import annotations

from typing import Literal, NamedTuple

Status = Literal["ok", "finding", "unreachable"]


class Health(NamedTuple):
    """The result of one check.

    Attributes:
        name: the subject of the check.
        status: ``finding`` is a defect, ``unreachable`` a service that does not answer.
        detail: the observed state.
        advice: the remedy; empty without a defect.
    """

    name: str
    status: Status
    detail: str
    advice: str = ""
