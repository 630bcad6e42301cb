"""Classes of rows of which a defense sends gradients only where these are large: where columns speak against the class.

A row of which nothing was sent is then likelier of the class that its columns speak for.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad

from tune_vfl.attacks.parts.lbfgs import minimize

RIDGE = 10.0
"""Penalty on coefficients of columns whose mean square is 1, in units of a row's log likelihood."""
KNOWN = 10.0
"""Weight of a known row beside a row whose class is not known."""
SHARE = 5.0
"""Penalty on the squared difference from the class shares, for each row."""
STEPS = 40
_AT_FIRST = (0.0, 2.0, 2.0, -2.0, 4.0)


class SentRows:
    """Classes of one training's rows, and which rows are sent.

    The log odds of the class are linear in a row's columns. So are the log odds that a row is sent, up to what its
    class adds: the more the columns speak against the class, the more often the row is sent, yet by at most half of
    what they say, so that they speak for the class of a row that was sent too. Each sign is right as often as any.

    Args:
        columns: ``(n, m)`` of the rows.
        read: ``(E, n)`` classes of visits, 1 or -1; 0 where nothing was sent.
        share: of the second class.
    """

    def __init__(self, columns: Tensor, read: Tensor, share: Tensor) -> None:
        columns = columns.double()  # many steps of a search by gradients: nothing may hang on the order of sums
        self._columns = columns / columns.square().mean().clamp(min=1e-30).sqrt()
        self._up, self._down = ((read == way).sum(0).to(columns.dtype) for way in (1, -1))
        self._share = share

    def fitted(self, orders: Tensor, labels: Tensor) -> Tensor:
        """Return log odds of the second class ``(P, n)`` by several fits.

        Args:
            orders: ``(P,)`` the class, 1 or -1, that was read as 1.
            labels: ``(P, A)`` classes, 1 or -1, of the first rows; 0 of those that a fit is not told.
        """
        known = pad(labels, (0, len(self._columns) - labels.shape[-1]))

        def objective(theta: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
            with torch.enable_grad():
                theta = theta.detach().requires_grad_()
                second, first, odds = self._likelihoods(theta, orders[which])
                of = known[which]
                either = torch.where(of > 0, second, torch.where(of < 0, first, torch.logaddexp(first, second)))
                likely = ((1 + (KNOWN - 1) * of.abs()) * either).sum(-1)
                uneven = SHARE * known.shape[-1] * (odds.sigmoid().mean(-1) - self._share).square()
                loss = RIDGE / 2 * theta[:, : -len(_AT_FIRST)].square().sum(-1) + uneven - likely
                (slope,) = torch.autograd.grad(loss.sum(), theta)
            return loss.detach(), slope

        start = torch.cat([self._columns.new_zeros(2 * self._columns.shape[-1]), torch.tensor(_AT_FIRST)])
        theta, _ = minimize(objective, start.expand(len(orders), -1).clone(), iterations=STEPS)
        second, first, _ = self._likelihoods(theta, orders)
        return second - first

    def _likelihoods(self, theta: Tensor, orders: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return log likelihoods ``(P, n)`` of what was read of rows of the second class, and of the first, and odds.

        Args:
            theta: ``(P, 2 m + 5)`` coefficients of the class's odds and of being sent, and five numbers.
            orders: as in :meth:`fitted`.
        """
        width = self._columns.shape[-1]
        of_class, of_sent, numbers = theta[:, :width], theta[:, width : 2 * width], theta[:, 2 * width :]
        base, rarely, seldom, against, right = numbers.unsqueeze(1).unbind(-1)
        odds, often = of_class @ self._columns.mT + base, of_sent @ self._columns.mT
        opposed = against.sigmoid() / 2 * odds
        sent = 1.0 - 2.0 * ((self._up + self._down) == 0)
        way = orders.unsqueeze(-1)
        up, down = ((self._up + self._down + sign * way * (self._up - self._down)) / 2 for sign in (1, -1))
        truly, wrongly = logsigmoid(right), logsigmoid(-right)
        second = logsigmoid(odds) + logsigmoid(sent * (often - rarely - opposed)) + up * truly + down * wrongly
        first = logsigmoid(-odds) + logsigmoid(sent * (often - seldom + opposed)) + down * truly + up * wrongly
        return second, first, odds
