"""Batch label inference: match the gradient of the local model's parameters, when single rows' gradients are hidden."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from tune_vfl.attacks.base import Attack, AttackCapabilities, attack
from tune_vfl.errors import SpecError
from tune_vfl.models.optimizers import Adam
from tune_vfl.protocol.granted import FirstBatch
from tune_vfl.protocol.losses import task_loss
from tune_vfl.protocol.view import Answer, Moment, View
from tune_vfl.spec import Listed, Strict

if TYPE_CHECKING:
    from tune_vfl.models.base import ModelOptions

_log = logging.getLogger(__name__)
Variant = Literal["sum", "head"]


class BliParams(Strict):
    """Parameters of :class:`Bli`."""

    variants: Listed[Variant] = Field(
        ("sum", "head"),
        min_length=1,
        description="what the label party is taken to do: sum: add the embeddings up to logits; head: a trainable top "
        "model of the known shape; one that the architecture rules out is left out",
    )
    iterations: int = Field(1000, ge=1, description="steps of descent; VFLAIR's presets have 200 and 10,000")
    lr: float = Field(0.05, gt=0, description="learning rate of Adam")


@attack("bli")
class Bli(Attack[BliParams]):
    """Optimizes labels of the first batch until the surrogate gradient of the parameters equals the real one.

    Where gradients of single rows arrive encrypted, a passive party still learns the sum that its own parameters need.
    It pretends labels, the other parties' embeddings and, in ``head``, the top model, computes the gradient that they
    would cause, and descends on all of them until it is the one seen. A batch with more entries of cut gradients than
    parameters leaves labels open; the log says so. The variant whose gradient comes nearest is the attacker's choice.

    A made-up top model cannot name classes: with its outputs in another order, and the labels likewise, it causes the
    same gradient. So ``head`` tells rows of one class from others at best: with two classes its scores are not
    oriented, with more it takes a known top model to be above a guess.
    """

    summary = "infer the labels of the first batch from the gradient of the local model's parameters"
    reference = (
        "Zou et al. 2022, Defending Batch-Level Label Inference and Replacement Attacks in Vertical Federated Learning"
    )
    Params = BliParams
    capabilities = AttackCapabilities(sees=frozenset({"parameter_gradient"}), needs_logits=True, parties="first")
    quick = {"iterations": 100, "lr": 0.1}  # noqa: RUF012 - a constant

    def moments(self) -> tuple[Moment, ...]:
        """Record the first batch, from which the evaluator computes the parameters' gradient."""
        return ("first_batch",)

    def run(self, view: View) -> dict[str, Answer]:
        """Return class probabilities ``(*trials, B, K)`` of the first batch's rows per variant.

        Raises:
            SpecError: when the architecture rules out every requested variant.
        """
        batch = view.first_batch
        width = batch.bottom().train()(batch.features).shape[-1]
        seen = _Cut(width, batch.others, batch.aggregation, has_top=batch.top is not None)
        fitting = self._fitting(seen, view.num_classes)
        if not fitting:
            raise SpecError(self._unfit())
        return {variant: self._match(view, batch, variant) for variant in fitting}

    def model_problems(self, options: ModelOptions, *, others: int, num_classes: int) -> list[str]:
        """Refuse a model that rules out every requested variant."""
        seen = _Cut(options.embedding_dim, others, options.aggregation, has_top=options.top != "none")
        return [] if self._fitting(seen, num_classes) else [self._unfit()]

    def _fitting(self, seen: _Cut, num_classes: int) -> list[Variant]:
        return [variant for variant in dict.fromkeys(self.params.variants) if seen.fits(variant, num_classes)]

    def _unfit(self) -> str:
        return (
            f"attack 'bli': {', '.join(self.params.variants)} does not fit this model; sum needs embeddings that are "
            "added up and as wide as the logits, head a top model (model.top: net)"
        )

    def _match(self, view: View, batch: FirstBatch, variant: Variant) -> Answer:
        bottom = batch.bottom().train()
        parameters = list(bottom.parameters())
        embedding = bottom(batch.features)
        pretended = _Pretended.start(view, batch, variant, embedding)
        _warn_if_open(parameters, embedding, len(view.lead))
        size = _squares(batch.gradient, len(view.lead))
        size = torch.where(size > 0, size, 1.0)
        optimizer = Adam(pretended.unknowns(), lr=self.params.lr)
        distance = size
        for step in range(self.params.iterations + 1):
            # One forward pass serves all steps: the map from cut gradients to those of the parameters stays the same.
            cut = pretended.cut_gradient(embedding.detach())
            found = torch.autograd.grad(embedding, parameters, cut, create_graph=True, allow_unused=True)
            distance = (
                _squares([_difference(a, b) for a, b in zip(found, batch.gradient, strict=True)], len(view.lead)) / size
            )
            if step == self.params.iterations:
                break
            optimizer.zero_grad()
            distance.sum().backward(retain_graph=True)  # type: ignore[no-untyped-call]
            optimizer.step()
        scores = pretended.labels.detach().softmax(-1).nan_to_num()
        return Answer(scores=scores, ids=batch.ids, oriented=variant == "sum", validation=1 - distance.detach())


