"""Score an attack's answers against the true labels, which only the evaluator has."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tune_vfl.evaluation.table import Numbers
from tune_vfl.metrics import leakage as metric
from tune_vfl.metrics import reconstruction
from tune_vfl.metrics.curves import Ends, ends_of
from tune_vfl.metrics.hits import Hits, hits_of
from tune_vfl.protocol.answers import Answer, Reconstruction
from tune_vfl.protocol.folds import folds_of
from tune_vfl.protocol.members import alike
from tune_vfl.seeds import numpy_rng
from tune_vfl.statistics.floors import auc_by_fold, cross_fitted_auc_of_each, stratified_folds

Array = NDArray[np.float64]
NAMED_APART = 10
"""Parts of the rows, of which each is scored with names that the others give."""


def success_metric(num_classes: int) -> str:
    """Return the success metric of label attacks: leak AUC for two classes, top-1, or top-5 above 50 classes."""
    if num_classes == 2:
        return "leak_auc"
    return "top5" if num_classes > 50 else "top1"


def score_answer(answer: Answer, y_train: Tensor, y_test: Tensor, num_classes: int, seeds: Sequence[int]) -> Numbers:
    """Score one variant on every member.

    Where the attacker does not know which end of its scores is positive, each of ten folds takes the end that the rows
    of the others show; where its columns are clusters without names, the classes that suit the rows of the others best.

    Args:
        answer: tensors with leading axes.
        y_train: ``(*trials, N)`` true labels of the training rows.
        y_test: ``(*trials, n_test)`` true labels of the test rows.
        num_classes: K.
        seeds: each member's, by which its rows fall into folds.

    Returns:
        ``success``, measurements beside it, and ``validation`` where the attacker estimates its own success.
    """
    stacked = y_train.dim() == 2
    members = y_train.shape[0] if stacked else 1
    labels = y_train.gather(-1, answer.ids).reshape(members, -1).numpy()
    scores = per_member(answer.scores, stacked)
    counted = None if answer.counted is None else per_member(answer.counted, stacked)
    tests = None if answer.test is None else per_member(answer.test, stacked)
    folds = None if answer.folds is None else per_member(answer.folds, stacked)
    test_labels = y_test.reshape(members, -1).numpy()
    result = _validation(answer)
    keep = [slice(None)] * members if counted is None else counted
    rows, y = ([of_all[i][keep[i]] for i in range(members)] for of_all in (scores, labels))
    if not answer.named and num_classes > 2:
        rows = [named_by_folds(r, t, numpy_rng(s, "scoring/names")) for r, t, s in zip(rows, y, seeds, strict=True)]
    ends: Sequence[Ends | None] = _ends(rows, y) if num_classes == 2 else [None] * members
    of_two = num_classes == 2 and rows[0].ndim == 2
    hits: Sequence[Hits | None] = hits_of(rows, y) if of_two else [None] * members
    turned = _turned(rows, y, seeds) if num_classes == 2 and not answer.oriented else None
    held_out = None if tests is None else _successes(tests, list(test_labels), num_classes, flip=not answer.oriented)
    for i, (end, said) in enumerate(zip(ends, hits, strict=True)):
        measured = _measure(rows[i], y[i], num_classes, end, said, flip=not answer.oriented)
        if turned is not None:
            measured["success"] = turned[i]
        elif num_classes == 2 and folds is not None:
            measured["success"] = auc_by_fold(metric.positive_score(rows[i]), y[i], folds[i][keep[i]])
        if held_out is not None:
            measured["test"] = held_out[i]
        _append(result, measured)
    return result


def _turned(rows: Sequence[Array], y: Sequence[NDArray[np.int64]], seeds: Sequence[int]) -> list[float]:
    """Return each member's AUC if the attacker does not know the sign of its scores."""
    found = [math.nan] * len(rows)
    for (seed, _), members in alike(seeds, y).items():
        labels = y[members[0]]
        mine = [metric.positive_score(rows[i]) for i in members]
        for i, area in zip(members, cross_fitted_auc_of_each(mine, labels, scoring_folds(labels, seed)), strict=True):
            found[i] = area
    return found


