"""Fewer epochs first: every setting for a third of the epochs, the best third of them, by Pareto rank, to the end.

    python -m benchmarks.rungs tabulate spambase digits --settings 12
    python -m benchmarks.rungs tabulate bank --settings 12 --whole
    python -m benchmarks.rungs agree spambase bank digits
    python -m benchmarks.rungs replay spambase bank digits
    python -m benchmarks.rungs studies spambase bank digits

``tabulate`` trains for a third and keeps what came back; ``agree`` says in how far a third tells how settings stand in
the end. ``replay`` searches the tables with rungs and without, in the same orders: asynchronous successive halving with
ranks of fronts in the place of losses (MO-ASHA, Schmucker et al. 2021), in packs. After each pack of the first rung all
settings that are among the best third there, and were not promoted, are. What is reported is trained to the end.
``studies`` does so for each defense by itself.

CPU is what the tables say: a third's training and the rest of it (attacks, scores); all epochs take three times that
training and the rest once more. With its network kept a promoted setting pays two thirds of the training, with one
trained anew all of it. Packs of promoted settings count as if they were full, which favors rungs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.rung_tables import Pair, pairs, rungs_of, tabulate
from benchmarks.trial_tables import PACK, WITH_RUNGS, Row, random_order
from tune_vfl.metrics.pareto import front, hypervolume, hypervolume_history, ranks

REFERENCES = {"spambase": (0.5, 1.0), "digits": (0.102, 1.0), "bank": (0.5, 1.0)}
T_95_OF_2 = 2.92
Point = tuple[float, float]
Floats = NDArray[np.float64]


class Cost(NamedTuple):
    """CPU seconds of a setting: its first rung, its promotion, and a whole training without rungs."""

    first: float
    promoted: float
    whole: float


def kept(pair: Pair) -> Cost:
    """The network of the first rung is kept and trained on."""
    train, rest = pair.third.train, pair.third.rest
    return Cost(train + rest, 2 * train + rest, 3 * train + rest)


def anew(pair: Pair) -> Cost:
    """It is trained from the start."""
    train, rest = pair.third.train, pair.third.rest
    return Cost(train + rest, 3 * train + rest, 3 * train + rest)


def free_attacks(pair: Pair) -> Cost:
    """The network is kept, and the attacks of the first rung cost nothing: the most that cheaper ones could give."""
    return kept(pair)._replace(first=pair.third.train)


WAYS: dict[str, Callable[[Pair], Cost]] = {"kept": kept, "anew": anew, "kept, attacks free at first": free_attacks}


class Spent(NamedTuple):
    """A search on a table: CPU seconds after each trial that was trained to the end, and the hypervolume then."""

    cpu: list[float]
    volume: list[float]

    def reaches(self, goal: float) -> float:
        """Return after how many CPU seconds a hypervolume is reached; infinite where it never is."""
        there = np.flatnonzero(np.asarray(self.volume) >= goal - 1e-12)
        return self.cpu[there[0]] if len(there) else np.inf


def order_of(found: Sequence[Pair], seed: int) -> list[list[Pair]]:
    """Return the packs of a search: its defenses in turns, published settings first, the others as a seed shuffles."""
    parts: dict[str, list[Pair]] = {}
    for pair in found:
        parts.setdefault(pair.whole.defense, []).append(pair)
    packs = []
    for some in parts.values():
        order = [some[i] for i in random_order([p.whole for p in some], seed)]
        packs.append([order[i : i + PACK] for i in range(0, len(order), PACK)])
    return [p[k] for k in range(max(map(len, packs))) for p in packs if k < len(p)]


def searched(packs: Sequence[Sequence[Pair]], reference: Point, cost: Callable[[Pair], Cost]) -> Spent:
    """Search without rungs."""
    return _spent([(p, cost(p).whole) for pack in packs for p in pack], reference)


def with_rungs(packs: Sequence[Sequence[Pair]], reference: Point, cost: Callable[[Pair], Cost], keep: float) -> Spent:
    """Search with two rungs, of which the second takes the best ``keep`` of the first so far."""
    tried: list[Pair] = []
    promoted: set[int] = set()
    ended, waiting = [], 0.0
    for pack in packs:
        tried += pack
        waiting += sum(cost(p).first for p in pack)
        places = ranks([_early(p, reference) for p in tried])
        # Within a front those stay that came first: what was promoted is not taken back.
        best = sorted(range(len(tried)), key=lambda i: (places[i], i))[: int(keep * len(tried) + 1e-9)]
        for i in best:
            if i not in promoted:
                promoted.add(i)
                ended.append((tried[i], waiting + cost(tried[i]).promoted))
                waiting = 0.0
    return _spent(ended, reference)


def _early(pair: Pair, reference: Point) -> Point:
    return pair.third.row.objectives if pair.third.row.outcome == "ok" else _worst(reference)


def _worst(reference: Point) -> Point:
    return reference[0] - 1, reference[1] + 1


def _spent(ended: Sequence[tuple[Pair, float]], reference: Point) -> Spent:
    points = [p.whole.objectives if p.whole.outcome == "ok" else _worst(reference) for p, _ in ended]
    return Spent(np.cumsum([s for _, s in ended]).tolist(), hypervolume_history(points, reference).tolist())


class Whole(NamedTuple):
    """What a search of everything to the end comes to: hypervolume, half of its 90% interval, CPU seconds."""

    volume: float
    half_width: float
    cpu: float


def whole_of(found: Sequence[Pair], reference: Point) -> Whole:
    """Return it; the interval is that of the front's settings over their three seeds (t, two degrees of freedom)."""
    rows = [p.whole for p in found if p.whole.outcome == "ok"]
    points = [r.objectives for r in rows]
    best = [r for r, there in zip(rows, front(points), strict=True) if there]
    by_seed = [hypervolume([_of_seed(r, s) for r in best], reference) for s in range(len(best[0].utility))]
    half = T_95_OF_2 * float(np.std(by_seed, ddof=1)) / np.sqrt(len(by_seed))
    return Whole(hypervolume(points, reference), half, sum(kept(p).whole for p in found))


