"""Counts CPU seconds by stage in every process of a search, without a change to its code.

Python imports a file of this name at its start where the path leads to one, in Ray's workers too. Functions are wrapped
as their modules are imported; each process writes one file, ``STAGES/PID.json``, for ``benchmarks/decision.py`` to add
up. A name that a version of the code does not have is left alone: its time then belongs to what calls it.
"""

from __future__ import annotations

import atexit
import importlib.machinery
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import wraps
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = os.environ.get("TUNE_VFL_STAGES", "")
Stage = str | Callable[..., str]


def of_cell(_cls: type, cell: Any, *_args: Any, **_rest: Any) -> str:
    """Return the stage of a pack: the undefended model is one pack, with all its attacks."""
    return "undefended model" if cell.defense == "none" else "trials, the rest"


def of_attack(attack: Any, *_args: Any, **_rest: Any) -> str:
    """Return the stage of an attack."""
    return f"attack {attack.name}"


# Whole stages take in all that they call; of a pack of trials what stands below is taken out and counted by itself.
WHOLE = {"undefended model", "references and floors", "cost of each defense"}
TARGETS: dict[str, dict[str, Stage]] = {
    "trainables.cell": {
        "CellTrainable.prepare_worker": "starting workers",
        "CellTrainable.measure": "references and floors",
        "CellTrainable.cost": "cost of each defense",
        "CellTrainable.evaluate": of_cell,
    },
    # A training is `train` since there are horizontal federations, `train_pack` before.
    "tune_vfl.evaluation.measuring": {"train": "training", "train_pack": "training", "score_attack": of_attack},
}


class Clock:
    """CPU seconds of this process by stage, each second in one stage only."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Start at nothing, as a process does that was forked."""
        self.spent: dict[str, float] = {}
        self.open: list[str] = []
        self.since = time.process_time()

    def enter(self, stage: str) -> None:
        """Go into a stage."""
        if self.open:
            self.count(self.open[-1])
        elif not self.spent:  # all that a worker did before its first work: the interpreter, Ray, imports
            self.since = 0.0
            self.count("starting workers")
        within = self.open and self.open[-1] in WHOLE and stage != "starting workers"
        self.open.append(self.open[-1] if within else stage)
        self.since = time.process_time()

    def leave(self) -> None:
        """Come out of it."""
        self.count(self.open.pop())
        if not self.open:  # a worker is killed in the end, so it writes whenever it has done something
            write()

    def count(self, stage: str) -> None:
        """Give a stage what was spent since the last time."""
        now = time.process_time()
        self.spent[stage] = self.spent.get(stage, 0.0) + now - self.since
        self.since = now


CLOCK = Clock()


def write() -> None:
    """Write what this process took so far."""
    told = {"command": sys.orig_argv, "cpu": time.process_time(), "stages": CLOCK.spent}
    Path(FOLDER, f"{os.getpid()}.json").write_text(json.dumps(told))


def timed(function: Callable[..., Any], stage: Stage) -> Callable[..., Any]:
    """Return the function, with its time counted."""

    @wraps(function)
    def around(*args: Any, **kwargs: Any) -> Any:
        CLOCK.enter(stage if isinstance(stage, str) else stage(*args, **kwargs))
        try:
            return function(*args, **kwargs)
        finally:
            CLOCK.leave()

    return around


def wrap(module: ModuleType, path: str, stage: Stage) -> None:
    """Put the counted function in the place of the one that the module has, if it has one."""
    owner, _, name = path.rpartition(".")
    place = getattr(module, owner, None) if owner else module
    found = vars(place).get(name) if place is not None else None
    if isinstance(found, classmethod):
        setattr(place, name, classmethod(timed(found.__func__, stage)))
    elif callable(found):
        setattr(place, name, timed(found, stage))


class Finder:
    """Wraps the targets of a module as it is imported."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find it as it would be found, and have its loader wrap what it loaded."""
        if fullname not in TARGETS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            for where, stage in TARGETS[fullname].items():
                wrap(module, where, stage)

        setattr(spec.loader, "exec_module", exec_module)  # noqa: B010 - a method of one loader only
        return spec


if FOLDER:
    sys.meta_path.insert(0, Finder)
    os.register_at_fork(after_in_child=CLOCK.begin)
    atexit.register(write)
