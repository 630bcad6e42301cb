"""What becomes of an errand: it is asked once at a time, and again when its worker was lost."""

import pytest

from tests.helpers.errands import Asking


def test_it_is_asked_once_and_its_answer_kept():
    errand = Asking("cost")
    assert errand.owed
    assert not errand.over
    assert errand.ask() == {"asks": "cost"}
    assert not errand.owed, "it is being made"
    errand.end(["answer"])
    assert errand.over
    assert not errand.owed
    assert errand.told == ["answer"]


@pytest.mark.parametrize("cause", ["crash", "memory"])
def test_it_is_asked_again_until_too_many_of_its_workers_died(cause):
    errand = Asking("cost")
    for _ in range(errand.tries - 1):
        errand.ask()
        errand.lose(cause)
        assert errand.owed
    errand.ask()
    errand.lose(cause)
    assert errand.over
    assert not errand.owed
    assert errand.told == [cause]


def test_a_machine_that_goes_away_says_nothing_of_it():
    errand = Asking("cost")
    for _ in range(10 * errand.tries):
        errand.ask()
        errand.lose("node")
        assert errand.owed
    assert errand.told == []


def test_a_timeout_is_final():
    errand = Asking("cost")
    errand.ask()
    errand.lose("timeout")
    assert errand.over
    assert not errand.owed
    assert errand.told == ["timeout"]
