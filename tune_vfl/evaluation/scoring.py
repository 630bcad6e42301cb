"""Scores an attack's answers against the true labels, which only the evaluator holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tune_vfl.attacks.base import Attack
from tune_vfl.evaluation.table import Numbers
from tune_vfl.metrics import leakage as metric
from tune_vfl.metrics import reconstruction
from tune_vfl.outcome import AttackScore, Score
from tune_vfl.protocol.answers import Answer, Reconstruction
from tune_vfl.spec import Strict

Array = NDArray[np.float64]


def success_metric(num_classes: int) -> str:
    """Return how label attacks are scored: leak AUC for two classes, top-1, or top-5 above 50 classes."""
    if num_classes == 2:
        return "leak_auc"
    return "top5" if num_classes > 50 else "top1"


def score_answer(answer: Answer, y_train: Tensor, y_test: Tensor, num_classes: int) -> Numbers:
    """Score one variant on every member.

    Args:
        answer: tensors with leading axes.
        y_train: ``(*trials, N)`` true labels of the training rows.
        y_test: ``(*trials, n_test)`` true labels of the test rows.
        num_classes: K.

    Returns:
        ``success``, what was measured beside it, and ``validation`` where the attacker estimates its own success.
    """
    stacked = y_train.dim() == 2
    members = y_train.shape[0] if stacked else 1
    labels = y_train.gather(-1, answer.ids).reshape(members, -1).numpy()
    scores = _per_member(answer.scores, stacked)
    counted = None if answer.counted is None else _per_member(answer.counted, stacked)
    tests = None if answer.test is None else _per_member(answer.test, stacked)
    test_labels = y_test.reshape(members, -1).numpy()
    result = _validation(answer)
    for i in range(members):
        keep = slice(None) if counted is None else counted[i]
        measured = _measure(scores[i][keep], labels[i][keep], num_classes, flip=not answer.oriented)
        if tests is not None:
            held_out = _measure(tests[i], test_labels[i], num_classes, flip=not answer.oriented)
            measured["test"] = held_out[success_metric(num_classes)]
        measured["success"] = measured.pop(success_metric(num_classes))
        _append(result, measured)
    return result


def score_reconstruction(answer: Reconstruction, x_train: Tensor) -> Numbers:
    """Score one variant of an attack on features on every member: the share of the rows' variance that it recovers.

    Args:
        answer: tensors with leading axes.
        x_train: ``(*trials, N, ...)`` the attacked party's training rows; their mean is what needs no attack.
    """
    stacked = answer.ids.dim() == 2
    whole, ids, found = (_per_member(x, stacked) for x in (x_train, answer.ids, answer.rows))
    result = _validation(answer)
    for x, at, rows in zip(whole, ids, found, strict=True):
        true, mean = x[at], x.mean(0)
        measured = {"mse": reconstruction.mse(rows, true), "mse_mean": reconstruction.mse_of_the_mean(mean, true)}
        if reconstruction.is_image(true):
            measured |= {"psnr": reconstruction.psnr(rows, true), "ssim": reconstruction.ssim(rows, true)}
        _append(result, {**measured, "success": reconstruction.recovered(rows, true, mean)})
    return result


def _validation(answer: Answer | Reconstruction) -> Numbers:
    return {} if answer.validation is None else {"validation": answer.validation.reshape(-1).double().tolist()}


def _append(columns: Numbers, row: Mapping[str, float]) -> None:
    for name, value in row.items():
        columns.setdefault(name, []).append(value)


def _per_member(x: Tensor, stacked: bool) -> list[NDArray[Any]]:
    array = x.detach().cpu().numpy()
    return list(array) if stacked else [array]


def _measure(scores: Array, y: NDArray[np.int64], num_classes: int, *, flip: bool) -> dict[str, float]:
    """Return every number that these scores give: the success metric and what is logged beside it."""
    measured: dict[str, float] = {}
    by_class = scores.ndim == 2
    if num_classes == 2:
        measured["leak_auc"] = metric.leak_auc(scores, y, flip=flip)
    if num_classes == 2 and (by_class or not flip):
        measured["f1"] = metric.f1(scores, y)
    if by_class or not flip:
        measured["top1"] = metric.top1(scores, y)
    if by_class and num_classes > 5:
        measured["top5"] = metric.top5(scores, y)
    return measured


def guess_success(y_train: Tensor, num_classes: int) -> float:
    """Return the success of the best constant guess, a mean over seeds: AUC 0.5, or the largest class shares."""
    if num_classes == 2:
        return 0.5
    rows = y_train.reshape(-1, y_train.shape[-1]).numpy()
    shares = [np.sort(np.bincount(r, minlength=num_classes) / len(r))[::-1] for r in rows]
    top = 5 if num_classes > 50 else 1
    return float(np.mean([s[:top].sum() for s in shares]))


def summarize(
    attack: Attack[Strict],
    variants: Mapping[str, Numbers],
    *,
    num_classes: int,
    guess: float,
    r_lower: Sequence[float] | None,
) -> AttackScore | None:
    """Summarize one trial: the success of the attack's choice, or of its best variant, and every variant beside it.

    Args:
        attack: whose answers they are.
        variants: the trial's columns, a value a seed.
        num_classes: K.
        guess: success of the best constant guess at labels; that at features, the mean, succeeds by 0.
        r_lower: success of the same attack on an untrained bottom model, per seed, where that exists.

    Returns:
        None when no variant is defined on every seed.
    """
    on_features = attack.capabilities.goal == "features"
    name = "reconstruction" if on_features else success_metric(num_classes)
    guess = 0.0 if on_features else guess
    scores = {v: Score.of(name, columns["success"]) for v, columns in variants.items()}
    defined = {v: s for v, s in scores.items() if all(math.isfinite(x) for x in s.values)}
    if not defined:
        return None
    best = headline(attack, {v: s.mean for v, s in defined.items()})
    score = defined[best]
    lower = None if r_lower is None else float(np.mean(r_lower))
    floor = max(guess, lower if lower is not None else guess)
    per_seed = [(v - floor) / (1 - floor) for v in score.values] if floor < 1 else [0.0]
    chosen = _chosen(variants, defined)
    return AttackScore(
        **score.model_dump(),
        advantage=metric.advantage(score.mean, floor),
        advantage_std=Score.of("advantage", per_seed).std,
        floor=floor,
        guess=guess,
        r_lower=lower,
        variant=best,
        variants={v: {**s.model_dump(), **_finite(_beside(variants[v]))} for v, s in defined.items()},
        upper_bound=_is_upper_bound(attack, best, defined, chosen),
        weak_attack=lower is not None and score.mean < lower,
        extra={**_beside(variants[best]), **({} if chosen is None else {"chosen": chosen})},
    )


def headline(attack: Attack[Strict], means: Mapping[str, float]) -> str:
    """Return the variant whose success is the attack's, of mean successes by variant: its own choice, else the best."""
    return attack.choice if attack.choice and attack.choice in means else max(means, key=lambda v: means[v])


