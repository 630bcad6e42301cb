"""GAFM: a top model that learns labels from a critic, and cut gradients that mix its direction with a noisy label's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.defenses.parts.critic import Critic, LastPass
from tune_vfl.errors import UsageError
from tune_vfl.protocol.hooks import Context
from tune_vfl.protocol.losses import class_probabilities
from tune_vfl.seeds import Streams
from tune_vfl.spec import Strict

NOTHING = 1e-12
"""A part of the gradient whose Frobenius norm is below this is left out: it is too short to have a direction."""
CLOSEST = 1e-7
"""Probabilities are kept this far from 0 and 1, near which the cross-entropy's slope grows without bound."""
GRADIENTS_ONLY = (
    "gafm protects gradients only: embeddings are trained towards the labels and give them away to whoever reads them; "
    "put an attack on embeddings (pmc, spectral) beside those on gradients"
)


class GafmParams(Strict):
    """Parameters of :class:`Gafm`."""

    delta: float = Field(
        0.05, ge=0, le=0.5, description="how far from 1/2 a randomized response may be; 0 says nothing of the label"
    )
    gamma: float = Field(
        1.0, ge=0, allow_inf_nan=False, description="length of the critic's part of the gradient; the other's is 1"
    )
    responses: bool = Field(
        True, description="add the direction of the randomized responses; false: the critic's alone (GAN-only)"
    )
    sigma: float = Field(
        0.01, ge=0, allow_inf_nan=False, description="standard deviation of the noise on the labels shown to the critic"
    )
    clip: float = Field(0.1, gt=0, allow_inf_nan=False, description="bound on the critic's weights")
    hidden: int = Field(16, ge=1, description="width of the critic's hidden layer")
    lr: float = Field(
        1e-4, gt=0, allow_inf_nan=False, description="learning rate of the critic's Adam; the recipe's, as published"
    )

    @model_validator(mode="after")
    def _something_is_sent(self) -> Self:
        if not self.responses and self.gamma == 0:
            raise ValueError("responses: false with gamma: 0, nothing is sent; change one of them")
        return self


def normalized(grad: Tensor) -> Tensor:
    """Return ``grad (*trials, B, d)`` over its Frobenius norm, for each member; 0 where that has no direction."""
    length = torch.linalg.vector_norm(grad, dim=(-2, -1), keepdim=True)
    scaled = torch.nan_to_num(grad / length, nan=0.0, posinf=0.0, neginf=0.0)
    kept: Tensor = scaled * (length >= NOTHING)
    return kept


def responses(u: Tensor, y: Tensor, delta: float | Tensor) -> Tensor:
    """Return the randomized responses: 1/2 + delta * u for positives (class 1), 1/2 - delta * u for negatives.

    Args:
        u: ``(*trials, B, 1)`` uniform in [0, 1).
        y: ``(*trials, B)`` classes.
        delta: a number, or one for each member.
    """
    return 0.5 + torch.where(y.unsqueeze(-1) == 1, u, -u) * delta


def response_gradient(embedding: Tensor, response: Tensor, *, probability: bool) -> Tensor:
    """Return the gradient of the summed cross-entropy between embeddings and randomized responses.

    Args:
        embedding: ``(*trials, B, d)``.
        response: ``(*trials, B, 1)`` between 0 and 1.
        probability: the embedding is itself a probability (d = 1); else the sigmoid of its sum is.

    Returns:
        ``(*trials, B, d)``.
    """
    if probability:
        s = embedding.clamp(CLOSEST, 1 - CLOSEST)
        return (s - response) / (s * (1 - s))
    s = torch.sigmoid(embedding.sum(-1, keepdim=True)).clamp(CLOSEST, 1 - CLOSEST)
    return (s - response).expand_as(embedding)


