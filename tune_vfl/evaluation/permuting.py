"""Permutation tests of attacks: the p-value of a success, from the same answers scored on permuted labels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tune_vfl.attacks.base import Attack
from tune_vfl.evaluation.scoring import per_member, scoring_folds, success_metric
from tune_vfl.evaluation.summarizing import standing
from tune_vfl.evaluation.table import Numbers
from tune_vfl.metrics import leakage as metric
from tune_vfl.protocol.answers import Answer
from tune_vfl.protocol.members import alike
from tune_vfl.spec import Strict
from tune_vfl.statistics.permutations import (
    p_value,
    permutations_of,
    permuted_aucs,
    permuted_cross_fitted_aucs,
    permuted_hits,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def on_permuted_labels(answer: Answer, y_train: Tensor, num_classes: int, seeds: Sequence[int]) -> list[list[float]]:
    """Return one variant's success on permuted labels, a list a member; arguments as for ``score_answer``.

    Empty lists where there is nothing to permute: an oracle's answers are made from the labels themselves, as are the
    names of clusters that have none, and an answer without a finite number has no success.
    """
    stacked = y_train.dim() == 2
    members = y_train.shape[0] if stacked else 1
    found: list[list[float]] = [[] for _ in range(members)]
    if answer.folds is not None or (num_classes > 2 and not answer.named):
        return found
    labels = y_train.gather(-1, answer.ids).reshape(members, -1).numpy()
    scores = per_member(answer.scores, stacked)
    counted = [slice(None)] * members if answer.counted is None else per_member(answer.counted, stacked)
    known = [labels[i][counted[i]] for i in range(members)]
    for (seed, _), together in alike(seeds, known).items():
        y = known[together[0]]
        rows = {i: scores[i][counted[i]] for i in together}
        if num_classes > 2:
            orders = permutations_of(len(y), seed)
            nulls = [permuted_hits(_answers(r, num_classes), y, orders) for r in rows.values()]
        else:
            columns = {i: metric.positive_score(r).astype(np.float64) for i, r in rows.items()}
            rows = {i: column for i, column in columns.items() if np.isfinite(column).all()}
            nulls = _permuted(list(rows.values()), y, seed, oriented=answer.oriented)
        for i, null in zip(rows, nulls, strict=True):
            found[i] = null.tolist()
    return found


def _permuted(columns: Sequence[Floats], y: Ints, seed: int, *, oriented: bool) -> list[Floats]:
    """Return the success of members' answers on permutations of their shared labels, scored as usual."""
    orders = permutations_of(len(y), seed)
    if not columns:
        return []
    if oriented:
        return list(permuted_aucs(columns, y, orders))
    return list(permuted_cross_fitted_aucs(columns, y, scoring_folds(y, seed), orders))


def _answers(rows: Floats, num_classes: int) -> Ints:
    """Return the classes that count as a row's answers ``(n, k)``: the first, or five above 50 classes; -1 is none."""
    first = metric.predictions(rows).astype(np.int64)
    if success_metric(num_classes) == "top1":
        return first[:, None]
    five = np.argsort(-rows, axis=-1, kind="stable")[:, :5].astype(np.int64)
    five[first < 0] = -1
    return five


def p_value_of(
    attack: Attack[Strict], variants: Mapping[str, Numbers], nulls: Mapping[str, list[list[float]]]
) -> float | None:
    """Return the p-value of an attack's success, a mean over seeds; None for an oracle and for reconstructions.

    Everything that the attacker may choose among is permuted alike, so that the best of many variants is compared with
    the best of as many that say nothing.

    Args:
        attack: the attack.
        variants: the trial's columns, a value a seed.
        nulls: by variant the results of :func:`on_permuted_labels`, a list a seed.
    """
    candidates = _candidates(attack, variants, nulls)
    if not candidates:
        return None
    found = [float(np.mean(c["success"])) for c in candidates]
    return p_value(found, [np.mean(np.asarray(c["null"]), axis=0) for c in candidates])


def noise_of(
    attack: Attack[Strict], variants: Mapping[str, Numbers], nulls: Mapping[str, list[list[float]]]
) -> list[float]:
    """Return the standard deviation by seed of a success on permuted labels.

    Of several candidates it is the largest one's; empty where :func:`p_value_of` is None. Arguments as there.
    """
    candidates = _candidates(attack, variants, nulls)
    if not candidates:
        return []
    spreads = [np.std(np.asarray(c["null"]), axis=1, ddof=1) for c in candidates]
    found: list[float] = np.stack(spreads).max(0).tolist()
    return found


def _candidates(
    attack: Attack[Strict], variants: Mapping[str, Numbers], nulls: Mapping[str, list[list[float]]]
) -> list[dict[str, list[Any]]]:
    """Return the columns of the attack's candidates, those on permuted labels as ``null``."""
    both: dict[str, dict[str, list[Any]]] = {
        v: {**columns, "null": nulls[v]}
        for v, columns in variants.items()
        if v in nulls and all(nulls[v]) and all(map(math.isfinite, columns["success"]))
    }
    return list(standing(attack, both).values()) if both else []
