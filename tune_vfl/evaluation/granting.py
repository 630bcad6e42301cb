"""Turns a trained run into the view that one attack's threat model grants, and nothing more."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from tune_vfl.attacks.base import Attack, AuxiliaryRequest, TargetRequest
from tune_vfl.data.base import Dataset, Split
from tune_vfl.data.split import auxiliary_rows
from tune_vfl.models.base import Architecture, ModelOptions
from tune_vfl.protocol.granted import FirstBatch, Pairs, Received
from tune_vfl.protocol.members import Pack, gather_rows
from tune_vfl.protocol.view import Auxiliary, ClassOracle, Features, Moment, Recording, View
from tune_vfl.seeds import Streams, numpy_rng
from tune_vfl.spec import Strict


@dataclass(frozen=True, eq=False)
class Surroundings:
    """What views are cut from. The labels stay here.

    Attributes:
        bottom: the first passive party's bottom model, never handed out itself, only copies.
        sent: ``(*trials, N, d)`` what that party sends for the training rows, where an attack on features asked for it.
        known_bottom: that model as the label party knows it; the name is that of the stream for what it must guess.
        untrained_bottom: that model before the first step, where an attack asked for it.
        architecture: the network's, whose shape everybody knows.
    """

    dataset: Dataset
    split: Split
    pack: Pack
    bottom: nn.Module
    recordings: Mapping[Moment, Recording]
    sent: Tensor | None = None
    known_bottom: Callable[[str], nn.Module] | None = None
    untrained_bottom: nn.Module | None = None
    architecture: Architecture[ModelOptions] | None = None

    @property
    def y_train(self) -> Tensor:
        """``(*trials, N)`` true training labels."""
        return self.pack.spread(self.split.y_train)


def auxiliary_for(attack: Attack[Strict], around: Surroundings) -> Auxiliary | None:
    """Draw the rows whose labels the attacker knows: the same for every setting of a defense."""
    request = attack.auxiliary_request()
    if request is None:
        return None
    whole = _drawn(request, around)
    smaller = {n: _drawn(replace(request, per_class=n), around) for n in request.smaller}
    return replace(whole, smaller=smaller)


def _drawn(request: AuxiliaryRequest, around: Surroundings) -> Auxiliary:
    per_class = request.per_class or around.dataset.recipe.auxiliary_per_class
    total = request.total or per_class * around.dataset.num_classes
    y = around.split.y_train if around.split.y_train.dim() == 2 else around.split.y_train.unsqueeze(0)
    drawn = [
        auxiliary_rows(
            labels,
            per_class=per_class if request.how == "per_class" else None,
            total=total if request.how == "random" else None,
            how=request.how,
            seed=seed,
        )
        for labels, seed in zip(y, around.pack.seeds, strict=True)
    ]
    ids = drawn[0] if around.pack.trials is None else torch.stack(drawn)
    return Auxiliary(ids=around.pack.spread(ids), labels=around.pack.spread(gather_rows(around.split.y_train, ids)))


def grant(attack: Attack[Strict], around: Surroundings) -> View:
    """Return the view of ``attack``: only what it :meth:`~tune_vfl.attacks.base.Attack.sees` is there."""
    sees = attack.sees()
    targets = _targets(attack, around)
    features = Features(
        train=around.pack.spread(around.split.passive_train[0]),
        test=around.pack.spread(around.split.passive_test[0]),
        added=around.split.passive_train[0].shape[-1] - around.dataset.passive[0].shape[-1],
    )
    return View(
        attack=attack.name,
        lead=around.pack.lead,
        num_classes=around.dataset.num_classes,
        streams=Streams(around.pack.member_seeds, prefix=f"attack/{attack.draws_as or attack.name}/"),
        held_recordings=around.recordings if "gradients" in sees else None,
        held_features=features if "features" in sees else None,
        held_bottom=(lambda: copy.deepcopy(around.bottom)) if "bottom" in sees else None,
        held_auxiliary=auxiliary_for(attack, around) if "auxiliary" in sees else None,
        held_positive_hints=_positive_hints(attack, around) if "positive_hints" in sees else None,
        held_class_oracle=ClassOracle(of=_class_statistics(around)) if "class_oracle" in sees else None,
        held_class_prior=_class_prior(around) if "class_prior" in sees else None,
        held_received=None if targets is None or "received" not in sees else targets[0],
        held_known_bottom=_known_bottom(attack, around) if "known_bottom" in sees else None,
        held_first_batch=_first_batch(around) if "parameter_gradient" in sees else None,
        held_pairs=None if targets is None or "pairs" not in sees else targets[1],
    )


def target_rows(request: TargetRequest, rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draw rows to reconstruct and other rows that the attacker knows, from the stream ``reconstruction``.

    Args:
        request: how many; attacks that ask for equally many targets get the same ones.
        rows: N, the training rows.
        seed: the seed.

    Returns:
        ``(M,)`` and ``(A,)`` positions in the training split, apart from each other.
    """
    order = torch.from_numpy(numpy_rng(seed, "reconstruction").permutation(rows))
    targets = min(request.rows, rows // 2)
    known = min(10_000, rows // 6) if request.pairs is None else request.pairs
    return order[:targets], order[targets : targets + known]


def _targets(attack: Attack[Strict], around: Surroundings) -> tuple[Received, Pairs] | None:
    request = attack.target_request()
    if request is None or around.sent is None:
        return None
    x, pack = around.split.passive_train[0], around.pack
    axis = 0 if pack.trials is None else 1
    drawn = [target_rows(request, x.shape[axis], seed) for seed in pack.seeds]
    at, known = (parts[0] if pack.trials is None else torch.stack(parts) for parts in zip(*drawn, strict=True))
    received = Received(pack.spread(at), gather_rows(around.sent, pack.spread(at)), tuple(x.shape[axis + 1 :]))
    return received, Pairs(pack.spread(gather_rows(x, known)), gather_rows(around.sent, pack.spread(known)))


def _first_batch(around: Surroundings) -> FirstBatch | None:
    bottom, architecture = around.untrained_bottom, around.architecture
    if bottom is None or architecture is None:
        return None
    seen, pack = around.recordings["first_batch"], around.pack
    x = gather_rows(pack.spread(around.split.passive_train[0]), seen.ids)
    options, dataset = architecture.options, around.dataset
    others = len(dataset.passive) - 1 + (dataset.active is not None)
    width = seen.gradients.shape[-1] * (others + 1 if options.aggregation == "concat" else 1)
    outputs = architecture.outputs(dataset.num_classes)
    return FirstBatch(
        ids=seen.ids,
        features=x,
        gradient=parameter_gradient(bottom, x, seen.gradients),
        bottom=lambda: copy.deepcopy(bottom),
        others=others,
        aggregation=options.aggregation,
        top=None if options.top == "none" else lambda stream: architecture.top(width, outputs, stream),
    )


def parameter_gradient(bottom: nn.Module, x: Tensor, cut: Tensor) -> tuple[Tensor, ...]:
    """Return what a received gradient ``(*trials, B, d)`` for rows ``x`` adds up to in each parameter of a model.

    The model is used as in training; embeddings count as sent as they are.
    """
    used = copy.deepcopy(bottom).train()
    parameters = list(used.parameters())
    found = torch.autograd.grad(used(x), parameters, cut, allow_unused=True)
    return tuple(torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True))


def _known_bottom(attack: Attack[Strict], around: Surroundings) -> Callable[[str], nn.Module] | None:
    known = around.known_bottom
    return None if known is None else lambda name: known(f"attack/{attack.name}/{name}")


def _class_prior(around: Surroundings) -> Tensor:
    one_hot = torch.nn.functional.one_hot(around.y_train, around.dataset.num_classes)
    return one_hot.float().mean(-2)


def _class_statistics(around: Surroundings) -> Callable[[Tensor, Tensor, Literal["mean", "median"]], Tensor]:
    def of(values: Tensor, ids: Tensor, statistic: Literal["mean", "median"]) -> Tensor:
        """Return ``(*trials, K, d)``; NaN for a class without rows."""
        labels = around.y_train.gather(-1, ids)
        rows = []
        for c in range(around.dataset.num_classes):
            outside = (labels != c).unsqueeze(-1)
            masked = values.masked_fill(outside, float("nan"))
            rows.append(masked.nanmean(-2) if statistic == "mean" else masked.nanquantile(0.5, dim=-2))
        return torch.stack(rows, dim=-2)

    return of


def _positive_hints(attack: Attack[Strict], around: Surroundings) -> Callable[[Recording, int], Tensor]:
    def draw(recording: Recording, count: int) -> Tensor:
        """Return ``(*trials, batches, count)`` positions of known positives, -1 where a batch has too few."""
        labels = around.y_train.gather(-1, recording.ids)
        # A row that received zeros says nothing: the attacker sees that, and asks about another one.
        useful = (labels == 1) & (recording.gradients != 0).any(-1)
        flat = labels.reshape(-1, labels.shape[-1]).numpy()
        usable = useful.reshape(flat.shape).numpy()
        seeds = around.pack.seeds
        hints = torch.full((len(flat), len(recording.batches), count), -1)
        for member, row in enumerate(flat):
            rng = numpy_rng(seeds[member % len(seeds)], f"attack/{attack.name}/hints")
            for b, (start, stop) in enumerate(recording.batches):
                positive = rng.permutation((row[start:stop] == 1).nonzero()[0]) + start
                telling = positive[usable[member, positive]]
                chosen = (telling if len(telling) else positive)[:count]
                hints[member, b, : len(chosen)] = torch.from_numpy(chosen)
        return hints.view(*labels.shape[:-1], *hints.shape[1:])

    return draw
