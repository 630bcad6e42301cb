"""Which sampler finds a defense's front with 10 to 60 trials: hypervolume, bands of leakage, CPU of an ask.

    python -m benchmarks.samplers replay --out replays.jsonl --arms tpe random gp --seeds 10
    python -m benchmarks.samplers table --out replays.jsonl --against tpe

A replay is a search as it is run, without the ledger: :class:`tune_vfl.driver.proposals.Proposals` asks for packs of 6,
``--flying`` of them at once, published settings first, and is told what a surrogate of the defense's table shows
(``benchmarks/surrogates.py``). ``replay`` goes on where the file stops; it runs all arms of a seed before the next one.

The front is that of the settings that look best to the search, by what they are without noise. ``own`` is the sum of
the defenses' hypervolumes and ``joint`` that of all of them together, as shares of what the whole space holds.
``bands`` is the share of the bands of leakage of .1 in which the best front of the whole space has a setting that hold
one of the found front too. Seeds are shared by arms, so differences are paired. As in a campaign, all defenses have the
same sampler seed.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import optuna

from benchmarks.surrogates import GUESSES, Surrogate, bands_of, best_together, surrogate
from benchmarks.trial_tables import DATASETS, study_of
from tune_vfl.driver.proposals import Proposals
from tune_vfl.ledger.ledger import NewTrial
from tune_vfl.metrics.pareto import front, hypervolume
from tune_vfl.records.plans import PlannedStudy

BUDGETS = (10, 20, 40, 60)
PACK = 6
SCORES = ("own", "joint", "bands")


class Ledger:
    """A ledger in memory, as far as :class:`Proposals` needs one."""

    def __init__(self, study: PlannedStudy, sampler: str, seed: int, trials: int) -> None:
        chosen = study.spec.sampler.model_copy(update={"name": sampler, "seed": seed})
        budget = study.spec.budget.model_copy(update={"trials": trials})
        self.spec = study.spec.model_copy(update={"sampler": chosen, "budget": budget})
        self.study, self.space, self._begun = study, study.space, 0

    def trials(self) -> list[Any]:
        return []

    def owed_retries(self) -> list[Any]:
        return []

    def begin_together(self, trials: Sequence[NewTrial], _pack: str) -> list[Any]:
        numbers = range(self._begun, self._begun + len(trials))
        self._begun += len(trials)
        return [SimpleNamespace(number=n, params=t.params) for n, t in zip(numbers, trials, strict=True)]


class Replay(NamedTuple):
    """One search.

    Attributes:
        trials: its number of trials.
        fronts: after each of :data:`BUDGETS` up to ``trials``, rows (seen utility, seen leakage, utility, leakage).
        asks: CPU seconds of a suggestion in the pack that holds the last trial of each of these.
        seconds: CPU seconds of the whole search.
    """

    dataset: str
    guess: str
    defense: str
    arm: str
    flying: int
    seed: int
    trials: int
    fronts: list[list[list[float]]]
    asks: list[float]
    seconds: float

    @property
    def key(self) -> tuple[str, str, str, str, int, int, int]:
        return self[:7]


def replayed(dataset: str, guess: str, defense: str, arm: str, flying: int, seed: int, trials: int) -> Replay:
    """Run one search and look at its fronts."""
    problem, study, start = surrogate(dataset, defense, guess), study_of(dataset, defense), time.process_time()
    proposals = Proposals(Ledger(study, arm, seed, trials))  # type: ignore[arg-type]
    found: list[list[float]] = []
    seconds: list[float] = []
    packs: deque[list[tuple[int, list[float]]]] = deque()
    while True:
        while len(packs) < flying and len(found) < trials:
            begun = time.process_time()
            asked = proposals.ask(min(PACK, trials - len(found)))
            if not asked:
                break
            seconds += [(time.process_time() - begun) / len(asked)] * len(asked)
            pack = [(one.number, problem.answer(one.params, seed)) for one in asked]
            found += [row for _, row in pack]
            packs.append(pack)
        if not packs:
            break
        for number, row in packs.popleft():
            outcome = SimpleNamespace(outcome="ok", objectives=row[:2])
            proposals.learn(SimpleNamespace(number=number, outcome=outcome))  # type: ignore[arg-type]
    rows = np.asarray(found)
    budgets = [n for n in BUDGETS if n <= trials]
    fronts = [rows[:n][front(rows[:n, :2])].round(6).tolist() for n in budgets]
    asks = [round(seconds[min(n, len(seconds)) - 1], 4) for n in budgets]
    whole = round(time.process_time() - start, 4)
    return Replay(dataset, guess, defense, arm, flying, seed, trials, fronts, asks, whole)


def read(path: Path) -> list[Replay]:
    """Return the replays of a file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [Replay(**json.loads(line)) for line in lines]


