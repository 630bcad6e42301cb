"""Half an hour of faults at random moments: study after study on a real PostgreSQL and a real MLflow server.

TUNE_VFL_CHAOS_MINUTES=30 python -m pytest -m slow tests/faults/test_chaos.py -n 0 -s
"""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.faults.harness import Driver, check_mlflow, check_study, lost
from tests.faults.mlflow_server import Door, Server
from tests.helpers.drivers import shared_ray
from tests.helpers.postgres import Postgres

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home")]

MINUTES = float(os.environ.get("TUNE_VFL_CHAOS_MINUTES", "30"))
SEED = int(os.environ.get("TUNE_VFL_CHAOS_SEED", "0"))


class Chaos:
    """Harms one driver after another until its study is finished."""

    def __init__(self, seed: int, ray: str, postgres: Postgres, door: Door) -> None:
        self.random = random.Random(seed)  # noqa: S311
        self.ray, self.postgres, self.door = ray, postgres, door
        self.done: Counter[str] = Counter()
        self.ends: Counter[int] = Counter()

    def faults(self) -> dict[str, Callable[[Driver], None]]:
        return {
            "kill -9 of the driver": lambda d: d.send(signal.SIGKILL),
            "SIGTERM": lambda d: d.send(signal.SIGTERM),
            "Ctrl-C": lambda d: d.send(signal.SIGINT),
            "stopped for 3 s": self._pause,
            "kill -9 of a worker": self._kill_worker,
            "PostgreSQL restarted": lambda _: (self.postgres.stop(), self.postgres.start()),
            "all sessions ended": lambda _: self.postgres.end_sessions(),
            "PostgreSQL away for 4 s": self._take_postgres_away,
            "MLflow away for 4 s": self._shut_mlflow,
        }

    def _pause(self, driver: Driver) -> None:
        driver.send(signal.SIGSTOP)
        time.sleep(3)
        driver.send(signal.SIGCONT)

    def _kill_worker(self, _driver: Driver) -> None:
        """One worker of a search on the Ray of these tests, and no other's; the raylet is its parent."""
        for process in psutil.process_iter(["cmdline"]):
            with suppress(psutil.Error):
                parent = process.parent()
                ours = parent is not None and self.ray in " ".join(parent.cmdline())
                if ours and "SimulatedTrainable" in " ".join(process.info["cmdline"]):
                    self.done["a worker that ran"] += 1
                    process.kill()
                    return

    def _take_postgres_away(self, _driver: Driver) -> None:
        self.postgres.stop()
        time.sleep(4)
        self.postgres.start()

    def _shut_mlflow(self, _driver: Driver) -> None:
        self.door.shut()
        time.sleep(4)
        self.door.is_open = True

    def harm(self, driver: Driver) -> None:
        """One fault after another while the driver lives: most of them in flight, some before or after it."""
        for _ in range(self.random.randint(1, 3)):
            in_flight = self.random.random() < 0.75
            begun = driver.trained()
            while in_flight and driver.process.poll() is None and driver.trained() == begun:
                time.sleep(0.05)
            end = time.monotonic() + self.random.uniform(0.0, 1.5 if in_flight else 9.0)
            while time.monotonic() < end and driver.process.poll() is None:
                time.sleep(0.05)
            if driver.process.poll() is not None:
                return
            name, fault = self.random.choice(sorted(self.faults().items()))
            self.done[name] += 1
            fault(driver)


def test_chaos(postgres: Postgres, server: Server, door: Door, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    address = shared_ray()
    chaos = Chaos(SEED, address, postgres, door)
    begun, studies, drivers, trials, repeated = time.monotonic(), 0, 0, 0, 0
    given: dict[str, Any] = {"patch": {"tune_vfl.tracking.mlflow._RETRY_EVERY": 0.5}, "mlflow": True}
    spec = {"tracking": door.uri, "resources": {"concurrency": 2, "pack": 2}}
    while time.monotonic() - begun < MINUTES * 60:
        monkeypatch.setenv("TUNE_VFL_STORAGE", postgres.fresh())
        folder = tmp_path / str(studies)
        folder.mkdir()
        code = -1
        while code != 0:
            with Driver(folder, address, spec=spec, options={"sleep": 1.5}, **given) as driver:
                drivers += 1
                chaos.harm(driver)
                code, err = driver.ends()
                chaos.ends[code] += 1
                away = code == 4 and "the server does not answer" in err  # as it was begun: it is begun again
                assert away or code in {0, 130, 143, -signal.SIGKILL}, err
        check_study()
        record = driver.go_on()  # MLflow may have been away at the end: the next run writes what it lacks
        check_mlflow(server, record)
        client = server.client()
        client.rename_experiment(client.get_experiment_by_name("study").experiment_id, f"study-{SEED}-{studies}")
        studies, trials, repeated = studies + 1, trials + len(record.counted), repeated + lost(record)
        minutes = (time.monotonic() - begun) / 60
        print(
            f"{minutes:5.1f} min: {studies} studies, {drivers} drivers, {trials} trials told once each, "
            f"{repeated} asked again; faults {dict(chaos.done.most_common())}; drivers ended {dict(chaos.ends)}",
            flush=True,
        )
    assert studies