def _of_seed(row: Row, seed: int) -> Point:
    return row.utility[seed], float(np.clip(max(row.advantages.values(), key=sum)[seed], 0, 1))


def replayed(dataset: str, found: Sequence[Pair], seeds: int, keeps: Sequence[float]) -> list[str]:
    """Return the lines of a data set: where the whole front's hypervolume is reached, and what there is in the end."""
    reference = REFERENCES[dataset]
    goal = whole_of(found, reference)
    orders = [order_of(found, seed) for seed in range(seeds)]
    at_once = [[[p for pack in packs for p in pack]] for packs in orders]
    runs = {"without": [searched(packs, reference, kept) for packs in orders]}
    for keep in keeps:
        for way, cost in WAYS.items():
            runs[f"best {keep:.2f}, {way}"] = [with_rungs(packs, reference, cost, keep) for packs in orders]
        last = [with_rungs(packs, reference, kept, keep) for packs in at_once]
        runs[f"best {keep:.2f}, kept, promoted when all are tried"] = last
    volumes = (goal.volume - goal.half_width, 0.99 * goal.volume)
    share = 100 * goal.half_width / goal.volume
    lines = []
    for name, some in runs.items():
        cells = [_reached([run.reaches(volume) / goal.cpu for run in some]) for volume in volumes]
        cells.append(f"{np.mean([run.volume[-1] for run in some]) / goal.volume:.4f}")
        cells.append(f"{np.mean([run.cpu[-1] for run in some]) / goal.cpu:.2f}")
        lines.append(f"| {dataset}, {len(found)} settings, +- {share:.1f}% | {name} | {' | '.join(cells)} |")
    return lines


def _reached(shares: Sequence[float]) -> str:
    never, median = int(np.isinf(shares).sum()), float(np.median(shares))
    shown = f"{median:.2f}" if np.isfinite(median) else "never"
    return f"{shown} ({never})" if never else shown