@defense("gafm")
class Gafm(Defense[GafmParams]):
    """The top model is a generator of labels that learns from a critic, and two directions are sent mixed.

    A critic with bounded weights tells labels with noise from predictions; the top model with a sigmoid is trained to
    score high with it, and never sees a label itself; without a top model the embedding itself is the prediction. The
    passive party receives gamma * gG / ||gG|| + gC / ||gC||: gG is the generator's gradient, gC that of a cross-entropy
    between the embedding and a response drawn afresh for each row and step, 1/2 + delta * u for positives and 1/2 -
    delta * u for negatives, u ~ U(0, 1). Norms are those of the whole batch, so that neither its size nor the loss's
    scale matters. ``gamma: 0`` leaves the first part out and ``responses: false`` the second: the paper's ablations
    CE-only and GAN-only. The embedding is taken for a probability where the bottom model ends in a sigmoid of width 1;
    else the sigmoid of its sum is.

    Where the embeddings of P parties are summed or averaged, both directions are those of the joined embedding, with
    one response a row, and every party receives a P-th of the mix (algorithm 1; equations 5 and 17); side by side, each
    gets the direction of its own embedding with a response of its own. Source: Han et al. 2023, algorithm 1.

    The game does not decide which end of the predictions is positive. The label party, which has the labels, looks at
    the last pass over its training rows and turns them round where their AUC is below 1/2 (logged as ``inverted``).
    """

    summary = "a critic's lesson mixed with that of randomized responses, each at unit length"
    reference = "Han et al. 2023, GAN-based Vertical Federated Learning for Label Protection (GAFM)"
    paper_attacks = ("norm", "mean", "median")
    Params = GafmParams
    capabilities = DefenseCapabilities(
        stackable=True,
        classes="binary",
        modes=frozenset({"label_only"}),
        head="scalar",
        needs_context=True,
        random=("gradients",),
    )

    @classmethod
    def structure(cls, params: GafmParams) -> tuple[object, ...]:
        """Members of one pack share the critic's width and its optimizer's learning rate."""
        return (*super().structure(params), ("hidden", params.hidden), ("lr", params.lr))

    def begin(self) -> None:
        """H0: reset the critic of an earlier training."""
        self._ends_in_sigmoid: list[bool] = []
        self._seen: list[Tensor] = []
        self._told: Tensor | None = None
        self._last_pass = LastPass(1)
        self._critic: Critic | None = None

    def setup(
        self, y: Tensor, ids: Tensor, *, active_features: Tensor | None = None, seed: int | Sequence[int] = 0
    ) -> None:
        """H0: a fresh critic. Its weights are drawn on the CPU, so that they are the same on every device."""
        super().setup(y, ids, active_features=active_features, seed=seed)
        start = Streams(self.streams.seeds, prefix=self.stream_prefix)["critic/init"]
        self._critic = Critic(self.shared.hidden, lr=self.shared.lr, stream=start, device=y.device)
        self._last_pass = LastPass(y.shape[-1])

    def wrap_bottom(self, bottom: nn.Module) -> nn.Module:
        """H2: detect a sigmoid at the end of the bottom model; call this for one party after the other."""
        *_, last = bottom.modules()
        self._ends_in_sigmoid.append(isinstance(last, nn.Sigmoid))
        return bottom

    def loss(self, logits: Tensor, targets: Tensor, embeddings: Sequence[Tensor]) -> Tensor:
        """H5: train the critic for a step on labels with noise, then return minus its score of the predictions.

        Args:
            logits: ``(*trials, B, 1)``.
            targets: ``(*trials, B)`` true classes.
            embeddings: as each passive party sent them, stored for :meth:`cut_gradient`.

        Returns:
            ``(*trials,)``; its gradient is the generator's. Without autograd the critic takes no step.
        """
        critic = self._critic
        if critic is None:
            raise UsageError("gafm: setup(y, ids, seed=...) comes before the first loss; it makes the critic")
        made = torch.sigmoid(logits.squeeze(-1))
        if torch.is_grad_enabled():
            self._seen = [e.detach() for e in embeddings]
            self._last_pass.add(logits.squeeze(-1), targets)
            noise = self.streams["critic/noise"].normal(logits.shape[-2]).to(logits.dtype)
            noisy = targets.to(logits.dtype) + noise * self.number(lambda p: p.sigma, dims=1)
            critic.step(noisy, made, lambda dims: self.number(lambda p: p.clip, dims=dims))
        pleased: Tensor = critic(made.unsqueeze(-1)).mean((-2, -1))
        return -pleased

    def cut_gradient(self, grad: Tensor, *, y: Tensor, context: Context | None = None, party: int = 0) -> Tensor:
        """Return the mix of the two directions; same shape and dtype.

        Args:
            grad: ``(*trials, B, d)`` the generator's gradient, of any scale.
            y: ``(*trials, B)`` true classes.
            context: for the embeddings; None takes those that the last :meth:`loss` was given, of one party.
            party: the sender of the embedding.

        Raises:
            UsageError: without a context, before the loss of this batch or where that was of several parties.
        """
        from_critic: Tensor = (self.number(lambda p: p.gamma) * normalized(grad)).to(grad.dtype)
        sent, joined = (self._seen, None) if context is None else (context.embeddings, context.joined)
        if context is None and len(sent) > 1:
            raise UsageError(
                "gafm needs to know how the embeddings of several parties are joined: pass "
                "cut_gradient(..., context=Context(...)), whose `joined` is their sum or mean, or None side by side"
            )
        shares = 1 if joined is None else len(sent)
        if not self.shared.responses:
            return from_critic / shares
        if party >= len(sent) or sent[party].shape != grad.shape:
            raise UsageError(
                "gafm needs the embeddings that the parties sent: got no context, and no loss of this batch before; "
                "call loss(logits, targets, embeddings) first, or pass cut_gradient(..., context=Context(...))"
            )
        probability = grad.shape[-1] == 1 and party < len(self._ends_in_sigmoid) and self._ends_in_sigmoid[party]
        if joined is None:
            seen, response = sent[party], self._response(grad, y, party)
        else:
            # One response a row, drawn for the first party. A sum of probabilities is none, their mean is.
            seen = torch.stack(list(sent)).mean(0) if probability else joined
            if party == 0 or self._told is None:
                self._told = self._response(grad, y, 0)
            response = self._told
        towards = response_gradient(seen.to(grad.dtype), response, probability=probability)
        return (from_critic + normalized(towards).to(grad.dtype)) / shares

    def _response(self, grad: Tensor, y: Tensor, party: int) -> Tensor:
        """Draw a response for each row of one party's gradient: ``(*trials, B, 1)``."""
        u = self.streams[f"cut/{party}"].uniform(grad.shape[-2], 1).to(grad.dtype)
        return responses(u, y, self.number(lambda p: p.delta))

    def decode(self, logits: Tensor) -> Tensor:
        """H10: class scores ``(*trials, B, 2)``, turned round where the last pass over the training rows says so.

        A defense that has met no loss, in another process than the training's, turns nothing round: ``inverted`` says
        what to do there.
        """
        inverted = self._last_pass.inverted
        if inverted is None:
            return class_probabilities(logits)
        return class_probabilities(torch.where(inverted[..., None, None].to(logits.device), -logits, logits))

    def logged(self) -> dict[str, Sequence[float]]:
        """Return ``inverted``: 1 where the predictions were turned round."""
        inverted = self._last_pass.inverted
        return {} if inverted is None else {"inverted": inverted.reshape(-1).double().tolist()}

    def notes(self, member: int = 0) -> list[str]:
        """Return notes on the defense's limits."""
        return [GRADIENTS_ONLY]
