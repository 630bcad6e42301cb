"""Do the intervals hold what they promise? Simulated studies of which the truth is known.

Run: python -m benchmarks.coverage [levels leakage rows fronts export rejects] [--studies 1000]

Every table starts from generator seed 18. A study has 24 settings that share their seeds; a setting's own variances
between seeds differ (inverse chi-square, 6 degrees of freedom), rho is the share that a seed gives to all settings.
What is drawn is said at each function, and in ``benchmarks/searches.py``. tests/statistics/test_coverage.py holds the
tables to their bounds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.searches import ADVANTAGE_SD, SAID, SEED, Floats, exported, fronts, rejected, spreads
from tune_vfl.evaluation.certainty import stood_in
from tune_vfl.evaluation.packs import NEARLY_ALL
from tune_vfl.statistics import delong_variance, differences, leakage_bounds, levels, levels_by_undefended
from tune_vfl.statistics.floors import auc_pieces
from tune_vfl.statistics.intervals import Estimate, plain_differences, plain_levels, shrink

SETTINGS = 24
SEEDS = (3, 5, 10)
MORE_SEEDS = {3: 10, 5: 10, 10: 20}
Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return rng.normal(size=shape)


def skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Mean 0, variance 1, a long tail of bad seeds: 2 - Gamma(2), scaled; skewness -1.4."""
    return (2 - rng.gamma(2, size=shape)) / np.sqrt(2)


def noise(rng: np.random.Generator, settings: int, seeds: int, rho: float, draw: Draw = normal) -> Floats:
    """Return what seeds add to settings ``(N, S)``, variance 1 on average."""
    own = spreads(rng, settings) * draw(rng, (settings, seeds))
    return np.sqrt(rho) * draw(rng, (seeds,)) + np.sqrt(1 - rho) * own


class Cell(NamedTuple):
    """Share of truths that the 90% intervals hold, and the mean half-width in deviations between seeds."""

    coverage: float
    half_width: float

    @staticmethod
    def of(cells: Sequence[Cell]) -> Cell:
        return Cell(*(float(v) for v in np.mean(cells, axis=0)))

    def __str__(self) -> str:
        return f"{self.coverage:.3f} ({self.half_width:.2f})"


def _held(estimate: Estimate) -> Cell:
    """Score an estimate whose truth is 0; of differences the pairs above the diagonal count."""
    mean, half = estimate.mean, estimate.half_width()
    if mean.ndim == 2:
        above = np.triu_indices(len(mean), 1)
        mean, half = mean[above], half[above]
    return Cell(float((np.abs(mean) <= half).mean()), float(half.mean()))


LEVELS: dict[str, tuple[float, Draw]] = {
    "rho .3": (0.3, normal),
    "rho .95": (0.95, normal),
    "skewed, rho .95": (0.95, skewed),
}
WAYS = ("difference, t", "difference, shrunk", "level, t", "level, shrunk", "level, more undefended seeds")


def level_cells(kind: str, seeds: int, studies: int) -> dict[str, Cell]:
    """Return, for one kind of noise and number of seeds, what every way to an interval holds."""
    rho, draw = LEVELS[kind]
    rng = np.random.default_rng(SEED)
    found: dict[str, list[Cell]] = {way: [] for way in WAYS}
    for _ in range(studies):
        whole = noise(rng, SETTINGS + 1, MORE_SEEDS[seeds], rho, draw)
        block, undefended = whole[1:, :seeds], whole[0]
        estimates = (
            plain_differences(block),
            differences(block),
            plain_levels(block),
            levels(block),
            levels_by_undefended(block, undefended),
        )
        for way, estimate in zip(WAYS, estimates, strict=True):
            found[way].append(_held(estimate))
    return {way: Cell.of(cells) for way, cells in found.items()}