class _Cut(NamedTuple):
    """What joins the embeddings: their width, how many other parties send one, and whether a top model reads them."""

    width: int
    others: int
    aggregation: str
    has_top: bool

    def fits(self, variant: Variant, num_classes: int) -> bool:
        """Return whether the label party may do what a variant takes it to do."""
        if variant == "head":
            return self.has_top
        logits = self.width == num_classes or (self.width == 1 and num_classes == 2)
        return logits and (self.aggregation != "concat" or not self.others)


@dataclass(eq=False)
class _Pretended:
    """Unknowns of the attacker: ``(*trials, B, K)`` logits of labels, the other embeddings, a top model."""

    labels: Tensor
    others: Tensor | None
    top: nn.Module | None
    batch: FirstBatch

    @classmethod
    def start(cls, view: View, batch: FirstBatch, variant: Variant, embedding: Tensor) -> _Pretended:
        rows, width = embedding.shape[-2:]
        labels = view.streams[f"{variant}/labels"].normal(rows, view.num_classes)
        others = None
        if batch.others:
            width *= batch.others if batch.aggregation == "concat" else 1
            others = view.streams[f"{variant}/others"].normal(rows, width).requires_grad_()
        top = batch.top(view.streams[f"{variant}/top"]) if variant == "head" and batch.top is not None else None
        return cls(labels.requires_grad_(), others, top, batch)

    def unknowns(self) -> list[Tensor]:
        parts = [] if self.top is None else list(self.top.parameters())
        return [self.labels, *parts, *([] if self.others is None else [self.others])]

    def cut_gradient(self, embedding: Tensor) -> Tensor:
        """Return ``(*trials, B, d)``: the gradient that the made-up loss has with respect to the embedding."""
        leaf = embedding.requires_grad_()
        joined = leaf if self.others is None else self._joined(leaf, self.others)
        logits = joined if self.top is None else self.top(joined)
        loss = task_loss(logits, self.labels.softmax(-1))
        return torch.autograd.grad(loss.sum(), leaf, create_graph=True)[0]

    def _joined(self, mine: Tensor, others: Tensor) -> Tensor:
        if self.batch.aggregation == "concat" and self.top is not None:
            return torch.cat([mine, others], -1)
        if self.batch.aggregation == "mean":
            return (mine + others) / (self.batch.others + 1)
        return mine + others


def _difference(found: Tensor | None, real: Tensor) -> Tensor:
    return real if found is None else found - real


def _squares(parts: Sequence[Tensor], axes: int) -> Tensor:
    """Return ``(*trials,)``: the sum of squares over all tensors."""
    return torch.stack([p.square().flatten(axes).sum(-1) for p in parts]).sum(0)


def _warn_if_open(parameters: Sequence[Tensor], embedding: Tensor, axes: int) -> None:
    known = sum(p[(0,) * axes].numel() for p in parameters)
    wanted = embedding.shape[-2] * embedding.shape[-1]
    if wanted > known:
        _log.warning(
            "bli: the first batch has %d entries of cut gradients and the bottom model %d parameters: many labels "
            "explain the same gradient; a smaller training.batch_size would leave fewer",
            wanted,
            known,
        )
