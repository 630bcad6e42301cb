"""A measurement beside the trials runs once at a time, and again after its worker failed."""

import pytest

from tests.helpers.side_measurements import Asking
from tune_vfl.execution.losses import MAX_NODE_LOSSES, MAX_WORKER_LOSSES


def test_it_runs_once_and_its_answer_is_stored():
    cost = Asking("cost")
    assert cost.pending
    assert not cost.over
    job = cost.next_job()
    assert not cost.pending, "it runs"
    assert cost.next_job() is None
    cost.store(job, ["answer"])
    assert cost.over
    assert not cost.pending
    assert cost.answers == ["answer"]


@pytest.mark.parametrize(
    ("cause", "times", "ends_as"),
    [
        ("crash", MAX_WORKER_LOSSES, "error"),
        ("memory", MAX_WORKER_LOSSES, "oom"),
        ("node", MAX_NODE_LOSSES, "error"),
    ],
)
def test_it_is_retried_until_it_was_lost_too_often(cause, times, ends_as):
    cost = Asking("cost")
    for _ in range(times - 1):
        cost.lose(cost.next_job(), cause)
        assert cost.pending
    cost.lose(cost.next_job(), cause)
    assert cost.over
    assert not cost.pending
    assert cost.answers == [ends_as]


def test_a_timeout_is_final():
    cost = Asking("cost")
    cost.lose(cost.next_job(), "timeout")
    assert cost.over
    assert not cost.pending
    assert cost.answers == ["timeout"]
