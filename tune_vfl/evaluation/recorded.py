"""A training that ran elsewhere, as one party recorded it: a file of arrays, and what an attack reads of them."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from tune_vfl.errors import UsageError
from tune_vfl.evaluation.grants.visits import entries_of
from tune_vfl.protocol.granted import Average, Features, Moment, Recording
from tune_vfl.protocol.visits import Visits
from tune_vfl.statistics.arrays import Floats, Ints

SHAPES = {"ids": "(M,)", "steps": "(M,)", "gradients": "(M, d)", "embeddings": "(M, e)", "columns": "(N, c)"}
"""Arrays of a recording, a row a visit of a training row in the order of arrival; columns: a row a training row."""
_KINDS = ("numbers", "whole numbers")
NEEDED = ("ids", "steps", "gradients")


class RecordedTraining:
    """Values that one party received, and those that it sent, in a training outside of tune-vfl.

    Attributes:
        ids: ``(M,)`` int64 positions of training rows, one a visit, in the order of arrival.
        steps: ``(M,)`` int64 the number of each visit's batch, which never falls.
        gradients: ``(M, d)`` as received: of the mean loss of a batch.
        embeddings: ``(M, e)`` as sent; None where they were not recorded.
        columns: ``(N, c)`` the party's own columns, by position; None where they were not recorded.
    """

    def __init__(self, arrays: Mapping[str, Floats | Ints], source: str = "recording") -> None:
        """Check the arrays.

        Raises:
            UsageError: for arrays that are missing, have another shape, or hold values that cannot be.
        """
        if missing := [name for name in NEEDED if name not in arrays]:
            raise UsageError(f"{source}: expected {', '.join(NEEDED)}; {', '.join(missing)} is missing")
        if unknown := sorted(set(arrays) - set(SHAPES)):
            raise UsageError(f"{source}: expected {', '.join(SHAPES)}; got {', '.join(unknown)} too")
        for name, array in arrays.items():
            if array.ndim != SHAPES[name].count(",") + (SHAPES[name] != "(M,)"):
                raise UsageError(f"{source}: {name} is {SHAPES[name]}, got the shape {array.shape}")
            if name != "columns" and len(array) != len(arrays["ids"]):
                raise UsageError(f"{source}: {name} has {len(array)} visits, ids {len(arrays['ids'])}")
            if array.dtype.kind not in ("iu" if name in {"ids", "steps"} else "iuf"):
                raise UsageError(f"{source}: {name} holds {array.dtype}, expected {_KINDS[name in {'ids', 'steps'}]}")
            if not np.isfinite(array).all():
                raise UsageError(f"{source}: {name} holds a number that is not finite")
        ids, steps = np.asarray(arrays["ids"]), np.asarray(arrays["steps"])
        if not len(ids) or ids.min() < 0 or (steps[1:] < steps[:-1]).any():
            raise UsageError(f"{source}: expected visits with ids from 0 and steps that never fall")
        if "columns" in arrays and len(arrays["columns"]) <= ids.max():
            raise UsageError(f"{source}: columns has {len(arrays['columns'])} rows, and ids go up to {ids.max()}")
        self.ids, self.steps = (torch.as_tensor(np.asarray(arrays[name], dtype=np.int64)) for name in ("ids", "steps"))
        self.gradients = _floats(arrays["gradients"])
        self.embeddings = _floats(arrays["embeddings"]) if "embeddings" in arrays else None
        self.columns = _floats(arrays["columns"]) if "columns" in arrays else None
        self._sizes = torch.unique_consecutive(self.steps, return_counts=True)[1]

    @classmethod
    def read(cls, path: Path) -> RecordedTraining:
        """Read a ``.npz`` file.

        Raises:
            UsageError: when there is none, or it is not such a file.
        """
        try:
            held = np.load(path, allow_pickle=False)
            arrays = {name: held[name] for name in held.files}
        except (OSError, EOFError, ValueError, zipfile.BadZipFile, AttributeError) as error:
            raise UsageError(f"{path}: expected a .npz file with {', '.join(NEEDED)}; {error}") from error
        return cls(arrays, str(path))

    @property
    def rows(self) -> int:
        """N, the number of training rows: one more than the largest position."""
        return int(self.ids.max()) + 1

    @cached_property
    def _own_loss(self) -> Tensor:
        """``(M, d)`` gradients of each row's own loss: the received one times the rows of its batch."""
        sizes: Tensor = self._sizes.repeat_interleave(self._sizes)
        return self.gradients * sizes.unsqueeze(-1)

    @cached_property
    def _turns(self) -> Tensor:
        """``(M,)`` how many earlier visits each visit's row has had: the epoch, where each row comes once in each."""
        order = self.ids.argsort(stable=True)
        first = torch.searchsorted(self.ids[order].contiguous(), torch.arange(self.rows))
        turns = torch.empty_like(order)
        turns[order] = torch.arange(len(order)) - first[self.ids[order]]
        return turns

    @cached_property
    def epochs(self) -> int:
        """Epochs of a training in which each row comes once in each; 0 of another one."""
        counts = self.ids.bincount(minlength=self.rows)
        regular = bool((counts == counts[0]).all()) and bool((self._turns.diff() >= 0).all())
        return int(counts[0]) if regular else 0

    def recording(self, moment: Moment) -> Recording:
        """Return the gradients of a moment: of the first batch, or of each row's first, last or last few visits."""
        visits = self.ids.bincount(minlength=self.rows)[self.ids]
        if moment == "first_batch":
            chosen = self.steps == self.steps[0]
        elif moment == "epoch0":
            chosen = self._turns == 0
        else:
            chosen = self._turns == visits - 1
        at = chosen.nonzero().flatten()
        values, ids = self._own_loss[at], self.ids[at]
        if isinstance(moment, Average):
            late = self._turns >= visits - moment.epochs
            sums = torch.zeros(self.rows, values.shape[-1]).index_add_(0, self.ids[late], self._own_loss[late])
            values = sums[ids] / self.ids[late].bincount(minlength=self.rows)[ids].unsqueeze(-1)
        sizes = torch.unique_consecutive(self.steps[at], return_counts=True)[1]
        ends = sizes.cumsum(0).tolist()
        batches = tuple(zip([0, *ends[:-1]], ends, strict=True))
        return Recording(ids, values / sizes.repeat_interleave(sizes).unsqueeze(-1), batches)

    def visits(self) -> Visits:
        """Return embeddings and gradients by epoch, neighboring epochs of a long training together."""
        assert self.embeddings is not None  # noqa: S101 - asked for where they are
        count, epochs = self.rows, self.epochs
        order = self.ids.view(epochs, count).argsort(-1)  # at which place of its epoch a row came
        sent, received = (
            values.view(epochs, count, -1).gather(1, order.unsqueeze(-1).expand(-1, -1, values.shape[-1]))
            for values in (self.embeddings, self._own_loss)
        )
        entries = entries_of(epochs, rows=count, width=max(sent.shape[-1], received.shape[-1]))
        sent, received = (torch.stack([part[e[0] : e[-1] + 1].mean(0) for e in entries]) for part in (sent, received))
        places = torch.stack([order[e[-1]] for e in entries])
        times = tuple((e[0] + e[-1]) / 2 for e in entries)
        return Visits(sent, received, places, times, int(self._sizes.max()), (sent.shape[-1],))

    def features(self) -> tuple[Features, nn.Module]:
        """Return the party's columns beside its last embeddings, and a model that reads these off."""
        assert self.embeddings is not None  # noqa: S101 - asked for where they are
        last = torch.zeros(self.rows, self.embeddings.shape[-1]).index_put_((self.ids,), self.embeddings)
        own = last if self.columns is None else torch.cat([self.columns[: self.rows], last], -1)
        read_off = _LastColumns()
        read_off.count = last.shape[-1]
        return Features(own, own[:1]), read_off


class _LastColumns(nn.Module):
    """Reads the last columns of a row."""

    count: int

    def forward(self, x: Tensor) -> Tensor:
        """Return the last columns."""
        return x[..., -self.count :]


def _floats(values: Floats | Ints) -> Tensor:
    return torch.as_tensor(np.asarray(values, dtype=np.float32))
