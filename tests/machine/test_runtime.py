"""The collector rests while much is made, and does not look through it afterwards."""

import gc
import subprocess
import sys

import pytest

from tune_vfl.machine.runtime import keeping_everything


@pytest.fixture
def looked():
    """How many times the collector began, by generation."""
    began = []

    def note(phase, info):
        if phase == "start":
            began.append(info["generation"])

    gc.callbacks.append(note)
    yield began
    gc.callbacks.remove(note)


def test_nothing_is_looked_through_in_the_block_nor_at_its_end(looked):
    many = gc.get_threshold()[0] * 5
    with keeping_everything():
        made = [[] for _ in range(many)]
        assert not gc.isenabled()
    after = [[] for _ in range(10)]
    assert gc.isenabled()
    assert looked == []
    assert gc.get_freeze_count() == 0, "they can still be collected"
    assert len(made) + len(after) == many + 10


def test_garbage_of_the_block_is_found_later():
    class Knot:
        alive = 0

        def __init__(self):
            self.me = self
            Knot.alive += 1

        def __del__(self):
            Knot.alive -= 1

    with keeping_everything():
        for _ in range(3):
            Knot()
    assert Knot.alive == 3
    gc.collect()
    assert Knot.alive == 0


def test_blocks_nest_and_a_collector_that_was_off_stays_off():
    with keeping_everything():
        with keeping_everything():
            pass
        assert not gc.isenabled()
    gc.disable()
    try:
        with keeping_everything():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_was_frozen_stays_frozen():
    gc.freeze()
    try:
        before = gc.get_freeze_count()
        with keeping_everything():
            pass
        assert gc.get_freeze_count() >= before
    finally:
        gc.unfreeze()


def test_at_the_end_of_a_verb_nothing_is_looked_through():
    code = """
import atexit, gc
atexit.register(lambda: print("frozen", gc.get_freeze_count() > 1000))
from tune_vfl.cli.main import main
main(["--version"])
"""
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, encoding="utf-8")
    assert ended.stdout.splitlines()[-1] == "frozen True"
