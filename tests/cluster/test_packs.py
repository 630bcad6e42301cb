"""Who has room on a cluster and who waits, as a dashboard lists its placement groups."""

from __future__ import annotations

import pytest

from tests.helpers.state_api import cluster, listing
from tune_vfl.cluster.admission import packs_by_job
from tune_vfl.cluster.relay import Relay
from tune_vfl.errors import UnreachableError
from tune_vfl.machine.web import WebServer


def groups(*of: tuple[str, str]) -> bytes:
    return listing(*({"placement_group_id": "x", "name": "", "creator_job_id": job, "state": s} for job, s in of))


def test_packs_are_counted_by_job() -> None:
    held = groups(("01", "CREATED"), ("01", "PENDING"), ("01", "CREATED"), ("02", "PENDING"), ("03", "REMOVED"))
    with cluster("placement_groups", held) as relay:
        assert packs_by_job(relay) == {"01": (2, 1), "02": (0, 1)}


@pytest.mark.parametrize("answer", [b"<html>", b"{}", b"[]", b'{"result": true, "data": null}'])
def test_what_cannot_be_read_counts_nothing(answer: bytes) -> None:
    with cluster("placement_groups", answer) as relay:
        assert packs_by_job(relay) == {}


def test_a_cluster_that_is_gone_is_no_cluster_without_packs() -> None:
    with pytest.raises(UnreachableError, match="does not answer any more"):
        packs_by_job(Relay(WebServer("http://127.0.0.1:9")))
