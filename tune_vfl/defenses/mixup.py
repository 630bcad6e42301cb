"""Mixup: training on mixtures of rows and of their labels."""

from __future__ import annotations

from tune_vfl.defenses.base import DefenseCapabilities, defense
from tune_vfl.defenses.parts.mixing import Mixing
from tune_vfl.spec import BOTH


@defense("mixup")
class Mixup(Mixing):
    """Trains on mixtures of ``mix`` rows, with the labels in the same shares, and tests on rows as they are.

    What a passive party feeds to its model, and the label that the gradient of its row tells of, are then no row's own.
    Partners and shares are the same at every party and are drawn afresh each epoch. Source: Zhang et al. 2018; shares
    as InstaHide draws them, none above 0.65.
    """

    summary = "training on mixtures of rows and labels"
    reference = "Zhang et al. 2018, mixup: Beyond Empirical Risk Minimization"
    capabilities = DefenseCapabilities(
        stackable=True,
        modalities=frozenset({"table", "image"}),
        run_by="both",
        protects=("features", "labels"),
        random=("labels",),
        grants=frozenset({"mixtures"}),
        federations=BOTH,
    )
    weakest = {"mix": 1}  # noqa: RUF012 - read only, as its declaration in the base says
