"""One search, one fault, the same checks after each: what a search promises, whatever happens to it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.faults.driver import search
from tests.faults.mlflow_server import Server
from tests.helpers.fronts import ranks_of
from tests.helpers.ledgers import reopened
from tests.helpers.ready import Program, start
from tests.helpers.simulated import Simulation, closed_form
from tune_vfl.errors import StudyError
from tune_vfl.records.studies import StudyRecord

# Twelve points in a fixed order: whatever happens in between, the study ends with each of them, once.
SCALES = [float(f"{10 ** (-5 + 4 * i / 11):.3e}") for i in range(12)]
SPACE = {"name": "laplace", "space": {"scale": {"choice": SCALES}}}
PATIENCE = 400.0  # after which a driver hangs; a machine that is busy with other tests takes its time


def spec_of(**fields: Any) -> dict[str, Any]:
    resources = {"concurrency": 1, "pack": 2, **fields.pop("resources", {})}
    budget = {"trials": len(SCALES), "seeds": 1, **fields.pop("budget", {})}
    return {"defense": SPACE, "sampler": "grid", "budget": budget, "resources": resources, **fields}


class Driver:
    """A search in a process of its own.

    Args:
        folder: where its journal lies.
        ray: the Ray to connect to, by a program that is forked ready; None starts a program as a person does, and a
            Ray of its own.
        given: what the driver is told beside; ``spec`` and ``options`` lie over the usual ones.
    """

    def __init__(self, folder: Path, ray: str | None, **given: Any) -> None:
        self.journal = folder / "journal"
        self.spec = spec_of(**given.pop("spec", {}))
        self.options = {"sleep": 0.1, "journal": str(self.journal), **given.pop("options", {})}
        self.mlflow = bool(given.get("mlflow"))
        asked = {"spec": self.spec, "options": self.options, **given}
        self.process: Program | subprocess.Popen[str]
        if ray:
            environment = {**os.environ, "RAY_ADDRESS": ray}
            self.process = start("tests.faults", "", [json.dumps(asked)], cwd=folder, env=environment)
        else:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults", json.dumps(asked)],
                stderr=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
                cwd=folder,
            )

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave nothing behind, whatever became of the test."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def wait_for(self, told: int) -> None:
        """Wait until so many trials were told while the driver works."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            assert self.process.poll() is None, self.process.communicate()
            if self.journal.exists() and finished() >= told:
                return
            time.sleep(0.2)
        pytest.fail("the driver did not get going")

    def wait_for_flight(self) -> None:
        """Wait until a pack runs that was just asked."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and not finished(running=True):
            time.sleep(0.05)

    def wait_until_trained(self, trials: int) -> None:
        """Wait until so many trainings have begun; whoever waits for one of a new pack has all of its time left."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.trained() < trials:
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.02)

    def wait_until_stopped(self) -> None:
        """Wait until a fault has stopped it outside of any writing transaction, which would lock out everybody else."""
        program = psutil.Process(self.process.pid)
        while program.status() != psutil.STATUS_STOPPED or ledger_is_locked():
            if program.status() == psutil.STATUS_STOPPED:  # another thread of it was writing: let it finish
                self.send(signal.SIGCONT)
                time.sleep(0.01)
                self.send(signal.SIGSTOP)
            time.sleep(0.05)

    def trained(self) -> int:
        """How many trainings have begun, with those of earlier drivers."""
        return len(self.journal.read_text().splitlines()) if self.journal.exists() else 0

    def send(self, number: int) -> None:
        assert self.process.poll() is None, self.process.communicate()
        os.kill(self.process.pid, number)

    def ends(self) -> tuple[int, str]:
        """Wait for its end; its exit code and what it said on stderr. Nothing is said on stdout."""
        out, err = self.process.communicate(timeout=PATIENCE)
        assert out == ""
        assert "Traceback" not in err, err
        return self.process.returncode, err

    def go_on(self, **changes: Any) -> StudyRecord:
        """Finish the study in this process, as the next ``resume`` does, and check it."""
        healthy = {"journal": self.options["journal"], **changes}
        search(self.spec, healthy, mlflow=self.mlflow)
        return check_study()


def ledger_is_locked() -> bool:
    """Return whether another process is in the middle of a change of the ledger."""
    ledger = Path(os.environ["TUNE_VFL_HOME"]) / "ledger.db"
    if not ledger.exists():
        return False
    with closing(sqlite3.connect(ledger, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        return False


@contextmanager
def cluster_of(head_cpus: int) -> Iterator[Any]:
    """A cluster on this machine to which nodes can be added, in place of the Ray that the tests share."""
    import ray
    from ray.cluster_utils import Cluster

    ray.shutdown()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": head_cpus, "include_dashboard": False})
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def finished(name: str = "study", *, running: bool = False) -> int:
    """How many trials the ledger holds that are finished, or that run; none while it cannot be read."""
    try:
        ledger = reopened(name)
    except StudyError:
        return 0
    ledger.close()
    record = ledger.record()
    return record.running if running else len(record.trials)


def check_study(expected: dict[float, str] | None = None, name: str = "study") -> StudyRecord:
    """What holds of every study that has come to its end.

    Args:
        expected: the points that do not end ok.
        name: the study.
    """
    ledger = reopened(name)
    ledger.close()
    record = ledger.record()
    assert record.running == record.waiting == 0, "nothing is left running, nothing owed"
    told = Counter(t.params["scale"] for t in record.counted)
    assert told == dict.fromkeys(SCALES, 1), "every point was told, none twice"
    repeated = Counter(t.retry_of for t in record.trials if t.retry_of is not None)
    lost = {t.number for t in record.trials if t.outcome.outcome == "preempted"}
    assert repeated == dict.fromkeys(lost, 1), "what was lost was asked again, once"
    found = {t.params["scale"]: t.outcome.objectives for t in record.ok}
    assert found == undisturbed(set(expected or ())), "the front is that of a search without faults"
    bad = {t.params["scale"]: t.outcome.outcome for t in record.counted if t.outcome.outcome != "ok"}
    assert bad == (expected or {})
    return record


def undisturbed(without: set[float]) -> dict[float, Any]:
    """What the twelve points end as where nothing happens."""
    position = Simulation().position
    return {s: pytest.approx(closed_form(position({"scale": s}))) for s in SCALES if s not in without}


def lost(record: StudyRecord) -> int:
    """How many trials were lost and asked again."""
    return sum(t.outcome.outcome == "preempted" for t in record.trials)


def check_mlflow(server: Server, record: StudyRecord) -> None:
    """MLflow holds exactly what the ledger does: each trial once, ended, and the front's tags."""
    client = server.client()
    experiment = client.get_experiment_by_name(record.name).experiment_id
    runs = [r for r in client.search_runs([experiment], max_results=1000) if "tune_vfl.trial" in r.data.tags]
    held = {int(r.data.tags["tune_vfl.trial"]): r for r in runs}
    assert sorted(held) == sorted(t.number for t in record.counted)
    assert len(runs) == len(held)
    assert {r.info.status for r in runs} == {"FINISHED"}
    assert {n: r.data.metrics["utility"] for n, r in held.items()} == {
        t.number: pytest.approx(t.outcome.objectives[0]) for t in record.ok
    }
    front = {n for n, r in held.items() if r.data.tags["tune_vfl.pareto"] == "true"}
    assert front == {n for n, rank in ranks_of(record).items() if rank == 0}
