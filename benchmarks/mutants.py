"""Do the tests notice faults in the code that decides an answer? Seeded faults, one at a time, against the tests.

    python -m benchmarks.mutants --seed 0 --count 200
    python -m benchmarks.mutants --room ledger        in one room of benchmarks/rooms.py; without, in the first
    python -m benchmarks.mutants --named              the faults of mutants.yaml, which no test noticed once
    python -m benchmarks.mutants --control            no fault, once for each file: no test may fail
    python -m benchmarks.mutants --only marvell       in files whose path contains a word

Every file of a room gives about as many faults (:mod:`benchmarks.mutations`) as any other. A fault that keeps its
file from being imported is not counted; another one is drawn. Each gets a fork of a process that has imported torch,
imports its file from the changed text, and runs the tests that execute its line (:mod:`benchmarks.tests_of_lines`),
none of more than :data:`SLOW` seconds, until one fails. It survives when none does within :data:`ENOUGH` seconds' worth
of them; a fault that makes them take :data:`PATIENCE` times as long is noticed, too. Seconds are the processor's.

Libraries were looked at first: mutmut 3 changes functions only, none with a decorator, and draws no sample;
cosmic-ray starts a command for each fault, which imports torch anew.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import random
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from benchmarks.mutations import mutations_of
from benchmarks.rooms import ROOMS, ROOT, code, files_of_tests, room_of
from benchmarks.tests_of_lines import KEPT, Chosen, Learned, forked, import_heavy_libraries, learned, tested

FIRST, SLOW, ENOUGH = 6.0, 20.0, 60.0
PATIENCE, LEAST = 5, 0.9
NOT_IMPORTED = 77
SIZES = ("_CHUNK ", "IN_MEMORY_BYTES ", "MEMORY_BYTES ", "ROWS_AT_ONCE ")
"""How much is held at a time, which changes no answer: not drawn."""
STOPPED = (-signal.SIGXCPU, -signal.SIGKILL)
VERDICTS = ("killed", "timed out", "survived")


class Fault(NamedTuple):
    """A file, its changed text, the lines of the statement that is changed, and whether importing the file runs it."""

    path: str
    text: str
    lines: range
    runs_on_import: bool
    name: str = ""

    @property
    def module(self) -> str:
        return self.path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")

    def diff(self) -> str:
        before = (ROOT / self.path).read_text(encoding="utf-8")
        lines = difflib.unified_diff(before.splitlines(), self.text.splitlines(), self.path, self.name, "", "", 1, "")
        return "\n".join(lines)


Judged = Sequence[tuple[Fault, str]]
Step = tuple[str, list[str]]


class Changed(MetaPathFinder, SourceFileLoader):
    """Imports one module from a changed text."""

    def __init__(self, fault: Fault) -> None:
        SourceFileLoader.__init__(self, fault.module, str(ROOT / fault.path))
        self._text = fault.text

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return spec_from_file_location(fullname, self.path, loader=self) if fullname == self.name else None

    def get_code(self, fullname: str) -> Any:
        return compile(self._text, self.path, "exec")


def functions_of(text: str) -> set[int]:
    """Return the lines inside of functions: others run when the file is imported, for whichever test comes first."""
    bodies = [node.body for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    return {line for body in bodies for line in range(body[0].lineno, (body[-1].end_lineno or 0) + 1)}


def drawn(seed: int, only: Sequence[str], rooms: Sequence[str] = tuple(ROOMS)) -> Iterator[Fault]:
    """Yield faults, of one file after the other, in an order that depends on the seed."""
    texts = {path: text for path, text in code(rooms).items() if not only or any(word in path for word in only)}
    left = {path: mutations_of(text) for path, text in texts.items()}
    order = sorted(left)
    for path, mutations in left.items():
        random.Random(f"{seed}/{path}").shuffle(mutations)  # noqa: S311 - no secret
    random.Random(seed).shuffle(order)  # noqa: S311 - no secret
    same = {fault.text for fault in listed("same")}
    while any(left.values()):
        for path in order:
            if left[path]:
                mutation = left[path].pop()
                text, line = mutation.applied(texts[path]), texts[path].splitlines()[mutation.lines.start - 1]
                if text not in same and not line.startswith(SIZES):
                    yield Fault(path, text, mutation.lines, mutation.runs_on_import)


def listed(kind: str) -> list[Fault]:
    """Return the faults of ``mutants.yaml`` of a kind, ``named`` or ``same``.

    Raises:
        SystemExit: when a text that is to be replaced does not occur once.
    """
    found = []
    for name, entry in yaml.safe_load((ROOT / "benchmarks/mutants.yaml").read_text())[kind].items():
        before, old = (ROOT / entry["file"]).read_text(encoding="utf-8"), entry["from"]
        if before.count(old) != 1:
            sys.exit(f"{name}: {entry['file']} has {old!r} {before.count(old)} times, not once")
        line = before[: before.index(old)].count("\n") + 1
        lines, inside = range(line, line + 1), line in functions_of(before)
        found.append(Fault(entry["file"], before.replace(old, entry["to"]), lines, not inside, name))
    return found


def unchanged(only: Sequence[str], rooms: Sequence[str]) -> list[Fault]:
    """Return each file as it is, in the place of a fault of some statement: no test may notice it."""
    first: dict[str, Fault] = {}
    for fault in drawn(0, only, rooms):
        first.setdefault(fault.path, fault)
    return [fault._replace(text=code(rooms)[path], name="unchanged") for path, fault in first.items()]


def plan(fault: Fault, known: Mapping[str, Learned], enough: float = ENOUGH) -> list[Step]:
    """Return the tests for a fault, by test file: those of its lines, then others of their files.

    The others, because what one test executes as the first to ask for something that is kept, more rely on. Of both,
    those come first that take little time and execute little else of the code.
    """
    lines = functions_of((ROOT / fault.path).read_text(encoding="utf-8")) if fault.runs_on_import else fault.lines
    own = [(test, t) for test, of in known.items() for t in of.tests_of(fault.path, lines)]
    beside = [(test, t) for test in {test for test, _ in own} for t in known[test].seconds if (test, t) not in own]
    spent, chosen = 0.0, []
    for group in (own, beside):
        for test, t in sorted(group, key=lambda pair: (known[pair[0]].breadth[pair[1]], pair)):
            if known[test].seconds[t] < SLOW and spent < enough:
                spent += known[test].seconds[t]
                chosen.append((spent > FIRST, test, t))
    steps: dict[tuple[bool, str], list[str]] = {}
    for later, test, t in chosen:
        steps.setdefault((later, test), []).append(t)
    return [(test, tests) for (_, test), tests in steps.items()]


def judge(fault: Fault, steps: Sequence[Step]) -> int:
    """Run tests against a fault in this process; return 1 when one fails, else 0."""
    sys.meta_path.insert(0, Changed(fault))
    try:
        import_module(fault.module)
    except BaseException:
        return NOT_IMPORTED
    return int(any(tested([path], Chosen(tests)) not in (0, 5) for path, tests in steps))


def run(
    faults: Iterator[Fault], count: int, jobs: int, rooms: Sequence[str], enough: float = ENOUGH
) -> list[tuple[Fault, str]]:
    """Judge faults until ``count`` of them could be imported, some at a time, by the tests of their rooms."""
    known = learned(list(code()), files_of_tests(rooms))
    running: dict[int, tuple[Fault, float, Path]] = {}
    judged: list[tuple[Fault, str]] = []
    started = 0
    while True:
        while len(running) < jobs and len(judged) + len(running) < count and (fault := next(faults, None)):
            steps = plan(fault, known, enough)
            limit = 30 + int(PATIENCE * sum(known[test].seconds[t] for test, tests in steps for t in tests))
            started, log = started + 1, KEPT / f"log-{started % 99}"
            child = forked(lambda fault=fault, steps=steps: judge(fault, steps), log, limit)
            running[child] = fault, time.monotonic() + 10 * limit, log
        if not running:
            return judged
        time.sleep(0.02)
        for child, (fault, deadline, log) in list(running.items()):
            if time.monotonic() > deadline:  # it waits for something that never comes
                os.killpg(child, signal.SIGKILL)
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                del running[child]
                result = os.waitstatus_to_exitcode(status)
                if result != NOT_IMPORTED:
                    verdict = "timed out" if result in STOPPED else "killed" if result else "survived"
                    judged.append((fault, verdict))
                    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", log.read_text(), re.MULTILINE)
                    what = " ".join([fault.name, failed[1] if failed else ""])
                    print(f"{len(judged)}/{count} {verdict:9} {fault.path}:{fault.lines.start} {what}", flush=True)


def table(judged: Judged) -> str:
    """Return a line a file: how many faults were drawn, and what became of them."""
    counts = Counter((fault.path, verdict) for fault, verdict in judged)
    lines = [f"| file | drawn | {' | '.join(VERDICTS)} |", "|---|---|---|---|---|"]
    for path in sorted({fault.path for fault, _ in judged}):
        of = [counts[path, verdict] for verdict in VERDICTS]
        lines.append(f"| {path} | {sum(of)} | {' | '.join(map(str, of))} |")
    return "\n".join(lines)


def shares(judged: Judged) -> str:
    """Return a line a room: how many faults were noticed."""
    noticed: dict[str, list[bool]] = {}
    for fault, verdict in judged:
        noticed.setdefault(room_of(fault.path), []).append(verdict != "survived")
    lines = [f"| {room} | {sum(of)} of {len(of)} | {sum(of) / len(of):.1%} |" for room, of in noticed.items()]
    return "\n".join(["| room | noticed | share |", "|---|---|---|", *lines])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Seeded faults in the code that decides an answer, against the tests.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--room", nargs="*", choices=ROOMS, default=None, help="whose files; the first room's")
    parser.add_argument("--named", action="store_true", help="the faults of mutants.yaml in place of drawn ones")
    parser.add_argument("--control", action="store_true", help="no faults: nothing may be noticed")
    parser.add_argument("--only", nargs="*", default=(), help="files whose path contains one of these words")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    asked = parser.parse_args(arguments)
    rooms = asked.room or list(ROOMS)[:1]
    import_heavy_libraries()
    if asked.control:
        files = unchanged(asked.only, rooms)
        judged = run(iter(files), len(files), asked.jobs, rooms, FIRST)
        failing = [fault.path for fault, verdict in judged if verdict != "survived"]
        print(f"\n{len(files)} files unchanged; tests fail for {', '.join(failing) or 'none'}")
        return int(bool(failing))
    if asked.named:
        named = [f for f in listed("named") if not asked.room or room_of(f.path) in rooms]
        judged = run(iter(named), len(named), asked.jobs, list(dict.fromkeys(room_of(f.path) for f in named)))
    else:
        judged = run(drawn(asked.seed, asked.only, rooms), asked.count, asked.jobs, rooms)
    survivors = [fault for fault, verdict in judged if verdict == "survived"]
    score = 1 - len(survivors) / len(judged)
    print("", table(judged), shares(judged), *(fault.diff() for fault in survivors), sep="\n\n")
    print(f"\n{len(judged) - len(survivors)} of {len(judged)} noticed: {score:.1%}")
    return int(score < (1 if asked.named else LEAST))


if __name__ == "__main__":
    sys.exit(main())
