"""CPU seconds and bytes of a page: of a running search, and of the final report.

    python -m benchmarks.pages [--trials 40 1000]

A made-up study of so many trials, one more with each time, is written into one folder four times, by a new process a
row. CPU seconds of the first time, with its imports, and the least of the others; bytes that the first and the second
wrote. For another version run this file in its checkout.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tests.helpers.studies import made_up_study
from tune_vfl.records.campaigns import CampaignRecord

TIMES = 4


def measure(trials: int, *, running: bool) -> tuple[float, float, int, int]:
    """Return the CPU seconds of the first and the fastest later page, and the bytes that each of them wrote."""
    studies = [made_up_study(trials + more, failures=()) for more in range(TIMES)]
    campaigns = [CampaignRecord(study.name, (study,), len(study.trials) + running) for study in studies]
    with tempfile.TemporaryDirectory() as folder:
        taken = list(pages(campaigns, Path(folder) / "out", running=running))
    (first, whole), (_, again) = taken[0], taken[1]
    return first, min(cpu for cpu, _ in taken[1:]), whole, again


def pages(campaigns: Iterable[CampaignRecord], out: Path, *, running: bool) -> Iterator[tuple[float, int]]:
    """Write a page a campaign; yield the CPU seconds and the bytes of each."""
    before: set[int] = set()
    for campaign in campaigns:
        begun = time.process_time()
        from reports.page import place_report, report_files

        place_report(report_files(campaign, refreshing=running), out)
        files = [path.stat() for path in out.rglob("*") if path.is_file()]
        yield time.process_time() - begun, sum(f.st_size for f in files if f.st_mtime_ns not in before)
        before = {f.st_mtime_ns for f in files}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", nargs="+", type=int, default=[40, 1000])
    given = parser.parse_args()
    print("| trials | page | first, CPU s | later | first, bytes | later |\n|---|---|---|---|---|---|", flush=True)
    for trials in given.trials:
        for running in (True, False):
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
                first, later, whole, again = process.submit(measure, trials, running=running).result()
            page = "running" if running else "final"
            print(f"| {trials} | {page} | {first:.2f} | {later:.2f} | {whole:,} | {again:,} |", flush=True)


if __name__ == "__main__":
    main()
