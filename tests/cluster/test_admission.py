"""So many drivers run on a head at once; others wait, and know their place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.helpers.state_api import cluster, listing
from tune_vfl.cluster import jobs as module
from tune_vfl.cluster.admission import SEAT, offers_seats, places_of
from tune_vfl.cluster.jobs import Jobs, Where
from tune_vfl.machine.web import WebServer


def nodes(*resources: dict[str, float], state: str = "ALIVE") -> bytes:
    about = {"node_id": "x", "node_ip": "1", "is_head_node": True, "state_message": "", "node_name": "", "labels": {}}
    return listing(*({**about, "state": state, "resources_total": held} for held in resources))


@pytest.mark.parametrize(
    ("answer", "offered"),
    [
        (nodes({"CPU": 4.0}, {"CPU": 3.0, SEAT: 8.0}), True),
        (nodes({"CPU": 4.0}), False),
        (nodes({SEAT: 8.0}, state="DEAD"), False),
        (b"<html>", False),
        (b"[]", False),
        (b'{"data": null}', False),
    ],
)
def test_a_head_offers_seats_or_none(answer: bytes, offered: bool) -> None:
    with cluster("nodes", answer) as relay:
        assert offers_seats(relay) == offered


def test_those_that_wait_have_places_in_the_order_in_which_they_came() -> None:
    drivers = [("a", "RUNNING"), ("b", "PENDING"), ("c", "SUCCEEDED"), ("d", "PENDING")]
    assert places_of(drivers) == {"b": 1, "d": 2}


@dataclass
class Details:
    submission_id: str
    start_time: int
    status: str = "PENDING"
    job_id: str | None = None
    end_time: int | None = None
    message: str = ""
    metadata: dict[str, str] = field(default_factory=lambda: {"tune_vfl.does": "search", "tune_vfl.seat": "1"})


class Client:
    """Ray's client of jobs, as far as they are submitted and listed."""

    def __init__(self) -> None:
        self.submitted: list[dict[str, Any]] = []

    def submit_job(self, **how: Any) -> str:
        self.submitted.append(how)
        return "id"

    def list_jobs(self) -> list[Details]:
        seats = [Details("late", 3000), Details("early", 1000), Details("runs", 500, status="RUNNING")]
        return [*seats, Details("begins", 100, metadata={"tune_vfl.does": "search", "tune_vfl.seat": ""})]


@pytest.mark.parametrize("offered", [True, False])
def test_drivers_take_a_seat_where_there_are_some_and_others_none(
    offered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client()
    monkeypatch.setattr(module, "require_answer", lambda *_: None)
    monkeypatch.setattr(module.Relay, "client", lambda _: client)
    monkeypatch.setattr(module, "offers_seats", lambda *_: offered)
    jobs = Jobs(WebServer("http://127.0.0.1:9"))
    for does in ("search", "resume", "study pack"):
        jobs.run(does, [], "s", Where())
    seat = {SEAT: 1} if offered else None
    assert [how["entrypoint_resources"] for how in client.submitted] == [seat, seat, None]
    assert [(job.id, job.place) for job in jobs.list()] == [
        ("late", 2),
        ("early", 1),
        ("runs", 0),
        ("begins", 0),
    ]
