"""Workers that crash, hang, run out of memory or answer nonsense, and machines that go away under them."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.faults.driver import search
from tests.faults.harness import SCALES, Driver, check_study, cluster_of, lost, spec_of
from tests.helpers.drivers import shared_ray
from tests.helpers.ledgers import reopened
from tune_vfl import load_study

pytestmark = pytest.mark.usefixtures("home")


def above(point: int) -> float:
    """The threshold that this point is above, and the one before it is not."""
    return (point - 0.5) / 11


# What each of the last points does, the gravest last: every one is above the thresholds of those before it, and does
# what is looked at first.
BAD = {
    5: ("nan_above", "diverged"),
    6: ("missing_above", "error"),
    7: ("diverge_above", "diverged"),
    8: ("raise_above", "error"),
    9: ("oom_above", "oom"),
    10: ("exit_above", "error"),
    11: ("hang_above", "timeout"),
}


def test_each_trial_ends_as_what_it_did_and_harms_no_other(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """NaN, a missing metric, an exception, out of memory, a crash, a hang in compiled code, in packs of four."""
    monkeypatch.setattr("tune_vfl.execution.watchdogs.GRACE_SECONDS", 5.0)
    options = {name: above(point) for point, (name, _) in BAD.items()}
    shared_ray()
    search(spec_of(resources={"pack": 4}, budget={"trial_minutes": 0.05}), options)
    record = check_study({SCALES[point]: ends for point, (_, ends) in BAD.items()})
    reasons = {t.params["scale"]: t.outcome.reason for t in record.counted}
    assert "stuck in compiled code" in reasons[SCALES[11]]
    assert "its worker process died 3 times" in reasons[SCALES[10]]
    assert all(reasons[SCALES[point]] for point in BAD)
    shown = capfd.readouterr()
    assert "its 4 trials are asked again one by one" in shown.err
    assert "it ended as timeout" in shown.err
    assert shown.out == "", "Ray tells of dead workers on stdout, where an answer may be"
    assert load_study("study").overdue() == {}


def test_a_pack_that_does_not_fit_is_tried_by_halves(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    shared_ray()
    search(spec_of(resources={"pack": 6}), {"fits": 2, "journal": str(journal)})
    assert lost(check_study()) == 0
    trained = journal.read_text().count("'scale'")
    assert trained == len(SCALES), "nothing was trained twice"


@pytest.mark.slow
def test_a_worker_that_dies_once_costs_one_retry(tmp_path: Path) -> None:
    shared_ray()
    search(spec_of(), {"exit_once": str(tmp_path / "died")})
    assert lost(check_study()) <= 2
    assert (tmp_path / "died").exists()


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A cluster whose head trains nothing."""
    with cluster_of(head_cpus=0) as cluster:
        yield cluster


def kill_processes(node: Any) -> None:
    """Kill a node with its workers, which otherwise live on for seconds and may answer."""
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    for process in [raylet, *raylet.children(recursive=True)]:
        process.kill()


@pytest.mark.parametrize(
    "graceful", [pytest.param(False, id="killed"), pytest.param(True, id="terminated", marks=pytest.mark.slow)]
)
def test_a_machine_that_goes_away_costs_its_flight_and_counts_against_no_trial(
    graceful: bool, cluster: Any, tmp_path: Path
) -> None:
    leaving = cluster.add_node(num_cpus=1)
    with Driver(tmp_path, cluster.address, options={"sleep": 2.0}) as driver:
        driver.wait_until_trained(4)  # the undefended model and a pack of two are over, another pack has just begun
        if not graceful:
            kill_processes(leaving)
        cluster.remove_node(leaving, allow_graceful=graceful)
        cluster.add_node(num_cpus=1)
        code, err = driver.ends()
    assert code == 0, err
    record = check_study()
    assert 0 < lost(record) <= 2
    assert {t.lost for t in reopened("study").trials()} == {None, "node"}
    assert "the machine that it ran on went away" in err


def memory_left_to_ray(monkeypatch: pytest.MonkeyPatch, mib: int) -> None:
    """Let Ray's memory monitor end workers once the machine holds so much more than it does now."""
    memory = psutil.virtual_memory()
    if memory.available < 2 * mib << 20:
        pytest.skip(f"needs {2 * mib} MiB of free memory")
    memory_monitor(monkeypatch, (memory.total - memory.available + (mib << 20)) / memory.total)


def memory_monitor(monkeypatch: pytest.MonkeyPatch, threshold: float) -> None:
    """Let Ray's memory monitor end workers while more than this share of the machine's memory is taken."""
    monkeypatch.setenv("RAY_memory_usage_threshold", f"{threshold:.4f}")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "250")


@pytest.mark.slow
def test_packs_that_the_memory_monitor_ends_are_asked_again_by_halves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine on which one trial finds room, and neither two nor four."""
    memory_left_to_ray(monkeypatch, 5120)
    options = {"sleep": 3.0, "holds": 3072}
    with Driver(tmp_path, None, spec={"resources": {"pack": 4}}, options=options) as driver:
        code, err = driver.ends()
    assert code == 0, err
    assert "the machine ran out of memory" in err
    check_study()
    ledger = reopened("study")
    assert "memory" in {t.lost for t in ledger.trials()}
    packs = Counter(t.pack for t in ledger.trials())
    assert set(packs.values()) >= {4, 2, 1}


@pytest.mark.slow
def test_a_trial_that_the_memory_monitor_ends_each_time_ends_as_oom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory_left_to_ray(monkeypatch, 5120)
    spec = {"resources": {"pack": 1}, "budget": {"trials": 1}}
    with Driver(tmp_path, None, spec=spec, options={"sleep": 3.0, "holds": 6144}) as driver:
        _, err = driver.ends()
    assert "the machine ran out of memory" in err
    (trial,) = load_study("study").record().studies[0].counted
    assert trial.outcome.outcome == "oom"


OUT_OF_MEMORY = re.compile(
    "what attacks are compared with could not be measured: "
    "(its worker was ended because the machine ran out of memory, 3 times|its worker process died 3 times)"
)


@pytest.mark.slow
def test_a_machine_without_memory_for_a_worker_ends_the_search_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes before the first trial takes longer here than the monitor takes to look.

    Tune does not say that a worker was ended for its memory where that had not answered once.
    """
    memory_monitor(monkeypatch, 0.01)
    with Driver(tmp_path, None, slow=True) as driver:
        code, err = driver.ends()
    assert code == 4, err
    assert OUT_OF_MEMORY.search(err), err


@pytest.mark.slow
def test_a_machine_without_memory_for_workers_ends_the_search_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The monitor ends whatever works when it looks, a worker that starts too: what is quick enough gets through."""
    memory_monitor(monkeypatch, 0.01)
    with Driver(tmp_path, None) as driver:
        code, err = driver.ends()
    if code == 4:
        assert OUT_OF_MEMORY.search(err), err
    else:
        assert "ran out of memory" in err
        assert code in {0, 3}, err
        record = load_study("study").record().studies[0]
        assert record.running == record.waiting == 0
        assert {t.outcome.outcome for t in record.counted} <= {"ok", "oom"}
