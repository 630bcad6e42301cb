"""Secret parameters of a defended model, fitted to rows that the attacker knows with their embeddings."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from tune_vfl.attacks.parts.matrices import with_matrices
from tune_vfl.models.layers import select_member
from tune_vfl.models.optimizers import Adam
from tune_vfl.protocol.granted import Pairs

_log = logging.getLogger(__name__)

FOLDS = 4
STRENGTHS = (1e-4, 1e-2, 1.0, 100.0)
"""Weights of the ridge, a secret's mean squared distance from what was to be expected in units of its own spread."""
DRAWS = 32
"""Guesses that tell what is to be expected of a secret."""
LR = 0.05

Secrets = dict[str, Tensor]
"""By name, values of a model's free parameters; the first axis counts copies of them."""


@dataclass(frozen=True, eq=False)
class FittedBottom:
    """A model with fitted secrets, frozen, and each member's held-out error.

    Attributes:
        bottom: the model.
        error: ``(*trials,)`` the :func:`relative_error` on pairs that were left out of the fit.
    """

    bottom: nn.Module
    error: Tensor


def secrets_of(model: nn.Module) -> Secrets:
    """Return the free parameters of a model; none if it has no secrets."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def relative_error(found: Tensor, sent: Tensor) -> Tensor:
    """Return ``(*trials,)`` the squared distance of embeddings ``(*trials, A, d)`` over that of their mean."""
    return (found - sent).square().sum((-2, -1)) / _variation(sent)


def _variation(sent: Tensor) -> Tensor:
    spread = (sent - sent.mean(-2, keepdim=True)).square().sum((-2, -1))
    return torch.where(spread > 0, spread, 1.0)


def fit_secrets(open_bottom: Callable[[int], nn.Module], pairs: Pairs, *, restarts: int, steps: int) -> FittedBottom:
    """Fit the secrets of a model to known pairs, by Adam on the squared distance of embeddings plus a ridge.

    The ridge draws each secret to the mean of ``DRAWS`` guesses, in units of their deviation. Its strength is the one
    that does best on pairs left out, in ``FOLDS`` folds, from that mean; then all pairs are fitted from several
    guesses, of which the one with the smallest loss counts. The log says where pairs hold fewer numbers than there are
    secrets.

    Args:
        open_bottom: makes copies of the model, whose secrets start at another guess for each number.
        pairs: at least two.
        restarts: starts, at most ``DRAWS``.
        steps: of Adam.

    Returns:
        The fitted model; members of a pack are fitted one by one.
    """
    guesses = [secrets_of(open_bottom(draw)) for draw in range(DRAWS)]
    drawn = {name: torch.stack([g[name].detach() for g in guesses]) for name in guesses[0]}
    sent = pairs.embeddings
    model = with_matrices(open_bottom(0).eval(), pairs.features.narrow(sent.dim() - 2, 0, 1))
    stacked = sent.dim() == 3
    _warn_if_open({name: d[:, 0] if stacked else d for name, d in drawn.items()}, sent)
    members = range(sent.shape[0]) if stacked else [None]
    errors = []
    for i in members:
        alone = model if i is None else select_member(model, i)
        mine = drawn if i is None else {name: d[:, i] for name, d in drawn.items()}
        known = pairs if i is None else Pairs(pairs.features[i], sent[i])
        found, error = _fit(_Fit.expecting(mine, alone, known, steps), mine, restarts)
        for name, parameter in secrets_of(model).items():
            (parameter if i is None else parameter[i]).data.copy_(found[name])
        errors.append(error)
    return FittedBottom(model.requires_grad_(False), torch.stack(errors) if stacked else errors[0])


@dataclass(frozen=True, eq=False)
class _Fit:
    """One member's model and pairs, and the prior of its secrets.

    Attributes:
        model: with free parameters.
        x, sent: ``(A, ...)`` and ``(A, d)`` the pairs.
        center, spread: mean and deviation of each secret.
        steps: of Adam.
    """

    model: nn.Module
    x: Tensor
    sent: Tensor
    center: Secrets
    spread: Secrets
    steps: int

    @classmethod
    def expecting(cls, drawn: Secrets, model: nn.Module, pairs: Pairs, steps: int) -> _Fit:
        """Set the prior from these draws ``(draws, ...)`` of each secret."""
        center, spread = ({name: f(d, dim=0) for name, d in drawn.items()} for f in (torch.mean, torch.std))
        return cls(model, pairs.features, pairs.embeddings, center, spread, steps)

    def units(self, name: str, values: Tensor) -> Tensor:
        """Return values of a secret as deviations from the prior, in standard deviations; 0 for a constant one."""
        spread = self.spread[name]
        return torch.where(spread > 0, (values - self.center[name]) / spread, 0.0)

    def values(self, units: Secrets) -> Secrets:
        """Return secrets from their :meth:`units`."""
        return {name: self.center[name] + self.spread[name] * u for name, u in units.items()}

    def errors(self, secrets: Secrets) -> Tensor:
        """Return ``(copies, A)`` squared distances of embeddings; their mean over the pairs is the relative error."""
        embed = torch.vmap(lambda one: functional_call(self.model, one, (self.x,)))
        found: Tensor = (embed(secrets) - self.sent).square().sum(-1)
        return found * (len(self.sent) / _variation(self.sent))

    def descend(self, start: Secrets, rows: Tensor, ridge: Tensor) -> tuple[Secrets, Tensor]:
        """Fit copies side by side.

        Args:
            start: ``(copies, ...)`` in deviations from what was expected.
            rows: ``(copies, A)`` 1 for the pairs that count, else 0.
            ridge: ``(copies,)`` its weight.

        Returns:
            The secrets, and ``(copies,)`` the loss.
        """
        units = {name: u.clone().requires_grad_() for name, u in start.items()}
        count = sum(u[0].numel() for u in units.values())

        def loss() -> Tensor:
            far = torch.stack([u.square().flatten(1).sum(-1) for u in units.values()]).sum(0) / count
            return (self.errors(self.values(units)) * rows).sum(-1) / rows.sum(-1) + ridge * far

        optimizer = Adam(units.values(), lr=LR)
        for _ in range(self.steps):
            optimizer.zero_grad()
            loss().sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        with torch.no_grad():
            return {name: value.detach() for name, value in self.values(units).items()}, loss()

    def strength(self) -> tuple[Tensor, Tensor]:
        """Return the ridge's weight that does best on pairs left out, and the relative error there."""
        count, tried = len(self.x), len(STRENGTHS)
        folds = min(FOLDS, count)
        out = (torch.arange(count) % folds == torch.arange(folds).unsqueeze(-1)).to(self.sent)
        rows = (1 - out).repeat_interleave(tried, 0)
        ridge = self.sent.new_tensor(STRENGTHS).repeat(folds)
        expected = {name: c.new_zeros(len(ridge), *c.shape) for name, c in self.center.items()}
        found, _ = self.descend(expected, rows, ridge)
        with torch.no_grad():
            left_out = (self.errors(found) * (1 - rows)).sum(-1).view(folds, tried).sum(0) / count
        best = left_out.nan_to_num(nan=torch.inf).argmin()
        return ridge[best], left_out[best]


def _fit(fit: _Fit, drawn: Secrets, restarts: int) -> tuple[Secrets, Tensor]:
    """Return one member's secrets, and the relative error on pairs left out."""
    strength, error = fit.strength()
    start = {name: fit.units(name, d[:restarts]) for name, d in drawn.items()}
    found, loss = fit.descend(start, fit.sent.new_ones(restarts, len(fit.x)), strength.expand(restarts))
    best = loss.nan_to_num(nan=torch.inf).argmin()
    return {name: value[best] for name, value in found.items()}, error


def _warn_if_open(drawn: Secrets, sent: Tensor) -> None:
    unknowns = sum(d[0].numel() for d in drawn.values())
    known = sent.shape[-2] * sent.shape[-1]
    if known < unknowns:
        _log.warning(
            "%d known rows with %d numbers each are fewer than the %d secrets that are fitted to them: others explain "
            "them as well; a larger threat.pairs would leave fewer",
            sent.shape[-2],
            sent.shape[-1],
            unknowns,
        )
