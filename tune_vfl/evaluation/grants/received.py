"""The embeddings that the label party received for the rows whose features are to be reconstructed."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor

from tune_vfl.attacks.base import Attack, TargetRequest
from tune_vfl.evaluation.grants.base import Grant, grant
from tune_vfl.evaluation.keeper import Keeper
from tune_vfl.evaluation.run import Run
from tune_vfl.protocol.granted import Received
from tune_vfl.protocol.loop import SplitTraining, overriding
from tune_vfl.protocol.members import gather_rows
from tune_vfl.seeds import Streams, numpy_rng
from tune_vfl.spec import Strict
from tune_vfl.spec.study import Threat

_CHUNK = 4096


class SentEmbeddings(Keeper):
    """Records the first passive party's embeddings of its training rows, sent once more after the training.

    Attributes:
        sent: ``(*trials, N, d)``.
    """

    sent: Tensor

    @torch.no_grad()
    def end(self, loop: SplitTraining) -> None:
        """Send the embeddings (H3), in evaluation mode."""
        axis = len(loop.lead)
        parts = torch.split(loop.rows.features()[0], _CHUNK, axis)
        embedding = torch.cat([loop.network.bottoms[0](part) for part in parts], axis)
        for send in overriding(loop.hooks, "send_embedding"):
            embedding = send(embedding, party=0)
        self.sent = embedding.cpu()

    def keep_noise(self, width: int, streams: Streams) -> None:
        """Record one embedding for every row, so that it carries no information on any row."""
        lead = () if isinstance(streams.seeds, int) else (len(streams.seeds),)
        self.sent = torch.zeros(*lead, self.rows, width)

    def of_members(self, members: Tensor) -> Self:
        """Return the embeddings of some members."""
        some = super().of_members(members)
        some.sent = self.sent[members]
        return some


def target_rows(request: TargetRequest, rows: int, seed: int, threat: Threat | None = None) -> tuple[Tensor, Tensor]:
    """Draw rows to reconstruct and other rows that the attacker knows, from the stream ``reconstruction``.

    Args:
        request: how many; attacks that ask for equally many targets get the same ones.
        rows: N, the training rows.
        seed: the seed.
        threat: the study's threat model; its defaults where there is no study.

    Returns:
        ``(M,)`` and ``(A,)`` positions in the training split, apart from each other.
    """
    order = torch.from_numpy(numpy_rng(seed, "reconstruction").permutation(rows))
    targets = min(request.rows, rows // 2) // request.batch * request.batch
    known = min(10_000, rows // 6) if request.pairs is None else request.pairs
    if known == "threat":
        known = (threat or Threat()).pairs
    return order[:targets], order[targets : targets + known]


def targets_of(attack: Attack[Strict], run: Run) -> tuple[Tensor, Tensor] | None:
    """Return :func:`target_rows` of each seed, ``(*seeds, M)`` and ``(*seeds, A)``; None for an attack on labels."""
    request = attack.target_request()
    if request is None:
        return None
    rows = run.split.y_train.shape[-1]
    drawn = [target_rows(request, rows, seed, run.task.cell.threat) for seed in run.pack.seeds]
    if run.pack.trials is None:
        return drawn[0]
    targets, known = zip(*drawn, strict=True)
    return torch.stack(targets), torch.stack(known)


@grant("received")
class ReceivedEmbeddings(Grant):
    """Embeddings that the label party received for the rows under attack."""

    keeps = (SentEmbeddings,)

    def hand_out(self, attack: Attack[Strict], run: Run) -> Received | None:
        """Return the embeddings; None for an attack on labels."""
        targets = targets_of(attack, run)
        if targets is None:
            return None
        at = run.pack.spread(targets[0])
        shape = tuple(run.x_train.shape[len(run.pack.lead) + 1 :])
        return Received(at, gather_rows(run.kept(SentEmbeddings).sent, at), shape)
