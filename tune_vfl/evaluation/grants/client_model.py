"""A client's whole network as a white-box server knows it, before the first round and after the last one."""

from __future__ import annotations

import copy
from collections import OrderedDict

from torch import nn

from tune_vfl.attacks.base import Attack
from tune_vfl.defenses.base import Defense
from tune_vfl.evaluation.grants.base import Grant, grant
from tune_vfl.evaluation.grants.client_gradients import is_clients, uploaded
from tune_vfl.evaluation.keeper import Keeper
from tune_vfl.evaluation.run import Run
from tune_vfl.models.base import VflNetwork
from tune_vfl.models.layers import select_members
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.uploaded import KnownClient, UploadedAt
from tune_vfl.seeds import Stream
from tune_vfl.spec import Strict


class ClientNetwork(Keeper):
    """Stores the network at both moments, with the defense, which can redraw the client's secrets."""

    _defense: Defense
    _seeds: int | list[int]

    def begin(self, loop: SplitTraining) -> None:
        """Store the untrained network."""
        self._networks: dict[UploadedAt, VflNetwork] = {"first": copy.deepcopy(loop.network)}

    def end(self, loop: SplitTraining) -> None:
        """Store the trained network."""
        self._networks["last"] = copy.deepcopy(loop.network)
        self._defense = next(h for h in loop.hooks if isinstance(h, Defense))
        self._seeds = loop.rows.pack.member_seeds

    @property
    def of_a_client(self) -> bool:
        """Whether a client trained the network."""
        return is_clients(self._networks["last"])

    @property
    def shared_from(self) -> int:
        """Index of the first uploaded parameter of the network; all later ones are uploaded too."""
        network = self._networks["last"]
        return len(list(network.parameters())) - len(uploaded(network, self._defense))

    def guessed(self, moment: UploadedAt, name: str) -> nn.Sequential:
        """Return the bottom model with secrets redrawn from the stream ``name``, and the top model on it."""
        network = self._networks[moment]
        bottom = self._defense.disguised(network.bottoms[0], stream=Stream(self._seeds, name))
        parts = {"bottom": self._own(bottom)} | ({} if network.top is None else {"top": self.top(moment)})
        return nn.Sequential(OrderedDict(parts))

    def top(self, moment: UploadedAt) -> nn.Module:
        """Return a copy of the top model."""
        top = self._networks[moment].top
        assert top is not None  # noqa: S101 - an attack on it is refused where there is none
        return self._own(copy.deepcopy(top))

    def _own(self, found: nn.Module) -> nn.Module:
        return found if self._members is None else select_members(found, self._members)


@grant("client_model")
class ClientModel(Grant):
    """A client's network as the server knows it; with the bottom model even if the defense keeps it private.

    Gu et al. (FedAdOb), table I: the adversary of WGI and WMI knows the model but not the passports.
    """

    keeps = (ClientNetwork,)

    def hand_out(self, attack: Attack[Strict], run: Run) -> KnownClient | None:
        """Return a factory of copies; None if no client trained."""
        kept = run.kept(ClientNetwork)
        if not kept.of_a_client:
            return None
        return KnownClient(lambda at, name: kept.guessed(at, f"attack/{attack.name}/{name}"), kept.shared_from)
