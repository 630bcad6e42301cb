"""Passports: layers of the top and bottom models obfuscated by secret inputs of their owners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from tune_vfl.defenses.base import DefenseCapabilities, defense
from tune_vfl.defenses.parts.passported import Passported, PassportParams
from tune_vfl.defenses.parts.passports import first_linear, last_layer
from tune_vfl.spec.cell import Mode


class FedpassParams(PassportParams):
    """Parameters of :class:`Fedpass`."""

    where: Literal["top", "bottom", "both"] = Field(
        "top", description="top: in the label party's model, for labels; bottom: in every passive party's, for features"
    )


@defense("fedpass")
class Fedpass(Passported[FedpassParams]):
    """Scales and shifts a layer's output by the layer's response to secret inputs, its passports.

    In the top model the first linear layer gets them, in a passive bottom model the last convolution, or the last
    linear layer where there is none. Passports are drawn once, as large as one input of the layer; the layer, an
    encoder and a decoder learn around them. A linear layer's scale and shift pass tanh, so that large passports do not
    blow up the training; a convolution's output is batch-normalized before and passes a ReLU after. An attacking
    passive party knows its own passports, never the label party's. No setting is the same as no defense. Source: Gu et
    al. 2024, FedAdOb, equations 5 and 6; order of encoder, decoder and average, and tanh, as in released code.
    """

    summary = "layers scaled and shifted by secret passports"
    reference = "Gu et al. 2024, FedAdOb: Privacy-Preserving Federated Deep Learning with Adaptive Obfuscation"
    paper_attacks = ("pmc",)
    Params = FedpassParams
    capabilities = DefenseCapabilities(stackable=True, run_by="both", protects=("gradients", "embeddings"))
    _bottoms = 0

    @classmethod
    def problems(cls, params: FedpassParams, *, num_classes: int, mode: Mode) -> list[str]:
        """Refuse passports in a top model that does not exist."""
        where = params.where
        if mode != "nosplit" or where == "bottom":
            return []
        problem = (
            f"defense 'fedpass': where={where} puts passports into a top model, which model.top=none leaves out; take "
            "where: bottom, or model.top: net, under which the direct attack is not defined (embeddings are no logits)"
        )
        return [problem]

    def setup(
        self, y: Tensor, ids: Tensor, *, active_features: Tensor | None = None, seed: int | Sequence[int] = 0
    ) -> None:
        """H0: start to count the bottom models, which are wrapped one party after the other."""
        super().setup(y, ids, active_features=active_features, seed=seed)
        self._bottoms = 0

    def wrap_bottom(self, bottom: nn.Module) -> nn.Module:
        """H2: give passports to its last convolution, else its last linear layer; call it party by party, in order."""
        if self.shared.where == "top":
            return bottom
        self._bottoms += 1
        return self.given_passports(bottom, last_layer, f"bottom/{self._bottoms - 1}")

    def wrap_top(self, top: nn.Module) -> nn.Module:
        """H4: give passports to its first linear layer."""
        return top if self.shared.where == "bottom" else self.given_passports(top, first_linear, "top")
