"""Published settings of the label defenses against the attacks of Fu et al., as Markdown tables of docs/findings.md.

Run: python -m benchmarks.findings direct --dataset digits --set training.batch_size=32
     python -m benchmarks.findings completion --dataset digits
     python -m benchmarks.findings gradients --dataset digits --only none kdk sgsub cae label_dp laplace
     python -m benchmarks.findings leakage --dataset spambase --only none laplace marvell gafm
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tune_vfl.evaluation import evaluate_pack, measure_references
from tune_vfl.evaluation.certainty import certainties
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.machine.runtime import prepare_process
from tune_vfl.outcome import AttackScore, Outcome, Score
from tune_vfl.spec import parse
from tune_vfl.spec.cell import Cell
from tune_vfl.spec.raw import apply_settings

Setting = Mapping[str, Any]

SETTINGS: dict[str, Sequence[Setting]] = {
    "none": ({},),
    "laplace": tuple({"scale": s} for s in (1e-4, 1e-3, 1e-2, 1e-1)),
    "gradient_compression": tuple({"keep": k} for k in (0.75, 0.5, 0.25, 0.1)),
    "ppdl": tuple({"theta": t} for t in (0.75, 0.5, 0.25, 0.1)),
    "discrete_sgd": tuple({"bins": b} for b in (24, 18, 12, 6)),
    "kdk": (
        *({"k": k, "epsilon": e} for k, e in ((3, 0.45), (5, 0.70), (5, 0.75), (5, 0.85))),
        {"k": 3, "epsilon": 0.45, "anchor": "teacher_argmax"},
    ),
    "ladistill": ({"k": 3, "epsilon": 0.45}, {"k": 5, "epsilon": 0.75}),
    "sgsub": ({}, {"tau": 0.1}),
    "ladsg": tuple({"k": k, "epsilon": e} for k, e in ((3, 0.45), (5, 0.70), (5, 0.75), (5, 0.85))),
}
# One setting each for what is read off gradients: published ones, and label_dp and laplace as controls.
ONE_EACH: dict[str, Sequence[Setting]] = {
    "none": ({},),
    "kdk": ({"k": 3, "epsilon": 0.45},),
    "ladsg": ({"k": 3, "epsilon": 0.45},),
    "sgsub": ({},),
    "cae": ({},),
    "marvell": ({"budget": 1.0},),
    "discorloss": ({"weight": 0.08},),
    "label_dp": ({"epsilon": 1.0},),
    "laplace": ({"scale": 1e-3},),
}
# Published settings against everything that a competent adversary would try.
LEAKED: dict[str, Sequence[Setting]] = {
    "none": ({},),
    "laplace": tuple({"scale": s} for s in (1e-3, 1e-2)),
    "gradient_compression": tuple({"keep": k} for k in (0.25, 0.1)),
    "marvell": tuple({"budget": b} for b in (0.25, 1.0, 4.0)),
    "kdk": ({"k": 3, "epsilon": 0.45}, {"k": 5, "epsilon": 0.75}),
    "ladsg": ({"k": 3, "epsilon": 0.45}, {"k": 5, "epsilon": 0.75}),
    "gafm": ({"delta": 0.05, "gamma": 1.0, "sigma": 0.01},),
    "cae": ({"confusion": 1.0},),
    "mid": ({"weight": 1e-3}, {"weight": 1e-1}),
    "discorloss": ({"weight": 0.08},),
}


def cell_of(dataset: str, defense: str, attacks: Sequence[Any], seeds: int, settings: Sequence[str]) -> Cell:
    """Resolve one cell."""
    raw = {"study": "f", "dataset": dataset, "defense": defense, "attacks": list(attacks), "budget": {"seeds": seeds}}
    return resolve(parse(apply_settings(raw, settings)))


def shown(score: Score | None) -> str:
    """Format a mean and its deviation."""
    return "-" if score is None else f"{score.mean:.3f} ± {score.std:.3f}"


def _of_variant(score: AttackScore, variant: str) -> str:
    found = score.variants.get(variant)
    return "-" if found is None else f"{found['mean']:.3f}"


def _best_of(score: AttackScore, scope: str) -> str:
    there = {v: s["mean"] for v, s in score.variants.items() if v.endswith(f"@{scope}")}
    best = max(there, key=lambda v: there[v])
    return f"{there[best]:.3f} ({best.split('@')[0]})"


def direct_row(outcome: Outcome) -> list[str]:
    """Utility, the two rules over epoch 0, and the best rule of epoch 0 and of the first batch."""
    score = outcome.attacks["direct"]
    rules = [_of_variant(score, f"{rule}@epoch0") for rule in ("first_negative", "argmin")]
    return [shown(outcome.utility), *rules, _best_of(score, "epoch0"), _best_of(score, "first_batch")]


def completion_row(outcome: Outcome) -> list[str]:
    """Utility, passive and active model completion, their floor, and the utility under the active attack."""
    passive, active = outcome.attacks["pmc"], outcome.attacks["active"]
    weak = " (weak)" if passive.weak_attack else ""
    return [
        shown(outcome.utility),
        f"{shown(passive)} {passive.variant}{weak}",
        f"{passive.extra.get('test', float('nan')):.3f}",
        f"{passive.r_lower:.3f}",
        f"{shown(active)} {active.variant}",
        f"{active.extra.get('utility', float('nan')):.3f}",
    ]


def gradients_row(outcome: Outcome) -> list[str]:
    """Utility, gradient completion with its floor and its best head in hindsight, and the regressions of pmc."""
    score, without = outcome.attacks["gradient_completion"], outcome.attacks["pmc"]
    heads = {v: s["mean"] for v, s in score.variants.items() if v != score.variant}
    best = max(heads, key=lambda v: heads[v])
    return [
        shown(outcome.utility),
        shown(score),
        f"{score.r_lower:.3f}",
        f"{heads[best]:.3f} {best}",
        f"{shown(without)} {without.variant}",
    ]


def leakage_row(outcome: Outcome) -> list[str]:
    """Return utility, leakage with its 90% interval, and the strongest attack with success and floor."""
    (sure,), scores = certainties([outcome]), outcome.attacks
    worst = max(scores, key=lambda name: scores[name].advantage)
    low, high = sure.leakage_interval or (float("nan"), float("nan"))
    return [
        shown(outcome.utility),
        f"{outcome.leakage:.3f} [{low:.3f}, {high:.3f}]",
        worst,
        f"{scores[worst].mean:.3f} ({scores[worst].floor:.3f})",
    ]


TABLES: dict[str, tuple[list[Any], list[str], list[str], Callable[[Outcome], list[str]]]] = {
    "direct": (
        ["direct"],
        ["model.top=none"],
        ["utility", "first_negative, epoch 0", "argmin, epoch 0", "best rule, epoch 0", "best rule, first batch"],
        direct_row,
    ),
    "completion": (
        ["pmc", "active"],
        [],
        ["utility", "pmc, training rows", "pmc, test rows", "R_lower", "active", "utility under active"],
        completion_row,
    ),
    "gradients": (
        ["gradient_completion", {"name": "pmc", "variants": ["logreg", "logreg_all"]}],
        [],
        ["utility", "gradient_completion", "R_lower", "best head in hindsight", "pmc"],
        gradients_row,
    ),
    "leakage": (["default"], [], ["utility", "leakage", "worst attack", "success (floor)"], leakage_row),
}


def main() -> None:
    """Print one table, a row as soon as its defense is done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=list(TABLES))
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=[*dict.fromkeys([*SETTINGS, *ONE_EACH, *LEAKED])])
    parser.add_argument("--set", dest="settings", action="append", default=[])
    given = parser.parse_args()
    prepare_process()
    attacks, fixed, columns, row = TABLES[given.table]
    known = {"gradients": ONE_EACH, "leakage": LEAKED}.get(given.table, SETTINGS)
    head = ["defense", *columns]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    references = measure_references(cell_of(given.dataset, "none", attacks, given.seeds, [*fixed, *given.settings]))
    for defense in given.only or known:
        settings = known[defense]
        cell = cell_of(given.dataset, defense, attacks, given.seeds, [*fixed, *given.settings])
        for i, outcome in enumerate(evaluate_pack(cell, settings, references)):
            name = " ".join([defense, *(f"{k}={v}" for k, v in settings[i].items())])
            cells = row(outcome) if outcome.outcome == "ok" else [f"{outcome.outcome}: {outcome.reason}"]
            print(f"| {' | '.join([name, *cells])} |", flush=True)


if __name__ == "__main__":
    main()
