"""Embedding extension: columns sent beside the embedding hide its labels from a penalty, then model completion."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import one_hot

from tune_vfl.attacks.base import AttackCapabilities, attack
from tune_vfl.attacks.parts.completion import PmcParams
from tune_vfl.attacks.pmc import Pmc
from tune_vfl.metrics.correlation import distance_correlation
from tune_vfl.models.layers import Linear
from tune_vfl.models.optimizers import Adam, AnyOptimizer
from tune_vfl.protocol.hooks import Hooks
from tune_vfl.protocol.members import gather_rows
from tune_vfl.protocol.view import View
from tune_vfl.spec import Strict, Training
from tune_vfl.spec.cell import Mode


class EmbeddingExtensionParams(PmcParams):
    """Parameters of :class:`EmbeddingExtension`; those of model completion and how the columns are made."""

    columns: int = Field(4, ge=1, le=1024, description="columns that are sent beside the embedding")
    inner_steps: int = Field(20, ge=1, description="steps by which the columns are fitted anew before each epoch")
    inner_lr: float = Field(0.1, gt=0, allow_inf_nan=False, description="learning rate of Adam in these steps")


@attack("embedding_extension")
class EmbeddingExtension(Pmc):
    """Sends ``[e ; g(e)]`` for the embedding e, which hides e's correlation with the labels from a penalty.

    g is affine, its shift that of its random start. Before each epoch it is fitted on the labeled rows to make the
    distance correlation of ``[e ; g(e)]`` and the labels small; during the epoch it stands still, and gradients flow
    through it into the bottom model. The top model is built for the added columns. Model completion (``pmc``) then
    reads e alone. It is trained apart, and the utility under attack is reported beside its success; its floor is that
    of ``pmc``.
    """

    summary = "columns beside the embedding that lower its correlation with the labels, then model completion (pmc)"
    reference = (
        "He et al. 2024, LabObf: A Label Protection Scheme for Vertical Federated Learning Through Label Obfuscation "
        "(section 4)"
    )
    Params = EmbeddingExtensionParams
    capabilities = AttackCapabilities(
        modes=frozenset({"split", "label_only"}),
        sees=frozenset({"features", "bottom", "auxiliary"}),
        acts=True,
        needs_concat=True,
    )

    params: EmbeddingExtensionParams

    @classmethod
    def problems(cls, params: Strict, *, num_classes: int, mode: Mode) -> list[str]:
        """Reject several numbers of labeled rows: the columns are fitted on one set, in one training."""
        found = super().problems(params, num_classes=num_classes, mode=mode)
        if not isinstance(getattr(params, "aux_per_class", None), tuple):
            return found
        return [*found, f"attack {cls.name!r} fits its columns on its labeled rows: give one aux_per_class, not a list"]

    @property
    def draws(self) -> int:
        """One: the columns are fitted to the known rows during the training."""
        return 1

    @property
    def widens(self) -> int:
        """Number of extension columns sent beside the embedding."""
        return self.params.columns

    def hooks(self, training: Training, view: View) -> Sequence[Hooks]:
        """Return the attacker's part in the training."""
        return (Extension(self.params, training, view),)


class Extension(Hooks):
    """H3 and H9 of the first passive party: extension columns fitted on its current bottom model.

    Args:
        params: of the attack.
        training: the recipe; it tells how many uploads an epoch has.
        view: its rows, and labels of some.
    """

    def __init__(self, params: EmbeddingExtensionParams, training: Training, view: View) -> None:
        rows = view.features.train.shape[len(view.lead)]
        self._params, self._uploads = params, math.ceil(rows / training.batch_size)
        self._x = gather_rows(view.features.train, view.auxiliary.ids)
        self._y = one_hot(view.auxiliary.labels, view.num_classes).float()
        self._stream = view.streams["extension"]
        self._bottom: nn.Module | None = None
        self._added: Linear | None = None
        self._sent = 0

    def local_optimizer(self, bottom: nn.Module, *, party: int) -> AnyOptimizer | None:
        """Store the first party's bottom model; the recipe's optimizer trains it."""
        if party == 0:
            self._bottom = bottom
        return None

    def send_embedding(self, embedding: Tensor, *, party: int) -> Tensor:
        """Return ``(*trials, B, d + columns)``; in training, fit the columns before the first batch of an epoch."""
        bottom = self._bottom
        if party != 0 or bottom is None:
            return embedding
        if self._added is None:
            self._added = Linear(embedding.shape[-1], self._params.columns, stream=self._stream)
            self._added.to(embedding.device).requires_grad_(False)
        if bottom.training:
            if self._sent % self._uploads == 0:
                self._fit(self._added, bottom)
            self._sent += 1
        return torch.cat([embedding, self._added(embedding)], dim=-1)

    def _fit(self, added: Linear, bottom: nn.Module) -> None:
        device = added.weight.device
        with torch.no_grad():
            e = bottom.eval()(self._x.to(device))
        bottom.train()
        y = self._y.to(device)
        # Not the bias: shifting a column leaves its correlation as it is, so the bias's gradient is zero up to
        # rounding, and Adam, which divides by the gradient's size, would turn that rounding into full steps.
        weight = added.weight.requires_grad_(True)
        optimizer = Adam([weight], lr=self._params.inner_lr)
        for _ in range(self._params.inner_steps):
            optimizer.zero_grad()
            # Adding members up keeps them apart: each has columns of its own, and Adam treats every entry by itself.
            correlation = distance_correlation(torch.cat([e, added(e)], dim=-1), y)
            correlation.sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        weight.requires_grad_(False)
