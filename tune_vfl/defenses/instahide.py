"""InstaHide: training on mixtures of rows whose entries' signs are flipped at random."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from tune_vfl.defenses.base import DefenseCapabilities, defense
from tune_vfl.defenses.parts.mixing import Mixing, Signs
from tune_vfl.spec import BOTH


@defense("instahide")
class Instahide(Mixing):
    """Mixes rows and labels as ``mixup`` does, then flips the sign of each entry of a mixture with probability 1/2.

    The signs are each party's own secret and go with the mixtures: drawn anew each epoch, or once with ``remix: once``.
    They are kept for all rows, a byte an entry. Test rows are neither mixed nor flipped. With ``mix`` 1 there are only
    signs. Source: Huang et al. 2020.
    """

    summary = "training on mixtures of rows and labels with random signs"
    reference = "Huang et al. 2020, InstaHide: Instance-hiding Schemes for Private Distributed Learning"
    capabilities = DefenseCapabilities(
        stackable=True,
        modalities=frozenset({"table", "image"}),
        run_by="both",
        protects=("features", "labels"),
        random=("labels",),
        grants=frozenset({"mixtures"}),
        federations=BOTH,
    )

    def setup(
        self, y: Tensor, ids: Tensor, *, active_features: Tensor | None = None, seed: int | Sequence[int] = 0
    ) -> None:
        """H0: draw the mixtures of the first epoch; signs are drawn when they are needed."""
        super().setup(y, ids, active_features=active_features, seed=seed)
        self._signs = Signs(self._seeds, self.stream_prefix, self._table.count, self._device)

    def encoded(self, mixed: list[Tensor], positions: Tensor) -> list[Tensor]:
        """Flip signs with each party's own key."""
        return [self._signs.flipped(x, party, self._epoch, positions) for party, x in enumerate(mixed)]
