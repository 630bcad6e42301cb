"""Which sampler finds a defense's front with 20 or 40 trials, and whether first asks from elsewhere help.

    python -m benchmarks.samplers replay --out replays.jsonl --arms tpe+published random+published tpe --seeds 30
    python -m benchmarks.samplers table --out replays.jsonl --against tpe+published
    python -m benchmarks.samplers real --arms tpe+published random+published --seeds 6 --defenses laplace

A replay is a search as it is run, without the ledger: :class:`tune_vfl.driver.proposals.Proposals` asks for packs of 6,
``--flying`` of them at once, and is told what a surrogate of the defense's table shows (``benchmarks/surrogates.py``).
An arm is a sampler and what is asked before it: ``published`` settings, ``warm`` ones (those on the front that
the defense has in the other data set's table), both, or nothing. ``replay`` goes on where the file stops.

The score is the hypervolume of the settings that look best to the search, by what they are without noise, as a share of
what the whole space holds: ``own``, the defenses' hypervolumes added up, and ``joint``, that of all of them together.
Seeds are shared by arms, so differences are paired. As in a campaign, all defenses have the same sampler seed.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import optuna

from benchmarks.surrogates import GUESSES, Surrogate, best_together, front_settings, surrogates
from benchmarks.trial_tables import DATASETS, PACK, SEEDS, Row, opened, part
from tune_vfl.driver.proposals import Proposals
from tune_vfl.ledger.ledger import NewTrial
from tune_vfl.metrics.pareto import front, hypervolume
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.spaces.space import Published, Space, point_key
from tune_vfl.spec import StudySpec, parse

BUDGETS = (20, 40)
OTHER = {"spambase": "digits", "digits": "spambase"}
# So many settings of another data set's front come first.
WARM = 4
EPOCHS = 10
Key = tuple[str, str, str, str, int, int]


class Ledger:
    """A ledger in memory, as far as :class:`Proposals` needs one."""

    baseline = None

    def __init__(self, spec: StudySpec, space: Space) -> None:
        self.spec, self.space, self._begun = spec, space, 0

    def trials(self) -> list[Any]:
        return []

    def owed_retries(self) -> list[Any]:
        return []

    def begin_together(self, trials: Sequence[NewTrial], _pack: str) -> list[int]:
        self._begun += len(trials)
        return list(range(self._begun - len(trials), self._begun))


Answers: TypeAlias = Callable[[Sequence[dict[str, Any]]], list[list[float]]]


def searched(study: PlannedStudy, arm: str, seed: int, flying: int, answers: Answers) -> list[list[float]]:
    """Run one search.

    Args:
        study: with the settings that come first as its space's published ones.
        arm: its sampler comes first.
        seed: the sampler's.
        flying: packs at once.
        answers: of a pack's settings rows that begin with (utility, leakage).

    Returns:
        The rows in the order in which they were asked.
    """
    chosen = study.spec.sampler.model_copy(update={"name": arm.split("+", maxsplit=1)[0], "seed": seed})
    budget = study.spec.budget.model_copy(update={"trials": max(BUDGETS)})
    spec = study.spec.model_copy(update={"sampler": chosen, "budget": budget})
    proposals = Proposals(Ledger(spec, study.space))  # type: ignore[arg-type]
    rows: list[list[float]] = []
    packs: deque[list[tuple[int, list[float]]]] = deque()
    while True:
        while len(packs) < flying and (asked := proposals.ask(min(PACK, max(BUDGETS) - len(rows)))):
            rows += answers([one.params for one in asked])
            packs.append([(one.number, row) for one, row in zip(asked, rows[-len(asked) :], strict=True)])
        if not packs:
            return rows
        for number, row in packs.popleft():
            outcome = SimpleNamespace(outcome="ok", objectives=row[:2])
            proposals.learn(SimpleNamespace(number=number, outcome=outcome))  # type: ignore[arg-type]


def starting(study: PlannedStudy, arm: str, elsewhere: Sequence[Row] = ()) -> PlannedStudy:
    """Return the study with what an arm asks first; ``elsewhere`` are the defense's rows on another data set."""
    _, *first = arm.split("+")
    space = study.space
    settings = list(space.published) if "published" in first else []
    found = front_settings(elsewhere, WARM) if "warm" in first and elsewhere else []
    settings += [Published(params=space.typed(p)) for p in found if space.holds(p)]
    return replace(study, space=space.model_copy(update={"published": tuple(settings)}))


