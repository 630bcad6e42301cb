"""Where a campaign's trials go: to all defenses alike, or to those that can still change the joint front.

    python -m benchmarks.allocation tabulate spambase --settings 24 --minutes 40
    python -m benchmarks.allocation replay spambase digits --samplers random tpe

``tabulate`` runs settings of all defenses that fit and keeps what came back under ``benchmarks/tables``; it goes on
where it stopped. ``replay`` spreads the trials of these tables by each allocator. A trial is a row of its part's table:
published settings first, then the others in an order that a seed shuffles, or for ``tpe`` the row nearest to what
Optuna's sampler proposes after the rows before. Hypervolumes are shares of the whole table's.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.allocation_tables import DATASETS, FOLDER, PACK, Row, part, read, table_of, tabulate
from tune_vfl.campaign.allocation import ALLOCATORS, Allocator, PartState
from tune_vfl.metrics.pareto import hypervolume, hypervolume_history

SHARES = (0.25, 0.5, 1.0)
REFERENCES = {"spambase": (0.5, 1.0), "digits": (0.102, 1.0)}
Drawn = Iterator[int]


class Table(NamedTuple):
    """A data set's table, defense by defense, and the worst point that counts."""

    dataset: str
    parts: Mapping[str, list[Row]]
    reference: tuple[float, float]

    @property
    def trials(self) -> int:
        return sum(map(len, self.parts.values()))

    @property
    def whole(self) -> float:
        """The hypervolume of all rows."""
        return hypervolume([r.objectives for rows in self.parts.values() for r in rows if _ok(r)], self.reference)


def opened(dataset: str, folder: Path = FOLDER) -> Table:
    """Read a table."""
    parts: dict[str, list[Row]] = {}
    for row in read(table_of(dataset, folder)):
        parts.setdefault(row.defense, []).append(row)
    return Table(dataset, parts, REFERENCES[dataset])


def random_order(rows: Sequence[Row], seed: int, dataset: str) -> Drawn:
    """Yield places of rows: published ones, then the others shuffled."""
    del dataset
    first = [i for i, r in enumerate(rows) if r.published]
    rest = [i for i, r in enumerate(rows) if not r.published]
    yield from first
    yield from np.random.default_rng(seed).permutation(rest).astype(int).tolist()


def tpe_order(rows: Sequence[Row], seed: int, dataset: str) -> Drawn:
    """Yield places of rows: published ones, then the nearest one left to what TPE proposes, told of all before."""
    import optuna

    from tune_vfl.samplers.base import SAMPLERS

    distributions = part(dataset, rows[0].defense, len(rows)).study.space.distributions()
    study = optuna.create_study(
        directions=["maximize", "minimize"], sampler=SAMPLERS["tpe"].build(seed, budget=len(rows))
    )
    places = np.asarray([encoded(r.params, distributions) for r in rows])
    left, queue = set(range(len(rows))), [i for i, r in enumerate(rows) if r.published]
    while left:
        trial = study.ask(distributions)
        if queue:
            place = queue.pop(0)
        else:
            proposed = np.asarray(encoded(trial.params, distributions))
            place = min(left, key=lambda i: (float(((places[i] - proposed) ** 2).sum()), i))
        left.remove(place)
        yield place
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
        if _ok(rows[place]):
            found = optuna.trial.create_trial(
                params=rows[place].params, distributions=distributions, values=list(rows[place].objectives)
            )
            study.add_trial(found)


def encoded(params: Mapping[str, object], distributions: Mapping[str, object]) -> list[float]:
    """Return a setting's place in the unit cube of its space, a side for each choice of a categorical parameter."""
    import optuna

    numbers = []
    for name, d in distributions.items():
        if isinstance(d, optuna.distributions.CategoricalDistribution):
            numbers += [float(d.to_internal_repr(params[name]) == k) for k in range(len(d.choices))]
        else:
            scale = np.log if d.log else float
            low, high, value = scale(d.low), scale(d.high), scale(params[name])
            numbers.append(float((value - low) / (high - low)) if high > low else 0.0)
    return numbers


ORDERS: dict[str, Callable[[Sequence[Row], int, str], Drawn]] = {"random": random_order, "tpe": tpe_order}


class Replay(NamedTuple):
    """One campaign on a table: the hypervolume after each trial, what each part got, who was retired after how many."""

    history: list[float]
    trials: dict[str, int]
    retired: dict[str, tuple[int, str]]


def _ok(row: Row) -> bool:
    return row.outcome == "ok"


def state_of(name: str, drawn: Sequence[Row], rows: Sequence[Row]) -> PartState:
    """Return what an allocator sees of a part of which these rows were drawn."""
    ok = [r for r in drawn if _ok(r)]
    seeds = len(ok[0].utility) if ok else 1
    return PartState(
        name=name,
        defense=name,
        due=max(0, sum(r.published for r in rows) - len(drawn)),
        objectives=np.asarray([r.objectives for r in ok]).reshape(-1, 2),
        utility=np.asarray([r.utility for r in ok]).reshape(-1, seeds),
        leakage=np.asarray([max(r.advantages.values(), key=sum) for r in ok]).reshape(-1, seeds),
        failed=len(drawn) - len(ok),
        left=len(rows) - len(drawn),
        pack=PACK,
    )


