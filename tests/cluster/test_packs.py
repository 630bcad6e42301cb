"""Who has room on a cluster and who waits, as a real dashboard tells it."""

from __future__ import annotations

import json

from tune_vfl.cluster.packs import Packs, count, packs_by_job
from tune_vfl.machine.web import Server


def answer(*groups: tuple[str, str]) -> bytes:
    listed = [{"placement_group_id": "x", "creator_job_id": job, "state": state} for job, state in groups]
    return json.dumps({"result": True, "data": {"result": {"total": len(listed), "result": listed}}}).encode()


def test_packs_are_counted_by_job() -> None:
    found = count(answer(("01", "CREATED"), ("01", "PENDING"), ("01", "CREATED"), ("02", "PENDING"), ("03", "REMOVED")))
    assert found == {"01": Packs(2, 1), "02": Packs(0, 1)}


def test_what_cannot_be_read_counts_nothing() -> None:
    assert count(b"<html>") == {}
    assert count(b'{"data": null}') == {}
    assert packs_by_job(Server("http://127.0.0.1:9")) == {}
