"""Scores an attack's answers against the true labels, which only the evaluator holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tune_vfl.attacks.base import Attack
from tune_vfl.metrics import leakage as metric
from tune_vfl.metrics import reconstruction
from tune_vfl.outcome import AttackScore, Score
from tune_vfl.protocol.view import Answer, Reconstruction
from tune_vfl.spec import Strict

Array = NDArray[np.float64]


@dataclass
class VariantScore:
    """One variant on every member: its success, and what was measured beside it, a value per member."""

    success: list[float] = field(default_factory=list)
    beside: dict[str, list[float]] = field(default_factory=dict)
    validation: list[float] | None = None

    def extend(self, other: VariantScore) -> None:
        """Append the members of another run of the same trial."""
        self.success += other.success
        for name, values in other.beside.items():
            self.beside.setdefault(name, []).extend(values)
        if other.validation is not None:
            self.validation = (self.validation or []) + other.validation


def success_metric(num_classes: int) -> str:
    """Return how label attacks are scored: leak AUC for two classes, top-1, or top-5 above 50 classes."""
    if num_classes == 2:
        return "leak_auc"
    return "top5" if num_classes > 50 else "top1"


def score_answer(answer: Answer, y_train: Tensor, y_test: Tensor, num_classes: int) -> VariantScore:
    """Score one variant on every member.

    Args:
        answer: tensors with leading axes.
        y_train: ``(*trials, N)`` true labels of the training rows.
        y_test: ``(*trials, n_test)`` true labels of the test rows.
        num_classes: K.
    """
    stacked = y_train.dim() == 2
    members = y_train.shape[0] if stacked else 1
    labels = y_train.gather(-1, answer.ids).reshape(members, -1).numpy()
    scores = _per_member(answer.scores, stacked)
    counted = None if answer.counted is None else _per_member(answer.counted, stacked)
    tests = None if answer.test is None else _per_member(answer.test, stacked)
    test_labels = y_test.reshape(members, -1).numpy()
    result = VariantScore(
        validation=None if answer.validation is None else answer.validation.reshape(-1).double().tolist()
    )
    for i in range(members):
        keep = slice(None) if counted is None else counted[i]
        measured = _measure(scores[i][keep], labels[i][keep], num_classes, flip=not answer.oriented)
        if tests is not None:
            held_out = _measure(tests[i], test_labels[i], num_classes, flip=not answer.oriented)
            measured["test"] = held_out[success_metric(num_classes)]
        result.success.append(measured.pop(success_metric(num_classes)))
        for name, value in measured.items():
            result.beside.setdefault(name, []).append(value)
    return result


def score_reconstruction(answer: Reconstruction, x_train: Tensor) -> VariantScore:
    """Score one variant of an attack on features on every member: the share of the rows' variance that it recovers.

    Args:
        answer: tensors with leading axes.
        x_train: ``(*trials, N, ...)`` the attacked party's training rows; their mean is what needs no attack.
    """
    stacked = answer.ids.dim() == 2
    whole, ids, found = (_per_member(x, stacked) for x in (x_train, answer.ids, answer.rows))
    result = VariantScore(
        validation=None if answer.validation is None else answer.validation.reshape(-1).double().tolist()
    )
    for x, at, rows in zip(whole, ids, found, strict=True):
        true, mean = x[at], x.mean(0)
        result.success.append(reconstruction.recovered(rows, true, mean))
        measured = {"mse": reconstruction.mse(rows, true), "mse_mean": reconstruction.mse_of_the_mean(mean, true)}
        if reconstruction.is_image(true):
            measured |= {"psnr": reconstruction.psnr(rows, true), "ssim": reconstruction.ssim(rows, true)}
        for name, value in measured.items():
            result.beside.setdefault(name, []).append(value)
    return result


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
    variants: Mapping[str, VariantScore],
    members: Sequence[int],
    *,
    num_classes: int,
    guess: float,
    r_lower: Sequence[float] | None,
) -> AttackScore | None:
    """Summarise one trial: the best variant's success over its seeds, and every variant beside it.

    Args:
        attack: whose answers they are.
        variants: scored on all members of the pack.
        members: the trial's members, one per seed.
        num_classes: K.
        guess: success of the best constant guess at labels; that at features, the mean, succeeds by 0.
        r_lower: success of the same attack on an untrained bottom model, per seed, where that exists.

    Returns:
        None when no variant is defined on every seed.
    """
    on_features = attack.capabilities.goal == "features"
    name = "reconstruction" if on_features else success_metric(num_classes)
    guess = 0.0 if on_features else guess
    scores = {v: Score.of(name, [s.success[m] for m in members]) for v, s in variants.items()}
    defined = {v: s for v, s in scores.items() if all(math.isfinite(x) for x in s.values)}
    if not defined:
        return None
    best = max(defined, key=lambda v: defined[v].mean)
    score = defined[best]
    lower = None if r_lower is None else float(np.mean(r_lower))
    floor = max(guess, lower if lower is not None else guess)
    per_seed = [(v - floor) / (1 - floor) for v in score.values] if floor < 1 else [0.0]
    chosen = _chosen(variants, defined, members)
    beside = {k: float(np.nanmean([v[m] for m in members])) for k, v in variants[best].beside.items()}
    return AttackScore(
        **score.model_dump(),
        advantage=metric.advantage(score.mean, floor),
        advantage_std=Score.of("advantage", per_seed).std,
        floor=floor,
        guess=guess,
        r_lower=lower,
        variant=best,
        variants={v: {**s.model_dump(), **_beside(variants[v], members)} for v, s in defined.items()},
        upper_bound=_is_upper_bound(attack, best, defined, chosen),
        weak_attack=lower is not None and score.mean < lower,
        extra={**beside, **({} if chosen is None else {"chosen": chosen})},
    )


def _beside(variant: VariantScore, members: Sequence[int]) -> dict[str, float]:
    means = {k: float(np.nanmean([v[m] for m in members])) for k, v in variant.beside.items()}
    return {k: v for k, v in means.items() if math.isfinite(v)}


def _chosen(variants: Mapping[str, VariantScore], defined: Mapping[str, Score], members: Sequence[int]) -> float | None:
    """Return the success of the variant that the attacker would choose by its own validation, a mean over seeds."""
    able = {v: variants[v].validation for v in defined}
    choosable = {v: val for v, val in able.items() if val is not None}
    if not choosable:
        return None
    picks = [max(choosable, key=lambda v, m=m: choosable[v][m]) for m in members]  # type: ignore[misc]
    return float(np.mean([defined[v].values[i] for i, v in enumerate(picks)]))


def _is_upper_bound(attack: Attack[Strict], best: str, defined: Mapping[str, Score], chosen: float | None) -> bool:
    """Whether the attacker could not have had this success: an oracle, or a variant it could not have known to pick."""
    if attack.is_upper_bound(best):
        return True
    if len(defined) == 1:
        return False
    return chosen is None or defined[best].mean > chosen + 1e-12
