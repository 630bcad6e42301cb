"""Seconds to the first line, bar and trial of short searches on a terminal, and their ETA beside what followed.

    python -m benchmarks.pace [--beside 0]

Ten searches of breast_cancer, 8 to 16 trials by two seeds, each in a new home; every other one beside ``--beside``
processes that use a core each. The ETA is the one on the bar when a fifth of the trials have finished. It is compared
with the seconds from there to the last trial's end. About ten minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

SEARCHES = (
    (8, ["laplace"]),
    (8, ["marvell"]),
    (10, ["mid"]),
    (12, ["laplace", "discrete_sgd"]),
    (12, ["gaussian"]),
    (12, ["marvell", "iso", "max_norm"]),
    (14, ["gradient_compression", "label_dp"]),
    (16, ["laplace", "marvell"]),
    (16, ["grad_perturb"]),
    (16, ["laplace", "label_dp", "gafm", "iso"]),
)
BAR = re.compile(r"(\d+)/(\d+) trials.*?(?:ETA (?:(\d+):)?(\d+):(\d\d)|ETA \?)")


class Frame(NamedTuple):
    """A bar as it was shown.

    Attributes:
        at: seconds from the command's start.
        done, total: trials.
        eta: seconds; None for a question mark.
    """

    at: float
    done: int
    total: int
    eta: int | None


@contextmanager
def beside(count: int) -> Iterator[None]:
    """Keep so many cores busy during the block."""
    with ExitStack() as stack:
        for _ in range(count):
            burner = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(burner.kill)
        yield


def shown(spec: dict[str, object], home: Path) -> tuple[list[Frame], float, float]:
    """Run a search on a terminal; return its bars, and the seconds to its first line and to its end."""
    (home / "study.json").write_text(json.dumps(spec), encoding="utf-8")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TUNE_VFL_HOME": str(home), "COLUMNS": "300", "TERM": "xterm"}
    begun = time.monotonic()
    command = [sys.executable, "-m", "tune_vfl", "search", str(home / "study.json")]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as running:
        os.close(theirs)
        first, frames, rest = float("nan"), list[Frame](), ""
        while True:
            try:
                read = os.read(ours, 65536).decode(errors="replace")
            except OSError:  # the other end is closed
                break
            at = time.monotonic() - begun
            first = at if not frames and first != first and read.strip() else first
            *lines, rest = re.split(r"[\r\n]+", rest + read)
            for found in filter(None, map(BAR.search, lines)):
                hours, minutes, seconds = (int(n or 0) for n in found.groups()[2:])
                eta = None if found[4] is None else 3600 * hours + 60 * minutes + seconds
                frames.append(Frame(at, int(found[1]), int(found[2]), eta))
        os.close(ours)
    if running.returncode:
        raise RuntimeError(f"a search of {spec['defense']} ended with {running.returncode}")
    return frames, first, time.monotonic() - begun


def main() -> None:
    """Print a row for each search, and the largest factor between promise and truth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beside", type=int, default=1)
    parser.add_argument("--searches", type=int, nargs="+", default=list(range(len(SEARCHES))))
    given = parser.parse_args()
    print("| defenses | trials | beside | load | first line | bar | trial | done | ETA | true | factor | end |")
    factors = []
    for number in given.searches:
        trials, defenses = SEARCHES[number]
        count = given.beside * (number % 2)
        spec = {"study": "pace", "dataset": "breast_cancer", "defense": defenses, "attacks": ["default"]}
        budget = {"trials": trials, "seeds": 2}
        with tempfile.TemporaryDirectory() as home, beside(count):
            frames, first, end = shown({**spec, "budget": budget}, Path(home))
        said = next(f for f in frames if f.eta is not None and 5 * f.done >= f.total)
        over = next(f.at for f in frames if f.done == f.total)
        factor = said.eta / (over - said.at) if said.at < over else 1.0
        factors.append(max(factor, 1 / factor) if factor else float("inf"))
        begun = next(f.at for f in frames if f.done)
        print(
            f"| {', '.join(defenses)} | {trials} | {count} | {os.getloadavg()[0]:.1f} | {first:.1f} | "
            f"{frames[0].at:.1f} | {begun:.1f} | {said.done} | {said.eta} | {over - said.at:.1f} | {factor:.2f} | "
            f"{end:.1f} |",
            flush=True,
        )
    print(f"largest factor {max(factors):.2f}")


if __name__ == "__main__":
    main()
