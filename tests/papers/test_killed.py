"""``tune-vfl reproduce`` over Ray on bundled data: killed in the middle, it goes on with what it lacks."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.drivers import shared_ray, start_driver
from tune_vfl.papers.results import read_results

pytestmark = [pytest.mark.usefixtures("home"), pytest.mark.slow]  # two trainings, and a Ray

TABLE, LABEL = "kdk-table6", "cifar10 on digits: none"
DRIVER = """
    import sys
    from tune_vfl.cli.main import main
    sys.exit(main(["reproduce", "kdk-table6", "--dataset", "digits", "--seeds", "8", "--results", sys.argv[1]]))
"""


def seeds_of(folder: Path) -> dict[int, float]:
    kept = read_results(folder, TABLE).evaluations.get(LABEL)
    return {seed: result.seconds for seed, result in kept.seeds.items()} if kept else {}


def test_a_killed_run_loses_at_most_the_seeds_in_flight(
    tmp_path: Path, run: Callable[..., tuple[int, str, str]]
) -> None:
    program = start_driver(DRIVER, tmp_path, ray=shared_ray())
    deadline = time.monotonic() + 300
    while len(seeds_of(tmp_path)) < 2 and program.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(program.pid, signal.SIGKILL)
    program.communicate()
    before = seeds_of(tmp_path)
    code, out, _ = run("reproduce", TABLE, "--dataset", "digits", "--seeds", 8, "--results", tmp_path, "--json")
    numbers = {n["evaluation"]: n for n in json.loads(out)["numbers"]}
    assert (code, numbers[LABEL]["ours"]["seeds"], numbers[LABEL]["verdict"]) == (0, 8, "reproduced")
    assert len(before) >= 2
    assert {seed: seeds_of(tmp_path)[seed] for seed in before} == before, "what was kept was not trained again"
