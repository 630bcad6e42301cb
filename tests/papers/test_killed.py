"""``tune-vfl reproduce`` over Ray: killed in the middle it goes on with what it lacks, to the same answer."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.drivers import shared_ray, start_driver
from tune_vfl.papers.results import SeedResult, read_results

if TYPE_CHECKING:
    from tests.conftest import Run

pytestmark = [pytest.mark.usefixtures("home"), pytest.mark.slow]  # two times 24 trainings, and a Ray

TABLE, SEEDS = "kdk-table6", 12
ARGUMENTS = ("reproduce", TABLE, "--dataset", "digits", "--seeds", str(SEEDS), "--json", "--results")
DRIVER = """
    import sys
    from tune_vfl.cli.main import app
    app(args=sys.argv[1:], prog_name="tune-vfl")
"""


def kept(folder: Path) -> dict[tuple[str, int], SeedResult]:
    """Return what is kept, by evaluation and seed."""
    found = read_results(folder, TABLE).evaluations
    return {(label, seed): result for label, one in found.items() for seed, result in one.seeds.items()}


def answer(run: Run, folder: Path) -> dict[str, Any]:
    """Return what the command says at its end."""
    code, out, err = run(*ARGUMENTS, folder)
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def test_a_killed_run_keeps_its_seeds_and_ends_in_the_answer_of_an_uninterrupted_one(tmp_path: Path, run: Run) -> None:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    program = start_driver(DRIVER, *ARGUMENTS, killed, ray=shared_ray())
    deadline = time.monotonic() + 300
    while len(kept(killed)) < 3 and program.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert program.poll() is None, program.communicate()[1]
    os.kill(program.pid, signal.SIGKILL)
    program.communicate()
    before = kept(killed)
    assert program.returncode == -signal.SIGKILL
    assert 3 <= len(before) < 2 * SEEDS, "it was killed in the middle"
    resumed, uninterrupted = answer(run, killed), answer(run, whole)
    assert resumed == uninterrupted
    after = kept(killed)
    assert {key: after[key] for key in before} == before, "what was kept, its seconds too, was not trained again"
    assert {key: one.scores for key, one in after.items()} == {key: one.scores for key, one in kept(whole).items()}
    assert len(after) == 2 * SEEDS