def scored(runs: Mapping[str, Replay], problems: Mapping[str, Surrogate]) -> list[list[float]]:
    """Return rows of :data:`SCORES`, one for each of :data:`BUDGETS`, of one seed's searches by defense."""
    scores = []
    for j in range(len(next(iter(runs.values())).fronts)):
        points = {d: np.asarray(runs[d].fronts[j]) for d in problems}
        own = sum(_true(points[d], p.reference) for d, p in problems.items()) / sum(p.most for p in problems.values())
        every = np.concatenate(list(points.values()))
        reference = next(iter(problems.values())).reference
        joint = _true(every[front(every[:, :2])], reference) / best_together(list(problems.values()))
        reached = sum(len(p.bands & bands_of(points[d][:, 3])) for d, p in problems.items())
        scores.append([own, joint, reached / sum(len(p.bands) for p in problems.values())])
    return scores


def _true(rows: np.ndarray, reference: tuple[float, float]) -> float:
    return hypervolume(rows[:, 2:], reference)


def scores_of(runs: Sequence[Replay], dataset: str, guess: str, arm: str) -> dict[int, np.ndarray]:
    """Return arrays ``(budgets, scores)`` by seed, of the seeds that all defenses of this data set have."""
    here = [r for r in runs if (r.dataset, r.guess) == (dataset, guess)]
    problems = {d: surrogate(dataset, d, guess) for d in sorted({r.defense for r in here})}
    by_seed: dict[int, dict[str, Replay]] = {}
    for r in here:
        if r.arm == arm:
            by_seed.setdefault(r.seed, {})[r.defense] = r
    whole = {s: found for s, found in by_seed.items() if set(found) == set(problems)}
    return {s: 1000 * np.asarray(scored(found, problems)) for s, found in sorted(whole.items())}


def table(runs: Sequence[Replay], against: str) -> Iterator[str]:
    """Yield the lines of a table in thousandths: scores, and the paired difference to an arm with standard errors."""
    for dataset, guess in product(DATASETS, GUESSES):
        base = scores_of(runs, dataset, guess, against)
        for arm in dict.fromkeys(r.arm for r in runs):
            mine = scores_of(runs, dataset, guess, arm)
            seeds = sorted(set(mine) & set(base))
            if len(seeds) < 2:
                continue
            values = np.stack([mine[s] for s in seeds])
            gain = values - np.stack([base[s] for s in seeds])
            error = gain.std(0, ddof=1) / len(seeds) ** 0.5
            for k, score in enumerate(SCORES):
                cells = [
                    f"{values[:, j, k].mean():.0f} ({gain[:, j, k].mean():+.1f} +- {error[j, k]:.1f})"
                    for j in range(values.shape[1])
                ]
                yield f"| {dataset}, {guess} | {arm} | {len(seeds)} | {score} | {' | '.join(cells)} |"
    for arm in dict.fromkeys(r.arm for r in runs):
        asks = np.median([r.asks for r in runs if r.arm == arm], axis=0)
        whole = np.median([r.seconds for r in runs if r.arm == arm])
        yield f"| CPU s of an ask | {arm} | | | {' | '.join(f'{a:.4f}' for a in asks)} | whole {whole:.2f} |"


def replay(given: argparse.Namespace) -> None:
    """Run what a file lacks, and add it line by line."""
    held = {r.key for r in read(given.out)}
    turns = product(range(given.seeds), given.guesses, given.defenses, given.datasets, given.arms)
    with given.out.open("a", encoding="utf-8", buffering=1) as file:
        for seed, guess, defense, dataset, arm in turns:
            key = (dataset, guess, defense, arm, given.flying, seed, given.trials)
            if key not in held:
                one = replayed(*key)
                file.write(json.dumps(one._asdict(), separators=(",", ":")) + "\n")


def main() -> None:
    """Replay searches, or print the table of replays."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["replay", "table"])
    parser.add_argument("--out", type=Path, default=Path("replays.jsonl"))
    parser.add_argument("--arms", nargs="+", default=["tpe", "random", "gp"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--flying", type=int, default=2)
    parser.add_argument("--trials", type=int, default=max(BUDGETS))
    parser.add_argument("--defenses", nargs="+", default=["laplace", "dcae", "ppdl"])
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=list(DATASETS))
    parser.add_argument("--guesses", nargs="+", choices=GUESSES, default=list(GUESSES))
    parser.add_argument("--against", default="tpe")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if given.verb == "replay":
        replay(given)
    else:
        wanted = (given.flying, given.trials)
        runs = [r for r in read(given.out) if (r.flying, r.trials) == wanted and r.defense in given.defenses]
        print("\n".join(table(runs, given.against)))


if __name__ == "__main__":
    main()