def _beside(columns: Numbers) -> dict[str, float]:
    """Return the means of what was measured beside the success."""
    return {k: float(np.nanmean(v)) for k, v in columns.items() if k not in ("success", "validation")}


def _finite(numbers: Mapping[str, float]) -> dict[str, float]:
    return {k: v for k, v in numbers.items() if math.isfinite(v)}


def _chosen(variants: Mapping[str, Numbers], defined: Mapping[str, Score]) -> float | None:
    """Return the success of the variant that the attacker would choose by its own validation, a mean over seeds."""
    choosable = {v: variants[v]["validation"] for v in defined if "validation" in variants[v]}
    if not choosable:
        return None
    seeds = range(len(next(iter(choosable.values()))))
    picks = [max(choosable, key=lambda v, i=i: choosable[v][i]) for i in seeds]  # type: ignore[misc]
    return float(np.mean([defined[v].values[i] for i, v in enumerate(picks)]))


def _is_upper_bound(attack: Attack[Strict], best: str, defined: Mapping[str, Score], chosen: float | None) -> bool:
    """Whether the attacker could not have had this success: an oracle, or a variant it could not have known to pick."""
    if attack.is_upper_bound(best):
        return True
    if len(defined) == 1 or best == attack.choice:
        return False
    return chosen is None or defined[best].mean > chosen + 1e-12
