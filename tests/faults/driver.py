"""A program that runs one study with the simulated trainable, and meets one fault at a moment of its own.

python -m tests.faults '{"spec": {...}, "options": {...}, "fault": {"at": "tell", "call": 5, "do": "kill"}}'
"""

import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.helpers.simulated import SimulatedTrainable, simulated_cell, simulated_spec
from tests.helpers.waiting import nap
from tune_vfl.driver.campaign_run import run_campaign
from tune_vfl.errors import TuneVflError
from tune_vfl.execution import ray_session
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.machine.signals import Interrupted
from tune_vfl.records.campaigns import PlannedCampaign
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.spaces.named import space_of
from tune_vfl.spec.cell import Cell, References
from tune_vfl.tracking.mlflow import Recorder

# What the driver is about to do when it is met: "start" is in the thread that starts Ray.
MOMENTS: dict[str, tuple[Any, str]] = {
    "start": (ray_session, "_start_here"),
    "ask": (Ledger, "begin_together"),
    "tell": (Ledger, "tell_together"),
    "told": (Ledger, "record"),
    "record": (Recorder, "on_trials"),
}


def _disk_full() -> None:
    """Let no file grow any more: what a full disk is, without filling one."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    largest = max(p.stat().st_size for p in Path(os.environ["TUNE_VFL_HOME"]).glob("ledger.db*"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))


def _clock_wrong() -> None:
    """Set the clock back by a day."""
    real = time.time
    time.time = lambda: real() - 86_400


DOINGS: dict[str, Callable[[], None]] = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "fill": _disk_full,
    "clock": _clock_wrong,
}


def arm(at: str, do: str, call: int = 1) -> None:
    """Let the fault happen just before the ``call``-th time that the driver does something."""
    owner, name = MOMENTS[at]
    real = getattr(owner, name)
    calls = 0

    def faulted(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            DOINGS[do]()
        return real(*args, **kwargs)

    setattr(owner, name, faulted)


class SlowToBegin(SimulatedTrainable):
    """Takes a while for what comes before the first trial."""

    @classmethod
    def measure(cls, cell: Cell, options: Mapping[str, Any]) -> tuple[References, float]:
        """Take it."""
        nap(30.0)
        return super().measure(cell, options)


def search(
    spec: dict[str, Any],
    options: dict[str, Any],
    *,
    name: str = "study",
    mlflow: bool = False,
    take_over: bool = False,
    slow: bool = False,
) -> bool:
    """Run the study, or go on with it; return whether it was stopped."""
    asked = simulated_spec(name, **spec)
    cell = simulated_cell(asked)
    study = PlannedStudy(asked, cell, space_of(asked, cell))
    sinks = [Recorder(name, asked.tracking)] if mlflow else []
    work = TrainableSpec(SlowToBegin if slow else SimulatedTrainable, options)
    return run_campaign(PlannedCampaign.of(study), sinks=sinks, work=work, take_over=take_over)


def main(given: dict[str, Any]) -> int:
    """Run it and say how it ended; the exit code is that of the command line."""
    for name, value in given.get("patch", {}).items():
        module, _, attribute = name.rpartition(".")
        setattr(sys.modules[module], attribute, value)
    if fault := given.get("fault"):
        arm(**fault)
    try:
        known = {key: given[key] for key in ("name", "mlflow", "slow") if key in given}
        stopped = search(given["spec"], given["options"], **known)
    except TuneVflError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except Interrupted as interrupted:
        return interrupted.exit_code
    sys.stderr.write("stopped\n" if stopped else "done\n")
    return 130 if stopped else 0