def alone(dataset: str, found: Sequence[Pair], seeds: int, keep: float) -> str:
    """Return a line of a data set's studies, each searched by itself: CPU until 99% of its own front's hypervolume."""
    parts: dict[str, list[Pair]] = {}
    for pair in found:
        parts.setdefault(pair.whole.defense, []).append(pair)
    reference, without, rungs, ends = REFERENCES[dataset], [], [], []
    for some in parts.values():
        goal = whole_of(some, reference)
        if goal.volume == 0:
            continue
        orders = [order_of(some, seed) for seed in range(seeds)]
        runs = [with_rungs(packs, reference, kept, keep) for packs in orders]
        plain = [searched(packs, reference, kept).reaches(0.99 * goal.volume) for packs in orders]
        without.append(float(np.median(plain)) / goal.cpu)
        rungs.append(float(np.median([run.reaches(0.99 * goal.volume) for run in runs])) / goal.cpu)
        ends.append(float(np.mean([run.volume[-1] for run in runs])) / goal.volume)
    lost = f"{np.isinf(rungs).sum()} of {len(rungs)}"
    cells = [f"{np.median(without):.2f}", f"{np.median(rungs):.2f}", lost, f"{np.mean(ends):.3f}"]
    return f"| {dataset}, {len(rungs)} studies | {' | '.join(cells)} |"


def agreeing(dataset: str, found: Sequence[Pair]) -> str:
    """Return a line: how a third of the epochs ranks settings, and what becomes of the front's."""
    both = [p for p in found if p.third.row.outcome == p.whole.outcome == "ok"]
    third, whole = np.asarray([p.third.row.objectives for p in both]), np.asarray([p.whole.objectives for p in both])
    rho = [np.corrcoef(_ranked(third[:, k]), _ranked(whole[:, k]))[0, 1] for k in (0, 1)]
    change = whole - third
    best, places = front(whole), ranks(third)
    order = np.lexsort((np.arange(len(both)), places))
    among = np.isin(np.flatnonzero(best), order[: len(both) // 3]).sum()
    cpu = sum(kept(p).first for p in both) / sum(kept(p).whole for p in both)
    cells = [f"{rho[0]:.2f}", f"{rho[1]:.2f}", f"{change[:, 0].mean():+.3f}", f"{change[:, 1].mean():+.3f}"]
    cells += [f"{(change[:, 1] > 0.02).mean():.2f}", f"{among} of {best.sum()}", f"{cpu:.2f}"]
    return f"| {dataset}, {len(both)} settings | {' | '.join(cells)} |"


def _ranked(values: Floats) -> Floats:
    """Return mean ranks, equal ones of equal values."""
    return np.asarray(((values[:, None] > values).sum(1) + (values[:, None] >= values).sum(1)) / 2.0)


def main() -> None:
    """Make a table, or read some."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    make = verbs.add_parser("tabulate")
    make.add_argument("--settings", type=int, default=12)
    make.add_argument("--whole", action="store_true", help="train whole too: a data set without a table of that")
    make.add_argument("--minutes", type=float, default=float("inf"))
    again = verbs.add_parser("replay")
    again.add_argument("--seeds", type=int, default=50, help="of the random sampler")
    again.add_argument("--keep", nargs="+", type=float, default=[1 / 3], help="share of the first rung")
    lone = verbs.add_parser("studies", help="as replay, each defense by itself")
    lone.add_argument("--seeds", type=int, default=50)
    for verb in (make, verbs.add_parser("agree"), again, lone):
        verb.add_argument("datasets", nargs="+", choices=WITH_RUNGS)
    given = parser.parse_args()
    if given.verb == "tabulate":
        wanted = {"settings": given.settings, "whole": given.whole, "minutes": given.minutes}
        for dataset in given.datasets:
            tabulate(dataset, rungs_of(dataset), **wanted)
        return
    tables: Mapping[str, list[Pair]] = {dataset: pairs(dataset) for dataset in given.datasets}
    if given.verb == "agree":
        print("| data set | utility | leakage | utility moves | leakage moves | grows > .02 | front kept | CPU |")
        print("|---" * 8 + "|")
        print("\n".join(agreeing(dataset, found) for dataset, found in tables.items()))
        return
    if given.verb == "studies":
        print("| data set | without, 99% at | with | never | in the end |\n|---|---|---|---|---|")
        print("\n".join(alone(dataset, found, given.seeds, 1 / 3) for dataset, found in tables.items()))
        return
    print("| table | rungs | within its interval | 99% of it | in the end | CPU in the end |")
    print("|---" * 6 + "|")
    for dataset, found in tables.items():
        print("\n".join(replayed(dataset, found, given.seeds, given.keep)), flush=True)


if __name__ == "__main__":
    main()