def scoring_folds(y: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Return the folds ``(n,)`` that orient scores of unknown sign; each seed has its own."""
    return _folds_of(y.astype(np.int64).tobytes(), seed)


@lru_cache(maxsize=16)
def _folds_of(y: bytes, seed: int) -> NDArray[np.int64]:
    return stratified_folds(np.frombuffer(y, dtype=np.int64), numpy_rng(seed, "scoring/folds"))


def named_by_folds(scores: Array, y: NDArray[np.int64], rng: np.random.Generator) -> Array:
    """Return scores of clusters as scores of classes, each tenth of the rows named by the best fit on the others.

    Matched on the rows that are scored, noise would reach more than a guess; so it reaches at most one.

    Args:
        scores: ``(M, K)`` a column a cluster.
        y: ``(M,)`` true labels.
        rng: decides which rows are scored together.
    """
    from scipy.optimize import linear_sum_assignment

    folds = folds_of(torch.from_numpy(y), torch.from_numpy(rng.random(len(y))), NAMED_APART).numpy()
    named = np.empty_like(scores)
    said, k = scores.argmax(-1), scores.shape[-1]
    for fold in np.unique(folds):
        others = folds != fold
        together = np.zeros((k, k))
        np.add.at(together, (said[others], y[others]), 1)
        clusters, classes = linear_sum_assignment(together, maximize=True)
        named[np.ix_(~others, classes)] = scores[np.ix_(~others, clusters)]
    return named


def score_reconstruction(answer: Reconstruction, x_train: Tensor, y_train: Tensor | None = None) -> Numbers:
    """Score one variant of an attack on features on every member: the share of the rows' variance that it recovers.

    Args:
        answer: tensors with leading axes.
        x_train: ``(*trials, N, ...)`` the attacked party's training rows; their mean is the answer without an attack.
        y_train: ``(*trials, N)`` their labels, for an attack that says labels too.
    """
    stacked = answer.ids.dim() == 2
    whole, ids, found = (per_member(x, stacked) for x in (x_train, answer.ids, answer.rows))
    result = _validation(answer)
    for i, (x, at, said) in enumerate(zip(whole, ids, found, strict=True)):
        true, mean, order = x[at], x.mean(0), paired(said, x[at], answer.batch)
        rows = said[order]
        measured = {"mse": reconstruction.mse(rows, true), "mse_mean": reconstruction.mse_of_the_mean(mean, true)}
        if reconstruction.is_image(true):
            measured |= {"psnr": reconstruction.psnr(rows, true), "ssim": reconstruction.ssim(rows, true)}
        if answer.labels is not None and y_train is not None:
            labels, y = (per_member(t, stacked)[i] for t in (answer.labels, y_train))
            measured["label_recovery"] = float((labels[order] == y[at]).mean())
        _append(result, {**measured, "success": _signed(**{k: measured[k] for k in ("mse", "mse_mean")})})
    return result


def paired(found: Array, true: Array, batch: int) -> NDArray[np.int64]:
    """Return the reconstructed row of each true row ``(M,)``: within each batch, the assignment of least error.

    Hungarian assignment by squared error, of images as they are scored, with pixels in [0, 1].

    Args:
        found: ``(M, ...)``, of which each batch is in no order.
        true: ``(M, ...)``.
        batch: rows of a batch.
    """
    from scipy.optimize import linear_sum_assignment

    order = np.arange(len(true))
    seen = np.clip(found, 0.0, 1.0) if reconstruction.is_image(true) else found
    for first in range(0, len(true) if batch > 1 else 0, batch):
        of = slice(first, first + batch)
        a, b = (x[of].reshape(len(x[of]), -1).astype(np.float64) for x in (seen, true))
        errors = np.square(b[:, None] - a[None]).sum(-1)
        order[of] = first + linear_sum_assignment(np.nan_to_num(errors, nan=np.finfo(np.float64).max))[1]
    return order


def _signed(mse: float, mse_mean: float) -> float:
    """Return the recovered share of the variance; negative for an answer that is worse than the mean.

    Clipped at 0 it would be above 0 on noise. At -1, twice as far away as the mean, it is: a descent that got lost says
    no more by being lost further.
    """
    return max(-1.0, 1 - mse / mse_mean) if mse_mean > 0 else float("nan")


def _validation(answer: Answer | Reconstruction) -> Numbers:
    return {} if answer.validation is None else {"validation": answer.validation.reshape(-1).double().tolist()}


def _append(columns: Numbers, row: Mapping[str, float]) -> None:
    for name, value in row.items():
        columns.setdefault(name, []).append(value)


def per_member(x: Tensor, stacked: bool) -> list[NDArray[Any]]:
    """Return a tensor's arrays, one a member; the tensor itself where no axis of members leads."""
    array = x.detach().cpu().numpy()
    return list(array) if stacked else [array]


def _ends(scores: Sequence[Array], y: Sequence[NDArray[np.int64]]) -> list[Ends]:
    """Return summaries of the ROC curves of binary scores."""
    return ends_of([metric.positive_score(rows) for rows in scores], y)


def _successes(scores: Sequence[Array], y: Sequence[NDArray[np.int64]], num_classes: int, *, flip: bool) -> list[float]:
    """Return the success alone."""
    if num_classes == 2:
        return [metric.turned(end.area) if flip else end.area for end in _ends(scores, y)]
    count = {"top1": metric.top1, "top5": metric.top5}[success_metric(num_classes)]
    return [count(rows, labels) for rows, labels in zip(scores, y, strict=True)]


def _measure(
    scores: Array, y: NDArray[np.int64], num_classes: int, ends: Ends | None, hits: Hits | None, *, flip: bool
) -> dict[str, float]:
    """Return all numbers of these scores: the success and the secondary metrics.

    Args:
        scores: ``(M,)`` or ``(M, K)``.
        y: ``(M,)`` true labels.
        num_classes: K.
        ends: the ROC curve of two classes.
        hits: the predictions of scores ``(M, 2)``.
        flip: it is not known which end of the scores is positive.
    """
    measured: dict[str, float] = {}
    by_class = scores.ndim == 2
    if ends is not None:
        measured["success"] = metric.turned(ends.area) if flip else ends.area
        measured["at_1_percent_fpr"] = ends.turned_sure if flip and ends.area < 0.5 else ends.sure
        if by_class or not flip:
            measured["f1"] = metric.f1(scores, y) if hits is None else hits.f1
    if by_class or not flip:
        measured["top1"] = metric.top1(scores, y) if hits is None else hits.top1
    if by_class and num_classes > 5:
        measured["top5"] = metric.top5(scores, y)
    if ends is None:
        measured["success"] = measured.pop(success_metric(num_classes))
    return measured


def guess_success(y_train: Tensor, num_classes: int) -> float:
    """Return the success of the best constant guess, a mean over seeds: AUC 0.5, or the largest class shares."""
    if num_classes == 2:
        return 0.5
    rows = y_train.reshape(-1, y_train.shape[-1]).numpy()
    shares = [np.sort(np.bincount(r, minlength=num_classes) / len(r))[::-1] for r in rows]
    top = 5 if num_classes > 50 else 1
    return float(np.mean([s[:top].sum() for s in shares]))