def noisiest(studies: int, seeds: int = 3, rho: float = 0.3) -> dict[str, Cell]:
    """Return what differences from the noisiest quarter hold: on shrunk variances, and on one variance for all.

    Pairs count of which at least one setting is of that quarter.
    """
    rng = np.random.default_rng(SEED)
    found: dict[str, list[Cell]] = {"shrunk": [], "one variance for all": []}
    for _ in range(studies):
        own = spreads(rng, SETTINGS)
        block = np.sqrt(rho) * rng.normal(size=seeds) + np.sqrt(1 - rho) * own * rng.normal(size=(SETTINGS, seeds))
        noisy = np.argsort(own[:, 0])[-SETTINGS // 4 :]
        estimate = differences(block)
        # Own variances enter with d / (2 + d), so that the mean of the shrunk ones is that of all.
        pooled = np.full_like(estimate.se, np.sqrt(2 * shrink(block).own.mean() / seeds))
        freedom = np.full_like(estimate.df, (seeds - 1) * (SETTINGS - 1))
        of_it = np.isin(np.arange(SETTINGS), noisy)
        pairs = np.triu(of_it[:, None] | of_it[None, :], 1)
        for way, each in (("shrunk", estimate), ("one variance for all", Estimate(estimate.mean, pooled, freedom))):
            found[way].append(_held(Estimate(*(a[pairs] for a in each))))
    return {way: Cell.of(cells) for way, cells in found.items()}


ADVANTAGES = {
    "null": (0.0, 0.0, 0.0, 0.0, 0.0),
    "one ahead": (0.3, 0.1, 0.1, 0.05, 0.0),
    "two close": (0.3, 0.28, 0.1, 0.05, 0.0),
    "tied": (0.3, 0.3, 0.3, 0.3, 0.3),
}


def leakage_cells(kind: str, rho: float, seeds: int, studies: int) -> dict[str, Cell]:
    """Return what the bounds on the largest of five advantages hold, and what the winner's own interval would.

    Attacks have seed effects of their own; the half-width is half of the clipped interval, in advantage.
    """
    rng = np.random.default_rng(SEED)
    true = np.array(ADVANTAGES[kind])
    found: dict[str, list[Cell]] = {"bounds": [], "the winner's": []}
    for _ in range(studies):
        x = np.stack([a + ADVANTAGE_SD * noise(rng, SETTINGS, seeds, rho) for a in true])
        held = [(b.lower <= true.max() <= b.upper, (b.upper - b.lower) / 2) for b in leakage_bounds(x)]
        found["bounds"].append(Cell.of([Cell(*h) for h in held]))
        mean, half = x.mean(-1), 1.645 * x.std(-1, ddof=1) / np.sqrt(seeds)
        best = mean.argmax(0), np.arange(SETTINGS)
        found["the winner's"].append(
            Cell(float((np.abs(mean[best] - true.max()) <= half[best]).mean()), float(half[best].mean()))
        )
    return {way: Cell.of(cells) for way, cells in found.items()}


FOUND = (0.6, 0.8, 0.95, 1.1, 1.2)
"""What five attacks find, as a multiple of a setting's level and 1 at most; the last one is dear."""


def left_out_cells(rho: float, seeds: int, studies: int) -> dict[str, Cell]:
    """Return what the bounds hold where a dear attack is left out of settings in which another found nearly all.

    Levels are uniform in [0, 1.2], so that the first attacks find everything in some settings; the closer an attack is
    to 0 or 1, the less its advantage differs between seeds. The truth is the largest advantage with the dear attack,
    whether or not a setting met it. Of the settings that met it, the coverage stands apart.
    """
    rng = np.random.default_rng(SEED)
    found: dict[str, list[Cell]] = {"every attack": [], "left out": [], "left out, settings that met it": []}
    for _ in range(studies):
        true = np.minimum(np.outer(FOUND, rng.uniform(0, 1.2, SETTINGS)), 1.0)
        size = 2 * ADVANTAGE_SD * np.sqrt(true * (1 - true))
        drawn = np.stack([noise(rng, SETTINGS, seeds, rho) for _ in FOUND])
        x = np.minimum(true[..., None] + size[..., None] * drawn, 1.0)
        met = np.ones(true.shape, dtype=bool)
        met[-1] = x[:-1].min(-1).max(0) < NEARLY_ALL
        for way, gains in (("every attack", x), ("left out", stood_in(x, met))):
            ends = [(b.lower, b.upper) for b in leakage_bounds(gains)]
            held = [Cell(low <= t <= high, (high - low) / 2) for (low, high), t in zip(ends, true.max(0), strict=True)]
            found[way].append(Cell.of(held))
            if way == "left out" and met[-1].any():
                found["left out, settings that met it"].append(
                    Cell.of([c for c, m in zip(held, met[-1], strict=True) if m])
                )
    return {way: Cell.of(cells) for way, cells in found.items()}


ROW = 0.7


def row_cells(tested: float, rows: int, seeds: int, studies: int, settings: int = 8) -> dict[str, Cell]:
    """Return what intervals of AUCs hold for the source that the rows come from.

    Each seed tests ``tested`` of the rows. A row's score is its class's mean, plus what is peculiar to the row (the
    share ``ROW`` of the variance) and to its training. The truth is ``Phi(distance / sqrt 2)``.
    """
    from scipy.special import ndtr

    rng = np.random.default_rng(SEED)
    found: dict[str, list[Cell]] = {"t over seeds": [], "with f V": [], "rows alone": []}
    for _ in range(studies):
        distances = rng.uniform(0.8, 1.6, settings)
        y = np.arange(rows) % 2
        peculiar = rng.normal(size=rows)
        auc, variance = np.empty((settings, seeds)), np.empty((settings, seeds))
        for s in range(seeds):
            held = rng.permutation(rows)[: round(tested * rows)]
            for i, distance in enumerate(distances):
                scores = (
                    distance * y[held] + np.sqrt(ROW) * peculiar[held] + np.sqrt(1 - ROW) * rng.normal(size=len(held))
                )
                auc[i, s], variance[i, s] = auc_pieces(scores, y[held])[0].mean(), delong_variance(scores, y[held])
        estimate, v = levels(auc), variance.mean(1)
        gone = np.abs(estimate.mean - ndtr(distances / np.sqrt(2)))
        for way, half in (
            ("t over seeds", estimate.half_width()),
            ("with f V", estimate.half_width(rows=tested * v)),
            ("rows alone", 1.645 * np.sqrt(tested * v)),
        ):
            found[way].append(Cell(float((gone <= half).mean()), float(half.mean())))
    return {way: Cell.of(cells) for way, cells in found.items()}


def print_levels(studies: int) -> None:
    print("| interval | noise | " + " | ".join(f"S = {s}" for s in SEEDS) + " |\n|---|---|---|---|---|")
    for kind in LEVELS:
        cells = [level_cells(kind, s, studies) for s in SEEDS]
        for way in WAYS:
            print(f"| {way} | {kind} | " + " | ".join(str(c[way]) for c in cells) + " |", flush=True)
    for way, cell in noisiest(studies).items():
        print(f"| difference from the noisiest quarter, {way} | rho .3 | {cell} | | |")


def print_leakage(studies: int) -> None:
    print("| attacks | rho | S | bounds (half-width) | the winner's mean +- 1.645 se |\n|---|---|---|---|---|")
    for rho, seeds in ((0.3, 3), (0.6, 3), (0.3, 5), (0.6, 5), (0.3, 10), (0.6, 10), (0.8, 3)):
        for kind in ADVANTAGES:
            cells = leakage_cells(kind, rho, seeds, studies)
            print(f"| {kind} | {rho} | {seeds} | " + " | ".join(map(str, cells.values())) + " |", flush=True)
    print("\n| rho | S | every attack is run | a dear one is left out | where it was run |\n|---|---|---|---|---|")
    for rho, seeds in ((0.3, 3), (0.6, 3), (0.3, 10), (0.6, 10)):
        left_out = left_out_cells(rho, seeds, studies)
        print(f"| {rho} | {seeds} | " + " | ".join(map(str, left_out.values())) + " |", flush=True)


def print_rows(studies: int) -> None:
    print("| rows | S | t over seeds | with f V | rows alone |\n|---|---|---|---|---|")
    for rows in (150, 500):
        for seeds in (3, 10):
            cells = row_cells(0.3, rows, seeds, studies)
            print(f"| {rows} | {seeds} | " + " | ".join(f"{c.coverage:.3f}" for c in cells.values()) + " |", flush=True)


def print_fronts(studies: int) -> None:
    said = " | ".join(f"said {s:g}" for s in SAID)
    print(f"| S | {said} | the knee gives up | the chord's |\n|---|---|---|---|---|---|---|")
    for seeds in (3, 10):
        found = fronts(24, seeds, studies)
        true = " | ".join(f"{c:.2f}" for c in found.calibration)
        print(f"| {seeds} | {true} | {found.knee:.3f} | {found.chord:.3f} |", flush=True)


def print_exports(studies: int) -> None:
    print(
        "| trials | chosen by | truly > .2 | mean true leakage | utility given up | none meets it |\n"
        "|---|---|---|---|---|---|"
    )
    for trials, of_them in ((24, studies), (300, studies // 5)):
        for way, found in exported(trials, of_them).items():
            print(f"| {trials} | {way} | {found} |", flush=True)


def print_rejects(studies: int) -> None:
    print("| trials | points | trainings | all at 2N | members lost | dominated kept |\n|---|---|---|---|---|---|")
    for trials in (24, 60):
        found = rejected(trials, studies)
        print(f"| {trials} | " + " | ".join(f"{v:.2f}" for v in found) + " |", flush=True)


# The share of --studies that a table takes; 1,000 make those of benchmarks/README.md.
TABLES = {
    "levels": (print_levels, 1.0),
    "leakage": (print_leakage, 0.6),
    "rows": (print_rows, 0.3),
    "fronts": (print_fronts, 0.4),
    "export": (print_exports, 1.0),
    "rejects": (print_rejects, 0.3),
}


def main() -> None:
    """Print the tables that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=list(TABLES), help=", ".join(TABLES))
    parser.add_argument("--studies", type=int, default=1000)
    given = parser.parse_args()
    for name in given.tables:
        table, share = TABLES[name]
        print(f"\n## {name}\n")
        table(round(given.studies * share))


if __name__ == "__main__":
    main()
