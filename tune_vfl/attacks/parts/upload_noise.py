"""Noise on uploaded gradients: its amount, and the weight that a search gives to the prior of rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from tune_vfl.attacks.parts.gradient_matching import Matched, Prior
from tune_vfl.attacks.parts.single_steps import SingleStep

_FREE = 30
"""Entries beyond those that a matrix of low rank explains, from which a variance is estimated at least."""
_NONE = 1e-8
"""Share of the squares of a gradient that rounding may leave; what is below is no noise."""
_ZEROS = 1e-3
"""Share of entries that are exactly zero, from which on there is no noise on every entry."""
_LEAST_COSINE = 0.1
_LEAST_VARIANCE = 1e-4


def noise_of(step: SingleStep, gradients: Tensor, batch: int) -> Tensor:
    """Return the variance ``(G,)`` of the noise on each entry of uploaded gradients ``(G, n)``; 0 where there is none.

    The gradient of a linear layer that reads a vector of each row is a matrix whose rank is the number of rows. What no
    matrix of that rank explains is noise. Of all layers the last one counts that is large enough. Uploads in which
    entries are exactly zero have no noise on them: those entries were left out, or a ReLU has cut them.

    Args:
        step: that uploads them.
        gradients: of one batch each.
        batch: rows of a batch.
    """
    none = gradients.new_zeros(len(gradients))
    for matrix in step.matrices(gradients):
        free = (matrix.shape[-2] - batch) * (matrix.shape[-1] - batch)
        if min(matrix.shape[-2:]) > batch and free >= _FREE:
            left = torch.linalg.svdvals(matrix.nan_to_num())[..., batch:].square().sum(-1)
            break
    else:
        return none
    noise, n = left / free, gradients.shape[-1]
    nothing = ((gradients == 0).float().mean(-1) > _ZEROS) | (noise * n <= _NONE * gradients.square().sum(-1))
    return torch.where(nothing, none, noise)


@dataclass(frozen=True, eq=False)
class Usual:
    """A prior of rows: independent numbers around a center.

    Attributes:
        center: ``(*shape)`` a row.
        variance: of a number around it.
    """

    center: Tensor
    variance: float

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> Self:
        """Return the prior before any search: columns with mean 0 and variance 1, pixels within [0, 1]."""
        image = len(shape) == 3
        return cls(torch.full(shape, 0.5 if image else 0.0), 0.25 if image else 1.0)

    def learned(self, rows: Tensor) -> Self:
        """Return the prior learned from reconstructed images ``(M, *shape)``.

        A pixel's mean over few images is drawn to that of its channel, by as much as it would differ by chance.
        """
        mean, channel, count = rows.mean(0), rows.mean((0, 2, 3), keepdim=True)[0], len(rows)
        chance = (rows - mean).square().mean() / max(1, count - 1)
        apart = (mean - channel).square().mean().clamp(min=_LEAST_VARIANCE)
        center = channel + (1 - chance / apart).clamp(min=0) * (mean - channel)
        return replace(self, center=center, variance=max(_LEAST_VARIANCE, float((rows - center).square().mean())))


@dataclass(frozen=True, eq=False)
class Noisy:
    """Gradients of which each entry has noise of a known variance.

    Attributes:
        goal: ``(G, n)``.
        noise: ``(G,)``; 0 of all means that there is none.
        numbers: of a batch: its rows times what a row has.
    """

    goal: Tensor
    noise: Tensor
    numbers: int

    @property
    def there(self) -> bool:
        """Whether there is noise at all."""
        return bool((self.noise > 0).any())

    @property
    def share(self) -> Tensor:
        """The share ``(G,)`` of the squares of each gradient that is noise."""
        n = self.goal.shape[-1]
        square = self.goal.square().sum(-1).clamp(min=torch.finfo(self.goal.dtype).tiny)
        return (self.noise * n / square).clamp(max=1.0)

    def prior(self, prior: Prior, usual: Usual, *, of_directions: bool) -> Prior:
        """Return the prior with the weights of the maximum a posteriori estimate under this noise.

        The squared distance of gradients over twice the noise's variance, plus that of rows over twice their own: times
        twice the noise over the gradient's squares, as searches measure it.

        Args:
            prior: its weights are added, and its center counts if it has one.
            usual: what rows look like.
            of_directions: the distance is 1 - cosine, about half of the squared one over the cosine that noise leaves.
        """
        weight = self.share * self.numbers / (self.goal.shape[-1] * usual.variance)
        if of_directions:
            weight = weight / (2 * (1 - self.share).sqrt().clamp(min=_LEAST_COSINE))
        center = usual.center.to(self.goal) if prior.center is None else prior.center
        return replace(prior, l2=weight + torch.as_tensor(prior.l2).to(weight), center=center)

    def blended(self, found: Matched, usual: Usual, copies: int) -> Matched:
        """Return of ``copies`` candidates per batch, listed copy by copy, the mean weighted by likelihood.

        Two finds that the noise does not tell apart, as of two labels, are half right each; what they differ by is not
        found.

        Args:
            found: results of searches from several starts, or with several labels.
            usual: what rows look like.
            copies: of each batch.
        """
        tiny = torch.finfo(self.goal.dtype).tiny
        away = (found.rows - usual.center).square().flatten(1).sum(-1) / usual.variance
        apart = found.mismatch.nan_to_num(nan=1.0) * self.goal.square().sum(-1) / self.noise.clamp(min=tiny)
        weights = (-(away + apart) / 2).view(copies, -1).softmax(0)

        def mean(of: Tensor) -> Tensor:
            by_copy = of.view(copies, -1, *of.shape[1:])
            return (weights.view(*weights.shape, *[1] * (of.dim() - 1)) * by_copy).sum(0)

        rows = mean(found.rows)
        doubt = mean((found.rows - rows.repeat(copies, *[1] * (rows.dim() - 1))).square().flatten(1).mean(-1))
        share = (mean(found.share) - doubt / usual.variance).clamp(min=0)
        return replace(found, rows=rows, labels=mean(found.labels), mismatch=mean(found.mismatch), share=share)

    def found(self, step: SingleStep, found: Matched, usual: Usual, probes: Tensor) -> Tensor:
        """Estimate the share ``(G,)`` of the rows' variance that a search has recovered.

        A number of a row is told as well as the gradients turn when it changes; the noise hides the rest of it. And no
        more is found than the gradients that it has explain of what is no noise.

        Args:
            step: of the search.
            found: the result.
            usual: what rows look like.
            probes: ``(P, n)`` from N(0, 1): the mean square of their products with the Jacobian is what is meant.
        """
        slopes = torch.stack([step.slopes(found.rows, found.labels, probe) for probe in probes])
        told = slopes.square().mean(0).flatten(1) * usual.variance
        share = (told / (told + self.noise.unsqueeze(-1))).mean(-1)
        signal = (1 - self.share).clamp(min=torch.finfo(share.dtype).eps)
        left = ((found.mismatch.nan_to_num(nan=1.0) - self.share) / signal).clamp(0, 1)
        return share * (1 - left)
