"""What must not wait for ever: a search whose Ray died under it, a signal that was swallowed, a trial out of time."""

import pickle
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray.tune import Callback

from trainables.base import PackTrainable
from tune_vfl.errors import UnreachableError
from tune_vfl.evaluation.attempts import OutOfTimeError, time_limit
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.execution import ray_session
from tune_vfl.execution.watchdogs import HEAD_LOOKS, NodeWatch, StepChecks, head_watched
from tune_vfl.outcome import Outcome
from tune_vfl.spec import parse
from tune_vfl.spec.cell import References

CELL = resolve(
    parse(
        {
            "study": "clock",
            "dataset": "breast_cancer",
            "defense": "laplace",
            "attacks": ["norm"],
            "budget": {"trials": 1, "seeds": 1, "trial_minutes": 0.1 / 60},
        }
    )
)


def test_every_step_makes_all_checks_and_the_callback_stays_in_the_driver():
    made = []
    checks = StepChecks([lambda: made.append("lease"), lambda: made.append("signals")])
    checks.on_step_begin(1, [])
    assert made == ["lease", "signals"]
    assert checks.__reduce__() == (Callback, ())
    assert pickle.dumps(checks)


HANGING = """
import ctypes, sys
from trainables.base import ended_after
libc, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(128)
with ended_after(0.2):
    print("in time", flush=True)
with ended_after(None):
    pass
with ended_after(0.5):
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)
"""


def test_a_worker_that_hangs_in_compiled_code_with_pythons_lock_ends_itself():
    ended = subprocess.run([sys.executable, "-c", HANGING], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (1, "in time\n")
    assert "Timeout" in ended.stderr


def ended(answers):
    """Return after how many looks the watch gave up; None when it never did."""
    told = iter(answers)
    watch = NodeWatch(lives=lambda: next(told), every=0.0)
    for looks in range(1, len(answers) + 1):
        try:
            watch.on_step_begin(looks, [])
        except UnreachableError:
            return looks
    return None


@given(st.lists(st.booleans(), max_size=30))
def test_three_dead_looks_in_a_row_end_a_search(answers):
    naive = next((i + 1 for i in range(2, len(answers)) if not any(answers[i - 2 : i + 1])), None)
    assert ended(answers) == naive


def test_a_head_that_stays_away_ends_the_process_and_one_that_comes_back_does_not():
    ended = threading.Event()
    answers = [*[False] * (HEAD_LOOKS - 1), True, *[False] * HEAD_LOOKS]
    with head_watched(lambda: answers.pop(0), 0.001, ended.set):
        assert ended.wait(30)
    assert answers == []
    ended.clear()
    with head_watched(lambda: pytest.fail("it looks no longer than the block lasts"), 30.0, ended.set):
        pass
    assert not ended.is_set()


def test_it_looks_only_from_time_to_time():
    watch = NodeWatch(lives=lambda: pytest.fail("looked too early"), every=1000.0)
    watch.on_step_begin(1, [])


def mistaken():
    """Like compiled code that turns the alarm's exception into one of its own."""
    try:
        time.sleep(5)
    except OutOfTimeError:
        raise SystemError("bad call flags") from None


def deaf():
    """Like compiled code that swallows the alarm's exception and goes on."""
    try:
        time.sleep(5)
    except OutOfTimeError:
        time.sleep(10)


@pytest.mark.parametrize("work", [mistaken, deaf])
def test_time_that_is_over_ends_as_such(work):
    with pytest.raises(OutOfTimeError), time_limit(0.05):
        work()


def test_an_error_in_time_stays_itself():
    with pytest.raises(ZeroDivisionError), time_limit(5.0):
        1 / 0  # noqa: B018


class SlowToPrepare(PackTrainable):
    """Spends longer on getting ready than a trial may take."""

    @classmethod
    def prepare_worker(cls):
        time.sleep(0.3)

    @classmethod
    def evaluate(cls, cell, params, references, options):
        return [Outcome.failed("infeasible", "an answer")] * len(params)

    @classmethod
    def measure(cls, cell, options):
        raise NotImplementedError

    @classmethod
    def most_per_pack(cls, cell):
        return 1


def test_getting_ready_is_not_on_the_clock():
    pack = {"cell": CELL.model_dump_json(), "references": References().model_dump_json(), "params": [{}]}
    assert [o.outcome for o in SlowToPrepare.outcomes(pack)] == ["infeasible"]


def test_a_worker_has_all_methods_at_hand_before_the_clock_starts():
    code = (
        "import sys; from trainables.cell import CellTrainable; CellTrainable.prepare_worker(); "
        "ready = set(sys.modules); "
        "from tune_vfl.attacks.base import ATTACKS; from tune_vfl.defenses.base import DEFENSES; "
        "assert {DEFENSES[n].__module__ for n in DEFENSES} | {ATTACKS[n].__module__ for n in ATTACKS} <= ready"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_ray_is_started_a_second_time_and_a_start_that_fails_is_told_in_words(monkeypatch, capsys):
    starts = []

    def slow():
        starts.append(1)
        raise Exception("The current node timed out during startup.")  # as Ray raises it, a plain one

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr("ray.shutdown", lambda: None)
    monkeypatch.setattr(ray_session, "_start_here", slow)
    with pytest.raises(UnreachableError, match=r"did not start on this machine, 2 times: .* 'tune-vfl doctor'"):
        ray_session.connect()
    assert len(starts) == 2
    assert "trying once more" in capsys.readouterr().err


def test_a_cluster_that_cannot_be_joined_is_told_in_words(monkeypatch):
    def broken(**_):
        raise Exception("version mismatch")

    monkeypatch.setenv("RAY_ADDRESS", "192.0.2.1:6379")
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr("ray.init", broken)
    monkeypatch.setattr(ray_session, "require_ray_head", lambda _: None)
    with pytest.raises(UnreachableError, match=r"RAY_ADDRESS=192.0.2.1:6379 cannot be reached: version mismatch"):
        ray_session.connect()
