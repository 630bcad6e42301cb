"""Which tests execute which lines, how long they take, and processes to run them in, torch being imported already.

Learned from one run of each test file under ``coverage``, and kept in ``build/mutants`` as long as neither the package
nor the file changes. A test that fails by itself is left out; what a test starts in a process of its own is not seen.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.rooms import ROOT

KEPT = ROOT / "build/mutants"
PACKAGE = ("tune_vfl", "trainables", "reports", "tests/helpers")
HEAVY = ("hypothesis", "pandas", "pydantic", "pytest", "ray", "scipy.special", "scipy.stats", "sklearn", "torch")


class Learned:
    """Measurements of one test file.

    Args:
        seconds: the CPU seconds of each test.
        lines: the tests that execute a line, by source file.

    Attributes:
        breadth: how many lines a test executes, times the seconds that it and its file take: small for a unit's test.
    """

    def __init__(self, seconds: dict[str, float], lines: dict[str, dict[str, list[str]]]) -> None:
        self.seconds, self._lines = seconds, lines
        executed = Counter(test for by_line in lines.values() for tests in by_line.values() for test in tests)
        self.breadth = {test: executed[test] * (0.2 + spent) for test, spent in seconds.items()}

    def tests_of(self, path: str, lines: Container[int]) -> set[str]:
        """Return the tests that execute any of these lines of a source file."""
        return {test for line, tests in self._lines.get(path, {}).items() if int(line) in lines for test in tests}


class Chosen:
    """A pytest plugin: run these tests, in this order. Without any: run all, and tell coverage which one is running."""

    def __init__(self, tests: Sequence[str] | None = None, coverage: Any = None) -> None:
        self.tests, self.coverage = tests, coverage
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        # A server of a process that is stopped would live on.
        items[:] = [item for item in items if "postgres" not in item.fixturenames]
        if self.tests is not None:
            by_id = {item.nodeid: item for item in items}
            items[:] = [by_id[test] for test in self.tests if test in by_id]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.seconds[nodeid] = -time.process_time()
        if self.coverage is not None:
            self.coverage.switch_context(nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.seconds[nodeid] += time.process_time()

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.failed |= {report.nodeid} if report.failed else set()


def import_heavy_libraries() -> None:
    """Import what every fork needs; a thread that one of them starts would not live on in a fork."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in HEAVY:
        import_module(name)


def forked(work: Callable[[], int], log: Path, limit: int = resource.RLIM_INFINITY) -> int:
    """Start ``work`` in a fork of this process, in a process group of its own; return its id.

    Args:
        work: what to do; its answer is the exit code.
        log: the file that it prints to.
        limit: CPU seconds after which it is stopped.
    """
    sys.stdout.flush()
    if child := os.fork():
        return child
    status = 1
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        os.chdir(ROOT)
        with log.open("w") as out:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
            status = work()
    finally:
        os._exit(status)


def tested(arguments: Sequence[str], plugin: Chosen) -> int:
    """Run tests in this process; return pytest's exit code. Properties try the same examples every time.

    A test that starts a Ray fails, and so is left out: a fault may have it wait for ever, for what never comes.
    """
    import hypothesis
    import pytest
    import ray

    ray.init = _refused
    hypothesis.settings.register_profile("mutants", database=None, derandomize=True)
    hypothesis.settings.load_profile("mutants")
    return int(pytest.main(["-qx", "-n0", "-p", "no:cacheprovider", "--tb=line", *arguments], plugins=[plugin]))


def _refused(**_: object) -> None:
    raise RuntimeError("no Ray is started here")


def learned(code: Sequence[str], tests: Mapping[str, str]) -> dict[str, Learned]:
    """Return what is known of each test file; those that are not known are run.

    Args:
        code: the source files whose lines are asked about.
        tests: the test files, and which of their tests (pytest's ``-k``).

    Raises:
        SystemExit: when a test file cannot be run.
    """
    KEPT.mkdir(parents=True, exist_ok=True)
    found = {}
    for test, keyword in tests.items():
        text = _package() + (ROOT / test).read_bytes() + keyword.encode()
        name = test.removeprefix("tests/").removesuffix(".py").replace("/", "-")
        kept = KEPT / f"{name}-{hashlib.sha256(text).hexdigest()[:16]}.json"
        if not kept.exists():
            print("learning", test, flush=True)
            arguments, log = [test, "-k", keyword, "--maxfail=99"], KEPT / "log"
            os.waitpid(forked(lambda a=arguments, kept=kept: _learn(a, code, kept), log), 0)
            if not kept.exists():
                sys.exit(f"{test} cannot be run:\n{log.read_text()}")
        found[test] = Learned(*json.loads(kept.read_text()))
    return found


def _learn(arguments: Sequence[str], code: Sequence[str], kept: Path) -> int:
    from coverage import Coverage

    coverage = Coverage(data_file=None, include=[str(ROOT / path) for path in code], config_file=False)
    plugin = Chosen(coverage=coverage)
    coverage.start()
    status = tested(arguments, plugin)
    coverage.stop()
    data, seconds = coverage.get_data(), {t: s for t, s in plugin.seconds.items() if t not in plugin.failed}
    lines: dict[str, Mapping[int, list[str]]] = {}
    for file in data.measured_files():
        by_line = data.contexts_by_lineno(file)
        lines[str(Path(file).relative_to(ROOT))] = {n: sorted(set(c) & set(seconds)) for n, c in by_line.items()}
    if status in (0, 1, 5):  # all passed; some failed; there is none
        kept.write_text(json.dumps([seconds, lines]))
    return status


@cache
def _package() -> bytes:
    texts = sorted(path for top in PACKAGE for path in (ROOT / top).rglob("*.py"))
    return b"".join(hashlib.sha256(path.read_bytes()).digest() for path in (*texts, ROOT / "tests/conftest.py"))
