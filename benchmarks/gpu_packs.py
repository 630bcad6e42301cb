"""Packs in processes of their own: one, then several at once on the same card; their speed and memory.

python -m benchmarks.gpu_packs lenet full cuda 5    # such a process: trains, waits for a line, trains for 5 seconds
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.gpu_cases import CASES, OpenedCase, SizeName
from benchmarks.gpu_parts import GPU, BenchmarkPart, Cell, Until, mib, said
from tune_vfl.evaluation.packs import trials_that_fit
from tune_vfl.machine.runtime import peak_memory, prepare_process

ROOT = Path(__file__).parents[1]
SECONDS: dict[SizeName, float] = {"full": 5.0, "small": 1.0, "quick": 0.0}
"""For which a process trains; at least one training."""
NOTE = (
    "On the card, at most: allocated; reserved by torch. Recordings: what is kept for attacks, in main memory, and "
    "what the program expects of that (bytes_needed, for as many epochs as it ever keeps; trials_that_fit). It has "
    "no estimate of the card's memory: how many packs share a card is resources.gpu, a user's word."
)


def held_bytes(value: object, seen: set[int] | None = None) -> int:
    """Return the bytes of all tensors that an object holds, each storage once."""
    known = set() if seen is None else seen
    if isinstance(value, Tensor):
        storage = value.untyped_storage()
        new = storage.data_ptr() not in known
        known.add(storage.data_ptr())
        return storage.nbytes() if new else 0
    if id(value) in known:
        return 0
    known.add(id(value))
    if isinstance(value, dict):
        return sum(held_bytes(one, known) for one in value.values())
    if isinstance(value, list | tuple):
        return sum(held_bytes(one, known) for one in value)
    return held_bytes(vars(value), known) if hasattr(value, "__dict__") and not isinstance(value, type) else 0


def work(name: str, size: SizeName, device: str, seconds: float) -> None:
    """Be one of the processes: train once, say what memory that took, and train again when a line comes."""
    prepare_process()
    trained = OpenedCase(CASES[name], size)
    before = peak_memory()
    run = trained.train(device)
    report: dict[str, Any] = {
        "members": trained.members,
        "main_memory": peak_memory(),
        "main_memory_of_training": peak_memory() - before,
        "recordings": held_bytes(list(run.keepers.values())),
        "recordings_estimated": trained.estimated_bytes(),
        "trials_that_fit": trials_that_fit(trained.task),
        "allocated": torch.cuda.max_memory_allocated() if device == GPU else None,
        "reserved": torch.cuda.max_memory_reserved() if device == GPU else None,
    }
    tell({"ready": True})
    sys.stdin.readline()
    begun, count = time.perf_counter(), 0
    while count == 0 or time.perf_counter() - begun < seconds:
        trained.train(device)
        count += 1
    tell({**report, "a_minute": 60 * count / (time.perf_counter() - begun)})
    sys.stdin.readline()  # until it is ended: what it has taken of the card is looked at first


def tell(report: dict[str, Any]) -> None:
    """Write a line for the process that waits for it."""
    print(json.dumps(report), flush=True)


class PacksAtOnce(NamedTuple):
    """Reports of several processes at once, and the bytes in use on the card meanwhile, beyond those before."""

    reports: list[dict[str, Any]]
    by_driver: float | None
    by_smi: float | None

    @property
    def a_minute(self) -> float:
        """Trainings of all of them a minute."""
        return float(sum(report["a_minute"] for report in self.reports))


class Child:
    """A process that trains a pack, and waits for a line before it goes on.

    Args:
        name, size, device: what it trains, and where.
        errors: an open file for its messages.
    """

    def __init__(self, name: str, size: SizeName, device: str, errors: IO[bytes]) -> None:
        command = [sys.executable, "-m", "benchmarks.gpu_packs", name, size, device, str(SECONDS[size])]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, cwd=ROOT, text=True, stdin=pipe, stdout=pipe, stderr=errors)
        self._errors = errors

    def go(self) -> None:
        """Give it the line that it waits for."""
        if self._process.stdin is not None:
            self._process.stdin.write("\n")
            self._process.stdin.flush()

    def heard(self) -> dict[str, Any]:
        """Return the next line that it says.

        Raises:
            RuntimeError: when it ends first; with its last message.
        """
        for line in self._process.stdout or ():
            if line.startswith("{"):
                told: dict[str, Any] = json.loads(line)
                return told
        self._errors.seek(0)
        last = self._errors.read().decode(errors="replace").strip().splitlines()[-1:]
        raise RuntimeError(f"a process ended early: {''.join(last)}")

    def end(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()


def together(count: int, name: str, size: SizeName, device: str) -> PacksAtOnce:
    """Train a case in several processes at once, after each has trained once.

    Raises:
        RuntimeError: when one of them ends early.
    """
    before = in_use_by_driver(), in_use_by_smi()
    with ExitStack() as stack:
        children = []
        for _ in range(count):
            children.append(Child(name, size, device, stack.enter_context(tempfile.TemporaryFile())))
            stack.callback(children[-1].end)
        for child in children:
            child.heard()
        for child in children:
            child.go()
        reports = [child.heard() for child in children]
        meanwhile = in_use_by_driver(), in_use_by_smi()
    return PacksAtOnce(reports, *map(_beyond, before, meanwhile))


def _beyond(before: float | None, meanwhile: float | None) -> float | None:
    return None if before is None or meanwhile is None else meanwhile - before


def in_use_by_driver() -> float | None:
    """Return the bytes in use on the card, of all processes, by CUDA."""
    if not torch.cuda.is_available():
        return None
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    return float(total - free)


def in_use_by_smi() -> float | None:
    """Return the bytes in use on all cards by nvidia-smi; None where there is none, or where it does not say."""
    found = shutil.which("nvidia-smi")
    if found is None:
        return None
    asked = [found, "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        told = subprocess.run(asked, check=True, capture_output=True, text=True, timeout=20).stdout
        return sum(float(line) for line in told.splitlines()) * 2**20
    return None


def packs_at_once(size: SizeName, device: str, until: Until) -> tuple[BenchmarkPart, BenchmarkPart]:
    """Train one pack, then four at once, of each case; return the table of their speed and that of their memory."""
    count = 2 if size == "quick" else 4
    where = "one card" if device == GPU else "the CPU"
    speed = BenchmarkPart(
        "at_once",
        f"{count} packs at once on {where}, each in a process of its own",
        ("net", "one, trainings a minute", f"{count}, trainings a minute", "faster"),
    )
    card = (f"card, 1 and {count} packs", f"by nvidia-smi, 1 and {count}")
    memory = BenchmarkPart(
        "memory",
        "Memory of a pack, MiB",
        (
            "net",
            "members",
            "on the card, at most",
            *card,
            "main memory",
            "recordings",
            "by estimate",
            "trials that fit",
        ),
        notes=(NOTE,),
    )
    names = list(CASES) if size == "full" else ["lenet"]
    speed.left_out.update({case.title: "only in full size" for name, case in CASES.items() if name not in names})
    for i, name in enumerate(names):
        end, title = until.share(len(names) - i), CASES[name].title
        one = speed.attempt(f"{title}, 1 pack", end.left / 2, partial(together, 1, name, size, device))
        all_ = None
        if one is None:
            speed.left_out[f"{title}, {count} packs"] = memory.left_out[title] = "one by itself did not end"
        else:
            all_ = speed.attempt(f"{title}, {count} packs", end.left, partial(together, count, name, size, device))
            memory.rows.append(_memory_row(title, one, all_))
        rates = [each.a_minute if each else None for each in (one, all_)]
        speed.rows.append((title, *rates, rates[1] / rates[0] if rates[0] and rates[1] else None))
    return speed, memory


def _memory_row(title: str, one: PacksAtOnce, all_: PacksAtOnce | None) -> tuple[Cell, ...]:
    report = one.reports[0]
    most = both(report["allocated"], report["reserved"])
    driver, smi = both(one.by_driver, all_ and all_.by_driver), both(one.by_smi, all_ and all_.by_smi)
    kept = (mib(report[name]) for name in ("main_memory", "recordings", "recordings_estimated"))
    return title, report["members"], most, driver, smi, *kept, report["trials_that_fit"]


def both(one: float | None, other: float | None) -> str | None:
    """Return two sizes in MiB as one cell."""
    return None if one is None else f"{said(mib(one))}; {said(mib(other))}"


if __name__ == "__main__":
    asked, of_size, on, for_seconds = sys.argv[1:]
    work(asked, of_size, on, float(for_seconds))  # type: ignore[arg-type]
