"""HASSLE's label inference: one known row of a class shows the direction of that class's gradients."""

from __future__ import annotations

import torch

from benchmarks.published_attacks.held import answer_of, unit
from tune_vfl.attacks.base import Attack, AttackCapabilities, AuxiliaryRequest
from tune_vfl.protocol.view import Answer, View
from tune_vfl.spec import Strict


class Hassle(Attack[Strict]):
    """Scores each row by the cosine of its gradient with that of the one known row of a class, epoch by epoch.

    Written after the abstract alone ("gradient direction", "a single known instance"). The paper looks for the rows of
    one class; here each class has its one row, which is more than the paper grants, and of two classes only the
    positive row is read. ``first`` reads the first epoch, ``last`` the last one, ``mean`` adds the cosines up. The part
    that makes adversarial embeddings infers no labels and is left out.
    """

    name = "hassle"
    summary = "cosine of gradients with one known row of a class"
    reference = "He and Chang 2025, HASSLE: A Self-Supervised Learning Enhanced Hijacking Attack on VFL"
    capabilities = AttackCapabilities(sees=frozenset({"visits", "auxiliary"}), stackable=False)

    def auxiliary_request(self) -> AuxiliaryRequest:
        """Return one labeled row a class."""
        return AuxiliaryRequest(per_class=1)

    def run(self, view: View) -> dict[str, Answer]:
        """Return the variants ``first``, ``last`` and ``mean``: cosines ``(N, K)``."""
        known = view.auxiliary
        rows = known.ids[known.labels.argsort()]
        directions = unit(view.granted("visits").received)
        cosines = directions @ directions[:, rows].mT
        if view.num_classes == 2:
            cosines = torch.stack([-cosines[..., 1], cosines[..., 1]], -1)
        read = {"first": cosines[0], "last": cosines[-1], "mean": cosines.mean(0)}
        return {name: answer_of(scores, known.ids) for name, scores in read.items()}
