"""A few known positive rows in each batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from tune_vfl.attacks.base import Attack
from tune_vfl.evaluation.grants.base import Grant, grant
from tune_vfl.evaluation.run import Run
from tune_vfl.protocol.granted import Recording
from tune_vfl.protocol.members import alike
from tune_vfl.seeds import numpy_rng
from tune_vfl.spec import Strict
from tune_vfl.statistics.arrays import Bools, Ints


@grant("positive_hints")
class PositiveHints(Grant):
    """Positions of a few positive rows, drawn afresh for each batch from the attack's own stream of the seed."""

    def hand_out(self, attack: Attack[Strict], run: Run) -> Callable[[Recording, int | None], Tensor]:
        """Return a function that draws the hints, see :meth:`tune_vfl.protocol.view.View.positive_hints`."""
        usual = run.task.cell.threat.hints
        return lambda recording, count: drawn(recording, count or usual, run, stream=f"attack/{attack.name}/hints")


def drawn(recording: Recording, count: int, run: Run, *, stream: str) -> Tensor:
    """Return ``(*trials, batches, count)`` positions of known positives, -1 where a batch has too few."""
    labels = run.y_train.gather(-1, recording.ids)
    # A row that received zeros says nothing: the attacker sees that, and asks about another one.
    useful = (labels == 1) & (recording.gradients != 0).any(-1)
    flat = labels.reshape(-1, labels.shape[-1]).numpy()
    usable = useful.reshape(flat.shape).numpy()
    hints = np.full((len(flat), len(recording.batches), count), -1)
    for (seed, _), members in alike(run.drawn.seed_of_each, list(flat)).items():
        rng = numpy_rng(seed, stream)
        for b, (start, stop) in enumerate(recording.batches):
            positive = rng.permutation((flat[members[0], start:stop] == 1).nonzero()[0]) + start
            chosen = _first(positive, usable[members][:, positive], count)
            hints[members, b, : chosen.shape[-1]] = chosen
    return torch.from_numpy(hints).view(*labels.shape[:-1], *hints.shape[1:])


def _first(positive: Ints, useful: Bools, count: int) -> Ints:
    """Return ``(members, at most count)`` positions: the first useful ones, or the first where none is; -1 for none.

    Args:
        positive: ``(P,)`` positions in order.
        useful: ``(members, P)``.
        count: how many are wanted.
    """
    eligible = useful | ~useful.any(-1, keepdims=True)
    first = np.argsort(~eligible, axis=-1, kind="stable")[:, :count]
    found: Ints = np.where(np.take_along_axis(eligible, first, -1), positive[first], -1)
    return found