def replayed(table: Table, allocate: Allocator, total: int, order: str, seed: int) -> Replay:
    """Run a campaign on a table, one pack at a time."""
    sources = {name: ORDERS[order](rows, seed, table.dataset) for name, rows in table.parts.items()}
    drawn: dict[str, list[Row]] = {name: [] for name in table.parts}
    every: list[Row] = []
    retired: dict[str, tuple[int, str]] = {}
    states = {name: state_of(name, [], rows) for name, rows in table.parts.items()}
    while len(every) < total:
        found = allocate(list(states.values()), total - len(every), table.reference)
        retired = {name: retired.get(name, (len(every), why)) for name, why in (found.retired or {}).items()}
        if found.part is None:
            break
        rows = table.parts[found.part]
        more = [rows[next(sources[found.part])] for _ in range(found.trials)]
        drawn[found.part] += more
        every += more
        states[found.part] = state_of(found.part, drawn[found.part], rows)
    # A trial without objectives adds nothing: it stands where it can dominate nothing.
    worst = (table.reference[0] - 1, table.reference[1] + 1)
    points = [r.objectives if _ok(r) else worst for r in every]
    history = hypervolume_history(points, table.reference)
    return Replay(history.tolist(), {name: len(rows) for name, rows in drawn.items()}, retired)


def compared(table: Table, per_part: int, order: str, seeds: int, names: Sequence[str]) -> list[str]:
    """Return the lines of one table's comparison: each allocator with the same orders."""
    total = min(table.trials, per_part * len(table.parts))
    runs = {n: [replayed(table, ALLOCATORS[n], total, order, s) for s in range(seeds)] for n in names}
    goals = [run.history[-1] for run in runs["even"]]
    lines = []
    for name, found in runs.items():
        at = np.asarray([[_at(r.history, share, total) for share in SHARES] for r in found]) / table.whole
        cells = [f"{m:.4f} +- {s:.4f}" for m, s in zip(at.mean(0), at.std(0, ddof=1), strict=True)]
        reached = [reach(r.history, goal, total) for r, goal in zip(found, goals, strict=True)]
        mean = reach(np.mean([_filled(r.history, total) for r in found], axis=0), float(np.mean(goals)), total)
        median, never = float(np.median(reached)), sum(v > 1 for v in reached)
        cells += [f"{mean:.2f}" if mean <= 1 else "never", f"{median:.2f}" if median <= 1 else "never", str(never)]
        retired = np.mean([len(r.retired) for r in found])
        heading = f"{table.dataset}, {len(table.parts)} defenses, {total} of {table.trials} trials, {order}"
        lines.append(f"| {heading} | {name} | {' | '.join(cells)} | {retired:.1f} |")
    return lines


def reach(history: Sequence[float], goal: float, total: int) -> float:
    """Return after what share of the trials a hypervolume is reached; 2 where it never is."""
    # The last digits of sums taken in another order do not count.
    there = np.flatnonzero(np.asarray(history) >= goal - 1e-12)
    return float(there[0] + 1) / total if len(there) else 2.0


def _filled(history: Sequence[float], total: int) -> list[float]:
    return [*history, *[history[-1]] * (total - len(history))]


def _at(history: Sequence[float], share: float, total: int) -> float:
    return history[min(len(history), math.ceil(total * share)) - 1]


def main() -> None:
    """Make a table, or replay some."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    make = verbs.add_parser("tabulate")
    make.add_argument("dataset", choices=DATASETS)
    make.add_argument("--settings", type=int, default=24)
    make.add_argument("--minutes", type=float, default=float("inf"))
    make.add_argument("--workers", type=int, default=2)
    make.add_argument("--last", nargs="*", default=["discorloss"], metavar="DEFENSE", help="after all others")
    again = verbs.add_parser("replay")
    again.add_argument("datasets", nargs="+", choices=DATASETS)
    again.add_argument("--folder", type=Path, default=FOLDER)
    again.add_argument("--samplers", nargs="+", choices=ORDERS, default=["random"])
    again.add_argument("--per-defense", nargs="+", type=int, default=[12, 24], help="trials a defense, on average")
    again.add_argument("--seeds", type=int, default=50)
    given = parser.parse_args()
    if given.verb == "tabulate":
        path = table_of(given.dataset)
        wanted = {"settings": given.settings, "minutes": given.minutes, "workers": given.workers}
        tabulate(given.dataset, path, **wanted, last=given.last)
        return
    print("| table | allocation | 25% | 50% | 100% | even's mean reached at | median | never | retired |")
    print("|---|---|---|---|---|---|---|---|---|")
    for dataset in given.datasets:
        table = opened(dataset, given.folder)
        for order in given.samplers:
            for count in given.per_defense:
                print("\n".join(compared(table, count, order, given.seeds, list(ALLOCATORS))), flush=True)


if __name__ == "__main__":
    main()
