"""FedAdOb in the horizontal setting: every client keeps a bottom model of its own, obfuscated by its own passports."""

from __future__ import annotations

from torch import nn

from tune_vfl.defenses.base import DefenseCapabilities, defense
from tune_vfl.defenses.parts.passported import Passported, PassportParams
from tune_vfl.defenses.parts.passports import last_layer
from tune_vfl.spec import HORIZONTAL


class FedadobParams(PassportParams):
    """Parameters of :class:`Fedadob`."""


@defense("fedadob")
class Fedadob(Passported[FedadobParams]):
    """Clients own private bottom models with passports; the server averages only the layers above.

    The last convolution of the bottom model gets them, its last linear layer where there is none, in the same layers as
    ``fedpass`` makes (there, for the vertical setting). Weights, passports and the statistics of batch norms of a
    bottom model never leave its client, and go on from where they were in the next round: so each client ends with a
    network of its own. The server knows neither, only the law of the passports. No setting is the same as no defense,
    as bottom models stay apart with any passports. Source: Gu et al. 2024, FedAdOb, section 4 and table III.
    """

    summary = "bottom models that stay with their clients, under secret passports; the rest is averaged"
    reference = "Gu et al. 2024, FedAdOb: Privacy-Preserving Federated Deep Learning with Adaptive Obfuscation"
    paper_attacks = ("pmc",)
    Params = FedadobParams
    capabilities = DefenseCapabilities(
        stackable=True, run_by="passive", protects=("embeddings",), federations=HORIZONTAL, client_bottom="kept"
    )

    def wrap_bottom(self, bottom: nn.Module) -> nn.Module:
        """H2: give passports to its last convolution, else its last linear layer."""
        return self.given_passports(bottom, last_layer, "bottom/0")
