"""Why a worker failed, from the clock and the nodes; and what a search makes of it."""

import pickle
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, OutOfMemoryError
from ray.tune import Callback

from tests.helpers.side_measurements import Asking
from tune_vfl.driver.source import SearchJobs
from tune_vfl.execution import tune_run
from tune_vfl.execution.pack_searcher import PackSearcher
from tune_vfl.execution.worker_failures import NODE_SECONDS, WorkerFailures, out_of_memory

LIMIT = 10.0


class Failing:
    """A searcher whose packs may take ten seconds each; it notes which ones failed, and how."""

    def __init__(self, trials: int) -> None:
        self.trials, self.failed = trials, []

    def time_limit(self, _name: str) -> float:
        return LIMIT

    def fail(self, name: str, cause: str) -> int:
        self.failed.append((name, cause))
        return self.trials


class World:
    """A watch of worker failures, with a clock and nodes of its own."""

    def __init__(self, nodes: tuple[str, ...] = ("head",), trials: int = 2) -> None:
        self.searcher, self.said = Failing(trials), []
        self.now, self.nodes = 100.0, set(nodes)
        searcher: Any = self.searcher
        self.gone_after = float("inf")
        self.watch = WorkerFailures(searcher, self.said.append, self._alive, lambda: self.now, self._sleep)

    def _alive(self) -> frozenset[str]:
        return frozenset(self.nodes - {"other"} if self.now >= self.gone_after else self.nodes)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def start(self, name: str) -> None:
        self.watch.on_trial_start(0, [], SimpleNamespace(trial_id=name))

    def fail(self, name: str) -> None:
        self.watch.on_trial_error(0, [], SimpleNamespace(trial_id=name))

    @property
    def cause(self) -> str:
        ((_, cause),) = self.searcher.failed
        return str(cause)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def cluster() -> World:
    return World(("head", "other"))


def test_a_worker_that_fails_on_a_lone_machine_has_crashed(world: World) -> None:
    world.start("p")
    world.fail("p")
    assert (world.cause, world.now, world.said) == ("crash", 100.0, [])


def test_a_worker_that_dies_with_a_node_has_not_crashed_and_the_next_one_has(cluster: World) -> None:
    cluster.start("p")
    cluster.nodes.remove("other")
    cluster.fail("p")
    cluster.start("q")
    cluster.fail("q")
    assert cluster.searcher.failed == [("p", "node"), ("q", "crash")]


def test_a_node_may_be_missed_after_its_worker(cluster: World) -> None:
    cluster.start("p")
    cluster.gone_after = cluster.now + NODE_SECONDS - 1
    cluster.fail("p")
    assert cluster.cause == "node"


def test_a_worker_whose_node_stays_has_crashed(cluster: World) -> None:
    cluster.start("p")
    begun = cluster.now
    cluster.fail("p")
    assert (cluster.cause, cluster.now - begun) == ("crash", NODE_SECONDS)


def test_a_worker_that_never_began_may_have_been_lost_with_a_node_too(cluster: World) -> None:
    cluster.nodes.remove("other")
    cluster.fail("p")
    assert cluster.cause == "node"


@pytest.mark.parametrize(
    ("trials", "said"), [(1, "it ended as timeout"), (3, "its 3 trials are asked again one by one")]
)
def test_a_worker_that_ends_after_the_limit_of_its_pack_has_timed_out(trials: int, said: str) -> None:
    world = World(trials=trials)
    world.start("early")
    world.now += LIMIT - 0.1
    world.fail("early")
    world.start("late")
    world.now += LIMIT
    world.fail("late")
    assert world.searcher.failed == [("early", "crash"), ("late", "timeout")]
    (line,) = world.said
    assert said in line


def test_a_pack_that_came_back_has_no_clock(world: World) -> None:
    world.start("p")
    world.watch.on_trial_complete(0, [], SimpleNamespace(trial_id="p"))
    world.now += 10 * LIMIT
    world.fail("p")
    assert world.cause == "crash"


def test_it_stays_in_the_driver(world: World) -> None:
    assert world.watch.__reduce__() == (Callback, ())
    assert pickle.dumps(world.watch)


def given_up(cause: Exception | None) -> RuntimeError:
    """An error at which Tune gives up, and what it was raised from."""
    try:
        raise RuntimeError("unexpected") from cause
    except RuntimeError as error:
        return error


def test_it_is_seen_that_tune_gives_up_for_want_of_memory() -> None:
    assert out_of_memory(given_up(OutOfMemoryError("low on memory")))
    assert not out_of_memory(given_up(ActorDiedError()))
    assert not out_of_memory(given_up(None))


def test_tune_is_started_again_where_it_gives_up_for_want_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    references = [Asking("references"), Asking("references")]
    searcher = PackSearcher(SearchJobs([], references), lambda: 8, {})
    runs = []

    def fit(given: Any, *_: Any) -> None:
        while isinstance(given.suggest(f"run {len(runs)} {len(given._running)}"), dict):
            pass
        runs.append([one.pending for one in references])
        if len(runs) == 1:
            raise given_up(OutOfMemoryError("low on memory"))

    trainable: Any = object
    resources: Any = object
    monkeypatch.setattr(tune_run, "_fit", fit)
    monkeypatch.setattr("tune_vfl.execution.worker_failures.WorkerFailures", lambda *_: World().watch)
    tune_run.run_tune(searcher, trainable, resources, [], print)
    assert runs == [[False, False], [False, False]], "what was running is asked again"


def test_another_error_of_tune_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    searcher = PackSearcher(SearchJobs([]), lambda: 8, {})

    def fit(*_: Any) -> None:
        raise given_up(ActorDiedError())

    trainable: Any = object
    monkeypatch.setattr(tune_run, "_fit", fit)
    monkeypatch.setattr("tune_vfl.execution.worker_failures.WorkerFailures", lambda *_: World().watch)
    with pytest.raises(RuntimeError, match="unexpected"):
        tune_run.run_tune(searcher, trainable, trainable, [], print)
