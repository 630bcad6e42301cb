"""L-BFGS on many independent problems at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Objective = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""``(x (A, n), which (A,)) -> (values (A,), gradients (A, n))`` of some problems, by position among all of them."""
SUFFICIENT = 1e-4
TRIES = 12
"""Steps of a line search, each between a tenth and a half of the one before."""


@dataclass(eq=False)
class _State:
    """State of the unfinished problems: positions, and their last steps, the oldest first.

    Attributes:
        which: ``(A,)`` their positions among all problems.
        x, gradient: ``(A, n)``; ``value``: ``(A,)``.
        moved, turned: ``(m, A, n)`` steps and the changes of the gradient along them.
        rho: ``(m, A)`` the inverse of their product; 0 where a step says nothing of the curvature.
        scale: ``(A,)`` of the first guess at the inverse Hessian.
        fresh: ``(A,)`` bool: nothing is remembered, so that the next direction is the steepest.
    """

    which: Tensor
    x: Tensor
    value: Tensor
    gradient: Tensor
    moved: Tensor
    turned: Tensor
    rho: Tensor
    scale: Tensor
    fresh: Tensor

    def keep(self, some: Tensor) -> None:
        """Freeze the other problems."""
        self.which, self.x, self.value = self.which[some], self.x[some], self.value[some]
        self.gradient, self.scale, self.fresh = self.gradient[some], self.scale[some], self.fresh[some]
        self.moved, self.turned, self.rho = self.moved[:, some], self.turned[:, some], self.rho[:, some]

    def direction(self) -> Tensor:
        """Return ``(A, n)``: minus the gradient times the inverse Hessian as remembered (two-loop recursion)."""
        q, alphas = self.gradient.clone(), []
        for s, y, rho in zip(reversed(self.moved), reversed(self.turned), reversed(self.rho), strict=True):
            alpha = rho * (s * q).sum(-1)
            q -= alpha.unsqueeze(-1) * y
            alphas.append(alpha)
        q *= self.scale.unsqueeze(-1)
        for s, y, rho, alpha in zip(self.moved, self.turned, self.rho, reversed(alphas), strict=True):
            q += (alpha - rho * (y * q).sum(-1)).unsqueeze(-1) * s
        return -q

    def remember(self, s: Tensor, y: Tensor, most: int) -> None:
        """Store a step ``(A, n)`` and its change of the gradient; steps without positive curvature are skipped."""
        product, square = (s * y).sum(-1), y.square().sum(-1)
        tells = product > 1e-10 * s.norm(dim=-1) * square.sqrt()
        self.moved = torch.cat([self.moved, s.unsqueeze(0)])[-most:]
        self.turned = torch.cat([self.turned, y.unsqueeze(0)])[-most:]
        rho = torch.where(tells, 1 / product, 0.0)
        self.rho = torch.cat([self.rho, rho.unsqueeze(0)])[-most:]
        self.scale = torch.where(tells, product / square, self.scale)
        self.fresh &= ~tells

    def forget(self, some: Tensor) -> None:
        """Restart the problems ``(A,)`` bool from their current positions."""
        self.rho = self.rho.masked_fill(some, 0.0)
        self.fresh |= some


def minimize(
    objective: Objective, start: Tensor, *, iterations: int, history: int = 50, enough: float = -math.inf
) -> tuple[Tensor, Tensor]:
    """Minimize problems one apart from another: L-BFGS with a backtracking line search that fits parabolas.

    Nocedal & Wright, Numerical Optimization, algorithms 7.4, 7.5 and 3.1. A problem whose line search fails begins
    anew along its gradient, and ends where that fails too.

    Args:
        objective: values and gradients of some problems.
        start: ``(P, n)``.
        iterations: line searches of each problem at most.
        history: steps that each remembers.
        enough: a problem whose value is at most this ends.

    Returns:
        ``(P, n)`` the best points, and ``(P,)`` their values.
    """
    which = torch.arange(len(start))
    value, gradient = objective(start, which)
    best, best_value = start.clone(), value.clone()
    none = start.new_zeros(0, *start.shape)
    state = _State(
        which,
        start.clone(),
        value,
        gradient,
        none,
        none,
        none[..., 0],
        torch.ones_like(value),
        torch.ones_like(value, dtype=torch.bool),
    )
    for _ in range(iterations):
        goes_on = (state.value > enough) & torch.isfinite(state.value) & (state.gradient.abs().sum(-1) > 0)
        if not bool(goes_on.all()):
            state.keep(goes_on)
        if not len(state.which):
            break
        failed = _step(objective, state, history)
        best[state.which], best_value[state.which] = state.x, state.value
        if bool(failed.any()):
            state.keep(~failed)
    return best, best_value


def _step(objective: Objective, state: _State, history: int) -> Tensor:
    """Search along each problem's direction; return ``(A,)`` bool: those that cannot get any lower."""
    direction = state.direction()
    slope = (direction * state.gradient).sum(-1)
    lost = ~(slope < 0) | state.fresh
    if bool(lost.any()):
        state.forget(lost & ~state.fresh)
        steepest = -state.gradient / state.gradient.abs().sum(-1, keepdim=True).clamp(min=1.0)
        direction = torch.where(lost.unsqueeze(-1), steepest, direction)
        slope = (direction * state.gradient).sum(-1)
    x, value, gradient = _search(objective, state, direction, slope)
    stuck = ~(value < state.value)
    moved, turned = x - state.x, gradient - state.gradient
    was_fresh = state.fresh.clone()
    state.x, state.value, state.gradient = x, value, gradient
    state.remember(moved, turned, history)
    state.forget(stuck)
    return stuck & was_fresh


def _search(objective: Objective, state: _State, direction: Tensor, slope: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return low enough points along the directions, with values and gradients; the old ones if none is found."""
    x, value, gradient = state.x.clone(), state.value.clone(), state.gradient.clone()
    step, open_ = torch.ones_like(slope), torch.arange(len(slope))
    for _ in range(TRIES):
        tried = state.x[open_] + step[open_].unsqueeze(-1) * direction[open_]
        found, its = objective(tried, state.which[open_])
        start, down = state.value[open_], slope[open_]
        low = found <= start + SUFFICIENT * step[open_] * down
        done = open_[low]
        x[done], value[done], gradient[done] = tried[low], found[low], its[low]
        open_, found = open_[~low], found[~low]
        if not len(open_):
            break
        before = step[open_]
        parabola = -down[~low] * before**2 / (2 * (found - start[~low] - down[~low] * before))
        least, most = 0.1 * before, 0.5 * before
        step[open_] = torch.where(torch.isfinite(parabola), parabola, least).clamp(min=least, max=most)
    return x, value, gradient
