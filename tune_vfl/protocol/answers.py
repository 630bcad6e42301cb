"""Answers of attacks; the evaluator scores them against the true labels, which no attack sees."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Answer:
    """Class scores of rows by one variant of an attack.

    Attributes:
        scores: ``(*trials, M)`` binary scores, larger is more positive, or ``(*trials, M, K)`` class scores.
        ids: ``(*trials, M)`` positions in the training split (or in the test split, for ``test``).
        oriented: the attacker knows which end of the scores is positive; False lets leak AUC take max(AUC, 1 - AUC).
        counted: ``(*trials, M)`` bool: rows that count; None counts all.
        test: class scores ``(*trials, n_test, K)`` for the test rows, where the attack makes them.
        validation: ``(*trials,)`` the attacker's own estimate of this variant's success, by which it may choose.
        folds: ``(*trials, M)`` int64 where rows of different folds were scored by different rules, fitted without
            them: each fold is then measured by itself.
        named: the columns of class scores stand for classes; False: for clusters without names, which the evaluator
            matches to classes, those of each fold by the rows of the others.

    Example:
        >>> import torch
        >>> from tune_vfl.attacks import Answer
        >>> answer = Answer(scores=torch.tensor([0.2, 0.9]), ids=torch.arange(2), oriented=True)
        >>> answer.ids[answer.scores.argmax()].item()  # the likeliest positive
        1
    """

    scores: Tensor
    ids: Tensor
    oriented: bool = False
    counted: Tensor | None = None
    test: Tensor | None = None
    validation: Tensor | None = None
    folds: Tensor | None = None
    named: bool = True


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """Features of a passive party's rows as one variant of an attack reconstructs them.

    Attributes:
        rows: ``(*trials, M, ...)`` of the shape of the rows; pixels beyond [0, 1] are clamped when they are scored.
        ids: ``(*trials, M)`` positions in the training split.
        validation: ``(*trials,)`` the attacker's own estimate of this variant's success, by which it may choose.
        batch: the rows stand in batches of so many, and within each in no order: the evaluator pairs them with the
            true ones as brings the least squared error.
        labels: ``(*trials, M)`` int64 the classes that the attacker takes the rows to be of, where it says so.

    Example:
        >>> import torch
        >>> from tune_vfl.attacks import Reconstruction
        >>> tuple(Reconstruction(rows=torch.zeros(4, 8), ids=torch.arange(4)).rows.shape)
        (4, 8)
    """

    rows: Tensor
    ids: Tensor
    validation: Tensor | None = None
    batch: int = 1
    labels: Tensor | None = None
