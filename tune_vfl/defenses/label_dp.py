"""Label differential privacy by randomized response: some labels are swapped once, before training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.defenses.parts.by_id import RowTable
from tune_vfl.defenses.parts.randomized_response import (
    best_count,
    drawn_place,
    keep_probability,
    likeliest_first,
    unbiased_shares,
)
from tune_vfl.defenses.parts.teachers import find_teachers, recipe_of
from tune_vfl.errors import UsageError
from tune_vfl.protocol.losses import class_probabilities, task_loss
from tune_vfl.protocol.mechanism import Mechanism
from tune_vfl.spec import SUMS, TREES, VERTICAL, Strict
from tune_vfl.spec.cell import Mode


class LabelDpParams(Strict):
    """Parameters of :class:`LabelDp`."""

    epsilon: float = Field(
        1.0, gt=0, allow_inf_nan=False, description="privacy budget of each label; larger keeps more labels"
    )
    rule: Literal["rr", "rr_with_prior", "lp_2st"] = Field(
        "rr", description="swap among all classes, among those of the largest shares, or among a model's likeliest"
    )
    share: float = Field(
        0.8, gt=0, lt=1, description="share of the rows that the prior is learned from, under the rules that have one"
    )
    temperature: float = Field(
        0.6, gt=0, allow_inf_nan=False, description="divides the model's logits under lp_2st; lower is surer of itself"
    )
    teacher_lr: float = Field(1e-3, gt=0, allow_inf_nan=False, description="the model's learning rate (Adam), lp_2st")
    teacher_epochs: int = Field(20, ge=1, description="the model's epochs, lp_2st")
    teacher_batch_size: int = Field(128, ge=1, description="rows a step of the model's training, lp_2st")
    teacher_hidden: tuple[int, ...] = Field((64, 64), description="widths of the model's hidden layers, lp_2st")
    forward_correct: bool = Field(
        False, description="train the predictions, passed through the swapping probabilities, on rr's noisy labels"
    )


@defense("label_dp")
class LabelDp(Defense[LabelDpParams]):
    """Swaps labels at random, so that any training label is at most e^eps times likelier under one class than another.

    ``rr`` keeps a label with probability e^eps / (e^eps + K - 1), else swaps it for one of the others, uniformly. The
    other rules do that on a random part of the rows, learn a prior from the labels that came out and from nothing else,
    and answer for the rest among the k* classes for which the prior promises the most labels kept; a true class that
    is not among them becomes any of them. Under ``rr_with_prior`` the prior is the classes' shares, under
    ``lp_2st`` what a model of the label party's own features believes of each row. Rows of the first part whose label
    is not among their k* then get the model's first choice; the paper drops them.

    Each true label enters one response only, with the whole of epsilon: the parts are disjoint, and what is learned
    from the first is a function of labels that have been released already. So all training labels together are
    eps-private for any one row's label. Every label is drawn once, at the set-up, and stays: drawing again at each
    epoch would spend the budget each time. With ``forward_correct`` (rr only) the loss compares the noisy labels with
    the distribution that the predicted classes would have after swapping, so that the model learns the true classes.
    Source: randomized response, Warner 1965; RRWithPrior and LP-2ST, Ghazi et al. 2021.
    """

    summary = "randomized response on the labels, drawn once"
    reference = "Ghazi et al. 2021, Deep Learning with Label Differential Privacy"
    Params = LabelDpParams
    capabilities = DefenseCapabilities(
        stackable=True, protects=("labels",), random=("labels",), federations=VERTICAL | SUMS | TREES
    )
    # Beyond this epsilon the chance of a swap is below what 32-bit random numbers can hit.
    weakest = {"epsilon": 100.0, "rule": "rr"}  # noqa: RUF012 - read only, as its declaration in the base says

    @classmethod
    def problems(cls, params: LabelDpParams, *, num_classes: int, mode: Mode) -> list[str]:
        """Return reasons why a rule cannot be used here: no features for its model, or no loss that corrects it."""
        found = []
        if params.rule == "lp_2st" and mode == "label_only":
            found.append(
                "label_dp: lp_2st trains a model on the label party's own features, which has none; use rr_with_prior"
            )
        if params.rule != "rr" and params.forward_correct:
            found.append("label_dp: forward_correct knows the swapping probabilities of rr only; switch it off")
        return found

    def setup(
        self, y: Tensor, ids: Tensor, *, active_features: Tensor | None = None, seed: int | Sequence[int] = 0
    ) -> None:
        """H0: draw every row's label.

        Raises:
            UsageError: under ``lp_2st`` without features.
        """
        super().setup(y, ids, active_features=active_features, seed=seed)
        stream, count = self.streams["labels"], y.shape[-1]
        draws = stream.uniform(count), stream.uniform(count)
        self._rows = RowTable(ids)
        self._epsilon = self._wide(self.values(lambda p: p.epsilon))
        self._measured: dict[str, Tensor] = {}
        plain = drawn_place(y, self.num_classes, self._epsilon, draws)
        rule = self.shared.rule
        if rule == "rr":
            self._noisy = plain
        else:
            turn = self.streams["parts"].permutation(count)
            in_first = turn < torch.ceil(self._wide(self.values(lambda p: p.share)) * count).clamp(1, max(1, count - 1))
            prior = self._shares(plain, in_first)
            if rule == "lp_2st":
                prior = self._beliefs(plain, turn, in_first, active_features, seed)
            self._noisy = self._with_prior(y, plain, in_first, prior, draws)
        self._measured["labels_kept"] = (self._noisy == y).double().mean(-1)

    def _wide(self, values: Sequence[float], dims: int = 1) -> Tensor:
        """Return the members' numbers in float64, ready for tensors of ``dims`` axes after the leading ones."""
        numbers = torch.tensor(values, dtype=torch.float64, device=self._device)
        return numbers.view(-1, *([1] * dims)) if self.stacked else numbers[0]

    def _shares(self, released: Tensor, in_first: Tensor) -> Tensor:
        """Return the classes' shares ``(*trials, 1, K)``, estimated from the released labels of the first part."""
        counts = torch.zeros(*released.shape[:-1], self.num_classes, dtype=torch.float64, device=released.device)
        counts = counts.scatter_add(-1, released, in_first.double())
        return unbiased_shares(counts, self._epsilon).unsqueeze(-2)

    def _beliefs(
        self, released: Tensor, turn: Tensor, in_first: Tensor, features: Tensor | None, seed: int | Sequence[int]
    ) -> Tensor:
        """Return class probabilities ``(*trials, N, K)`` by a model of the released labels of the first part."""
        if features is None:
            raise UsageError("label_dp: lp_2st trains a model on features, got none; pass active_features to setup")
        x = features if self.stacked else features.unsqueeze(0)
        labels, turns, first = (t.reshape(-1, t.shape[-1]) for t in (released, turn, in_first))
        rows = [t.argsort()[:n] for t, n in zip(turns, first.sum(-1).tolist(), strict=True)]
        seeds = [seed] if isinstance(seed, int) else list(seed)
        taught = [t[r] for t, r in zip(labels, rows, strict=True)]
        seen = [t[r] for t, r in zip(x, rows, strict=True)]
        recipes = [recipe_of(p) for p in self.members]
        teachers, own = find_teachers(seen, taught, seeds, recipes, self.num_classes, asked=x)
        beliefs = torch.stack([teachers[slot].probabilities for slot in own]).view(*released.shape, -1)
        return (beliefs.double().log() / self._wide(self.values(lambda p: p.temperature), 2)).softmax(-1)

    def _with_prior(
        self, y: Tensor, plain: Tensor, in_first: Tensor, prior: Tensor, draws: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Return the labels of all rows, given the prior ``(*trials, 1 or N, K)``."""
        order = likeliest_first(prior).expand(*y.shape, -1)
        places = order.argsort(dim=-1)
        count = best_count(prior, self._wide(self.values(lambda p: p.epsilon), 2)).expand(y.shape)
        drawn = drawn_place(places.gather(-1, y.unsqueeze(-1)).squeeze(-1), count, self._epsilon, draws)
        second = order.gather(-1, drawn.unsqueeze(-1)).squeeze(-1)
        first = plain
        if prior.shape[-2] > 1:  # A model knows about single rows; shares of the classes cast no doubt on any of them.
            doubted = places.gather(-1, plain.unsqueeze(-1)).squeeze(-1) >= count
            first = torch.where(doubted, order[..., 0], plain)
            self._measured["relabeled"] = (doubted & in_first).double().mean(-1)
        self._measured["classes_left"] = (count * ~in_first).sum(-1) / (~in_first).sum(-1).clamp_min(1)
        return torch.where(in_first, first, second)

    def labels(self, y: Tensor, ids: Tensor) -> Tensor:
        """H1: return the labels ``(*trials, B)`` drawn for these rows."""
        return self._noisy.gather(-1, self._rows.positions(ids))

    def loss(self, logits: Tensor, targets: Tensor, embeddings: Sequence[Tensor]) -> Tensor:
        """H5: the task loss, or with ``forward_correct`` the cross-entropy after swapping; ``(*trials,)``."""
        if not self.shared.forward_correct:
            return task_loss(logits, targets)
        kept = self._keep().to(logits.dtype)
        swapped = (1 - kept) / (self.num_classes - 1)
        predicted = class_probabilities(logits).gather(-1, targets.unsqueeze(-1))
        seen = predicted * (kept - swapped) + swapped
        return -seen.clamp_min(torch.finfo(seen.dtype).tiny).log().squeeze(-1).mean(-1)

    def mechanism(self) -> Mechanism | None:
        """Return the swapping probabilities of ``rr``, where the loss compares with the labels that came out."""
        if self.shared.rule != "rr" or self.shared.forward_correct:
            return None
        kept = self._keep().cpu().view(*([-1, 1, 1] if self.stacked else [1, 1]))
        same = torch.eye(self.num_classes, dtype=torch.float64)
        return Mechanism(swaps=kept * same + (1 - kept) / (self.num_classes - 1) * (1 - same))

    def _keep(self) -> Tensor:
        kept = [keep_probability(epsilon, self.num_classes) for epsilon in self.values(lambda p: p.epsilon)]
        return torch.tensor(kept, dtype=torch.float64, device=self._device).view((-1, 1, 1) if self.stacked else ())

    def logged(self) -> dict[str, Sequence[float]]:
        """Return ``labels_kept``, and by the rule ``classes_left`` (mean k*, second part) and ``relabeled``."""
        return {name: shares.reshape(-1).tolist() for name, shares in self._measured.items()}
