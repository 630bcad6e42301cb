"""What must not wait for ever: a search whose Ray died under it, and a trial that is out of time."""

import pickle
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray.tune import Callback

from trainables.base import PackTrainable
from tune_vfl.errors import UnreachableError
from tune_vfl.evaluation.attempts import OutOfTimeError, time_limit
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.outcome import Outcome
from tune_vfl.search import ray_session
from tune_vfl.search.watch import GRACE_SECONDS, LeaseWatch, NodeWatch, PackWatch
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


class Pack:
    """What the watch sees of one of Tune's trials."""

    def __init__(self, name):
        self.trial_id = name
        self.temporary_state = SimpleNamespace(ray_actor=f"worker of {name}")


class Allowing:
    """A searcher that allows its packs so many seconds and remembers which were given up."""

    def __init__(self, **allowed):
        self.allowed, self.events = allowed, []

    def seconds_allowed(self, name):
        return self.allowed[name]

    def give_up(self, name):
        self.events.append(("told", name))
        return 2


def test_a_pack_over_its_time_is_told_before_its_worker_is_killed():
    searcher, clock, said = Allowing(short=3.0, long=500.0, free=None, done=3.0, died=3.0), [100.0], []
    watch = PackWatch(searcher, said.append, lambda w: searcher.events.append(("killed", w)), lambda: clock[0])
    packs = {name: Pack(name) for name in searcher.allowed}
    for pack in packs.values():
        watch.on_trial_start(0, [], pack)
    watch.on_trial_complete(0, [], packs["done"])
    watch.on_trial_error(0, [], packs["died"])
    clock[0] += 3.0 + GRACE_SECONDS - 0.1
    watch.on_step_begin(1, [])
    assert searcher.events == []
    clock[0] += 0.2
    watch.on_step_begin(2, [])
    watch.on_step_begin(3, [])
    assert searcher.events == [("told", "short"), ("killed", "worker of short")]
    assert len(said) == 1
    clock[0] += 1e4
    watch.on_step_begin(4, [])
    assert [name for what, name in searcher.events if what == "told"] == ["short", "long"]


def test_what_watches_from_the_driver_stays_there():
    for watch in (PackWatch(Allowing(), print), LeaseWatch(object())):
        assert watch.__reduce__() == (Callback, ())
        assert pickle.dumps(watch)


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

    def slow(_trainable):
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
    with pytest.raises(UnreachableError, match=r"RAY_ADDRESS=192.0.2.1:6379 cannot be reached: version mismatch"):
        ray_session.connect()
