"""A teacher trained by hand, the twin of :func:`~tune_vfl.defenses.parts.teachers.train_teacher`."""

from collections.abc import Sequence

import torch

from tune_vfl.seeds import Stream


def train_by_hand(net: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, *, seed: int, rates: Sequence[float]) -> None:
    """Train a network with Adam, batches of 16 and one learning rate per epoch.

    Args:
        net: changed in place.
        x: ``(n, ...)`` rows.
        y: ``(n,)`` classes.
        seed: of the order of rows.
        rates: one for each epoch.
    """
    order, optimizer = Stream(seed, "teacher/order"), torch.optim.Adam(net.parameters())
    for rate in rates:
        optimizer.param_groups[0]["lr"] = rate
        for rows in order.permutation(len(x)).split(16):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()
