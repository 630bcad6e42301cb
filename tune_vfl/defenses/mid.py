"""A variational information bottleneck between each passive party's embedding and the top model."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from pydantic import Field
from torch import Tensor, nn

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.errors import ShapeError
from tune_vfl.models.layers import Linear
from tune_vfl.protocol.losses import task_loss
from tune_vfl.seeds import Stream, Streams
from tune_vfl.spec import Strict


class MidParams(Strict):
    """Parameters of :class:`Mid`."""

    weight: float = Field(
        1e-3,
        ge=0,
        allow_inf_nan=False,
        description="weight of the divergence from N(0, 1) in the loss; 0 keeps the noise but not the pull",
    )


def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Return KL(N(mean, variance) || N(0, I)), summed over the width and averaged over the rows.

    Args:
        mean: ``(*trials, B, d)``.
        log_variance: ``(*trials, B, d)``.

    Returns:
        ``(*trials,)`` in nats, not negative.
    """
    return 0.5 * (log_variance.exp() + mean.square() - 1 - log_variance).sum(-1).mean(-1)


class Bottleneck(nn.Module):
    """Embedding to mean and log variance, a draw from them, and a linear map of the draw; the mean in eval mode.

    Args:
        width: d of the embeddings ``(*trials, B, d)``.
        stream: where the starting weights come from.
        noise: where the draws come from.
    """

    def __init__(self, width: int, *, stream: Stream, noise: Stream) -> None:
        super().__init__()
        self.width = width
        self.encode = Linear(width, 2 * width, stream=stream)
        self.decode = Linear(width, width, stream=stream)
        self._noise = noise
        self.divergence: Tensor | None = None

    def forward(self, embedding: Tensor) -> Tensor:
        """Map ``(*trials, B, d)`` to the same shape; in training mode also store the divergence."""
        mean, log_variance = self.encode(embedding).split_with_sizes((self.width, self.width), dim=-1)
        if not self.training:
            return self._decoded(mean)
        self.divergence = divergence(mean, log_variance)
        draws = self._noise.normal(*mean.shape[-2:]).to(mean.dtype)
        return self._decoded(mean + draws * (log_variance / 2).exp())

    def _decoded(self, z: Tensor) -> Tensor:
        decoded: Tensor = self.decode(z)
        return decoded

    def take(self) -> Tensor | None:
        """Return the divergence ``(*trials,)`` of the last training pass, once."""
        taken, self.divergence = self.divergence, None
        return taken


class BottleneckedTop(nn.Module):
    """A top model that first passes every passive party's part of the joined embedding through a bottleneck.

    Args:
        bottlenecks: one per passive party, in the order in which embeddings are joined.
        top: the top model; what the label party joined last reaches it as it is.
    """

    def __init__(self, bottlenecks: Sequence[Bottleneck], top: nn.Module) -> None:
        super().__init__()
        self.bottlenecks = nn.ModuleList(bottlenecks)
        self.top = top
        self._widths = [b.width for b in bottlenecks]

    def forward(self, joined: Tensor) -> Tensor:
        """Map the joined embedding ``(*trials, B, d)`` to logits.

        Raises:
            ShapeError: when it is narrower than the passive parties' embeddings side by side.
        """
        own = joined.shape[-1] - sum(self._widths)
        if own < 0:
            raise ShapeError(
                f"mid expected the embeddings of {len(self._widths)} passive parties side by side, {sum(self._widths)} "
                f"columns, got {joined.shape[-1]}; join them with aggregation: concat"
            )
        *passive, rest = joined.split_with_sizes([*self._widths, own], dim=-1)
        passed = [b(e) for b, e in zip(self.bottlenecks, passive, strict=True)]
        logits: Tensor = self.top(torch.cat([*passed, rest], dim=-1))
        return logits


@defense("mid")
class Mid(Defense[MidParams]):
    """Passes each embedding through a noisy channel before the top model, and penalizes its information.

    Before the top model an embedding becomes a mean and a variance, a draw from them, and a linear map of the draw. The
    loss gains ``weight`` times the divergence of those draws from N(0, I), a mean over rows and a sum over parties: an
    upper bound of what they tell of the embedding. At inference the mean takes the draw's place. There is no setting
    that is the same as no defense. Source: the bottleneck of Alemi et al. 2017, as a defense Zou et al. 2023.
    """

    summary = "a stochastic bottleneck between embeddings and the top model"
    reference = "Zou et al. 2023, Mutual Information Regularization for Vertical Federated Learning"
    Params = MidParams
    capabilities = DefenseCapabilities(
        stackable=True,
        modes=frozenset({"split", "label_only"}),
        protects=("gradients", "embeddings"),
        needs_concat=True,
    )
    _bottlenecks: Sequence[Bottleneck] = ()

    def wrap_top(self, top: nn.Module) -> nn.Module:
        """H4: put a bottleneck per passive party before the top model; call it after ``setup``.

        Weights are drawn on the CPU, so that they are the same wherever the network is trained.
        """
        start = Streams(self.streams.seeds, prefix=self.stream_prefix)
        self._bottlenecks = [
            Bottleneck(d, stream=start[f"bottleneck/init/{k}"], noise=self.streams[f"bottleneck/noise/{k}"])
            for k, d in enumerate(self.embedding_dims)
        ]
        return BottleneckedTop(self._bottlenecks, top).to(self._device)

    def loss(self, logits: Tensor, targets: Tensor, embeddings: Sequence[Tensor]) -> Tensor:
        """H5: the task loss plus the weighted divergences of the pass that gave these logits ``(*trials,)``."""
        loss = task_loss(logits, targets)
        taken = [b.take() for b in self._bottlenecks]
        found = [d for d in taken if d is not None]
        if not found:
            return loss
        return loss + self.number(lambda p: p.weight, dims=0) * torch.stack(found).sum(0)