class Found(NamedTuple):
    """One search: its front after each of :data:`BUDGETS`, rows (seen utility, seen leakage, utility, leakage)."""

    dataset: str
    guess: str
    defense: str
    arm: str
    flying: int
    seed: int
    fronts: list[list[list[float]]]
    seconds: float

    @property
    def key(self) -> Key:
        return self.dataset, self.guess, self.defense, self.arm, self.flying, self.seed


def replayed(surrogate: Surrogate, dataset: str, guess: str, arm: str, flying: int, seed: int) -> Found:
    """Run one search and look at its fronts."""
    start = time.process_time()
    study = part(dataset, surrogate.defense, 24).study
    elsewhere = opened(OTHER[dataset]).parts.get(surrogate.defense, [])
    answers: Answers = lambda settings: [surrogate.answer(p, seed) for p in settings]  # noqa: E731
    rows = np.asarray(searched(starting(study, arm, elsewhere), arm, seed, flying, answers))
    seconds = time.process_time() - start
    fronts = [rows[:n][front(rows[:n, :2])].round(6).tolist() for n in BUDGETS]
    return Found(dataset, guess, surrogate.defense, arm, flying, seed, fronts, round(seconds, 4))


def read(path: Path) -> dict[Key, Found]:
    """Return what a file holds."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return {found.key: found for found in (Found(**json.loads(line)) for line in lines)}


def shares(found: Mapping[Key, Found], dataset: str, guess: str, arm: str, flying: int) -> dict[str, np.ndarray]:
    """Return ``own`` and ``joint`` shares ``(seeds, budgets)`` of the seeds that all defenses have."""
    runs = {k: v for k, v in found.items() if k[:2] == (dataset, guess) and k[3:5] == (arm, flying)}
    defenses = sorted({k[2] for k in runs})
    problems = surrogates(dataset, guess, tuple(defenses)) if runs else {}
    seeds = sorted(set.intersection(*({k[5] for k in runs if k[2] == d} for d in defenses))) if runs else []
    own, joint = np.zeros((len(seeds), len(BUDGETS))), np.zeros((len(seeds), len(BUDGETS)))
    best = best_together({d: problems[d] for d in defenses}) if runs else 1.0
    for i, seed in enumerate(seeds):
        for j in range(len(BUDGETS)):
            points = {d: np.asarray(runs[dataset, guess, d, arm, flying, seed].fronts[j]) for d in defenses}
            alone = sum(_true(points[d], problems[d].reference) for d in defenses)
            every = np.concatenate(list(points.values()))
            own[i, j] = alone / sum(problems[d].most for d in defenses)
            joint[i, j] = _true(every[front(every[:, :2])], problems[defenses[0]].reference) / best
    return {"own": own, "joint": joint}


def really(arms: Sequence[str], seeds: int, flying: int, defense: str) -> Iterator[str]:
    """Yield the lines of a table of searches whose trials are run: breast_cancer, 3 seeds, 10 epochs, two attacks.

    A study's seeds are fixed, so a setting has one answer, and what is scored is what was seen, as a share of what all
    these searches saw together. Standard errors are over sampler seeds.
    """
    from tune_vfl.driver.planning import plan_study
    from tune_vfl.evaluation.packs import evaluate_task
    from tune_vfl.evaluation.task import Task

    raw = {"study": "real", "dataset": "breast_cancer", "defense": defense, "attacks": ["norm", "direction"]}
    study = plan_study(parse({**raw, "budget": {"seeds": SEEDS}, "training": {"epochs": EPOCHS}}))
    task = Task.open(study.cell)
    known: dict[str, list[float]] = {}

    def answers(settings: Sequence[dict[str, Any]]) -> list[list[float]]:
        new = [p for p in settings if point_key(p) not in known]
        for p, outcome in zip(new, evaluate_task(task, new) if new else [], strict=True):
            known[point_key(p)] = list(outcome.objectives)
        return [known[point_key(p)] for p in settings]

    found = {a: [searched(starting(study, a), a, s, flying, answers) for s in range(seeds)] for a in arms}
    best = hypervolume(list(known.values()), (0.5, 1.0))
    shares = {a: [[hypervolume(r[:n], (0.5, 1.0)) / best for n in BUDGETS] for r in rows] for a, rows in found.items()}
    for arm in arms:
        mine, gain = np.asarray(shares[arm]), 1000 * (np.asarray(shares[arm]) - np.asarray(shares[arms[0]]))
        error = gain.std(0, ddof=1) / seeds**0.5
        cells = [f"{m:.4f} ({g:+.1f} +- {e:.1f})" for m, g, e in zip(mine.mean(0), gain.mean(0), error, strict=True)]
        yield f"| {defense} | {arm} | {seeds} | {' | '.join(cells)} |"


def _true(rows: np.ndarray, reference: tuple[float, float]) -> float:
    return hypervolume(rows[:, 2:], reference)


def table(found: Mapping[Key, Found], against: str, flying: int) -> Iterator[str]:
    """Yield the lines of a table: shares, and the paired difference to an arm, with standard errors, in thousandths."""
    arms = list(dict.fromkeys(k[3] for k in found if k[4] == flying))
    for dataset in DATASETS:
        for guess in GUESSES:
            base = shares(found, dataset, guess, against, flying)
            for arm in arms:
                mine = shares(found, dataset, guess, arm, flying)
                n = min(len(mine["own"]), len(base["own"]))
                if n < 2:
                    continue
                cells = []
                for what, j in ((w, j) for w in ("own", "joint") for j in range(len(BUDGETS))):
                    gain = 1000 * (mine[what][:n, j] - base[what][:n, j])
                    mean, error = gain.mean(), gain.std(ddof=1) / n**0.5
                    cells.append(f"{mine[what][:n, j].mean():.4f} ({mean:+.1f} +- {error:.1f})")
                cpu = np.mean([v.seconds for k, v in found.items() if k[3] == arm and k[4] == flying])
                yield f"| {dataset}, {guess} | {arm} | {n} | {' | '.join(cells)} | {cpu:.2f} |"


def replay(out: Path, arms: Sequence[str], seeds: int, flying: int, defenses: Sequence[str]) -> None:
    """Run what a file lacks, and add it line by line."""
    held = read(out)
    problems = [(d, g, s) for d in DATASETS for g in GUESSES for s in surrogates(d, g, tuple(defenses)).values()]
    with out.open("a", encoding="utf-8", buffering=1) as file:
        for dataset, guess, surrogate in problems:
            for arm, seed in product(arms, range(seeds)):
                key = (dataset, guess, surrogate.defense, arm, flying, seed)
                if key not in held:
                    one = replayed(surrogate, dataset, guess, arm, flying, seed)
                    file.write(json.dumps(one._asdict(), separators=(",", ":")) + "\n")


def main() -> None:
    """Replay searches, print the table of what was replayed, or run some for real."""
    from benchmarks import trial_samplers  # noqa: F401 - registers samplers that only this comparison knows

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["replay", "table", "real"])
    parser.add_argument("--out", type=Path, default=Path("replays.jsonl"))
    parser.add_argument("--arms", nargs="+", default=["tpe+published", "random+published"])
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--flying", type=int, default=2)
    parser.add_argument("--defenses", nargs="*", default=[], help="only these")
    parser.add_argument("--against", default="tpe+published")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if given.verb == "real":
        for defense in given.defenses or ["laplace"]:
            print("\n".join(really(given.arms, given.seeds, given.flying, defense)), flush=True)
    elif given.verb == "replay":
        replay(given.out, given.arms, given.seeds, given.flying, given.defenses)
    else:
        found = {k: v for k, v in read(given.out).items() if not given.defenses or k[2] in given.defenses}
        print("\n".join(table(found, given.against, given.flying)))


if __name__ == "__main__":
    main()
