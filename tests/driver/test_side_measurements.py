"""A measurement beside the trials runs once at a time, and again after its worker failed."""

import pytest

from tests.helpers.side_measurements import Asking


def test_it_runs_once_and_its_answer_is_stored():
    cost = Asking("cost")
    assert cost.pending
    assert not cost.over
    cost.start()
    assert not cost.pending, "it runs"
    cost.end(["answer"])
    assert cost.over
    assert not cost.pending
    assert cost.answers == ["answer"]


@pytest.mark.parametrize("cause", ["crash", "memory"])
def test_it_is_retried_until_too_many_of_its_workers_died(cause):
    cost = Asking("cost")
    for _ in range(cost.tries - 1):
        cost.start()
        cost.lose(cause)
        assert cost.pending
    cost.start()
    cost.lose(cause)
    assert cost.over
    assert not cost.pending
    assert cost.answers == [cause]


def test_a_lost_machine_does_not_count():
    cost = Asking("cost")
    for _ in range(10 * cost.tries):
        cost.start()
        cost.lose("node")
        assert cost.pending
    assert cost.answers == []


def test_a_timeout_is_final():
    cost = Asking("cost")
    cost.start()
    cost.lose("timeout")
    assert cost.over
    assert not cost.pending
    assert cost.answers == ["timeout"]
