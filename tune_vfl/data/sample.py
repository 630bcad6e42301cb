"""Train on fewer rows: a stratified sample of the training rows, the same for every seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from tune_vfl.data.options import PartyOptions
from tune_vfl.data.split import held_out_sizes
from tune_vfl.errors import DataError
from tune_vfl.seeds import numpy_rng


class SampledOptions(PartyOptions):
    """Options of a large data set. The training rows are sampled; official test rows are all used."""

    rows: int | None = Field(
        None, ge=1, description="keep a stratified sample of so many rows to train on, for fast searches; none: all"
    )


class BalancedOptions(SampledOptions):
    """Options of a large data set of which one class is rare."""

    balance: bool | None = Field(
        None, description="use as many rows of each class as the rarest has, the same for every seed; none: all rows"
    )


def incomplete(holder: str, rows: tuple[int, int], official: tuple[int, int]) -> tuple[str, ...]:
    """Return a note where files hold other rows than the official ones; none where they hold these.

    Args:
        holder: the files as the note names them, with a verb: "the folder holds".
        rows: how many there are to train on and to test on.
        official: the same of the official files.
    """
    if rows == official:
        return ()
    return ("{} {:,} + {:,} of {:,} + {:,} rows".format(holder, *rows, *official),)


def balanced(y: Tensor, where: str) -> Tensor:
    """Choose as many rows of each class as the rarest has, the same for every seed.

    Args:
        y: ``(N,)`` labels of all rows.
        where: names the data set, for the draw.

    Returns:
        ``(n,)`` the rows to keep, in rising order.
    """
    rng, labels = numpy_rng(0, f"{where}/balance"), y.numpy()
    of_class = [np.flatnonzero(labels == k) for k in np.unique(labels)]
    fewest = min(len(rows) for rows in of_class)
    return torch.from_numpy(np.sort(np.concatenate([rng.permutation(rows)[:fewest] for rows in of_class])))


def training_sample(
    y: Tensor, test_rows: Tensor | None, rows: int | None, class_names: Sequence[str], where: str
) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    """Choose the rows to keep: all test rows, and of the training rows all or a stratified sample.

    Args:
        y: ``(N,)`` labels of all rows.
        test_rows: ``(M,)`` the official test rows; None where there are none.
        rows: how many training rows to keep; None keeps all.
        class_names: K names.
        where: names the data set, for messages.

    Returns:
        ``(n,)`` the rows to keep, in rising order; ``(M,)`` the positions of the test rows among them; and notes.

    Raises:
        DataError: when ``rows`` is not less than the training rows, or less than one a class.
    """
    is_test = torch.zeros(len(y), dtype=torch.bool)
    test_rows = torch.empty(0, dtype=torch.int64) if test_rows is None else test_rows
    is_test[test_rows] = True
    train = (~is_test).nonzero().squeeze(1)
    if rows is None or rows == len(train):
        return torch.arange(len(y)), test_rows, ()
    if not len(class_names) <= rows < len(train):
        raise DataError(
            f"{where}: rows asks for {rows:,} of {len(train):,} rows; give {len(class_names)} (one a class) "
            f"to {len(train):,}"
        )
    counts = torch.bincount(y[train], minlength=len(class_names))
    sizes = held_out_sizes(counts, rows / len(train))
    rng = numpy_rng(0, f"{where}/rows")
    labels = y.numpy()
    drawn = [rng.permutation(train.numpy()[labels[train.numpy()] == k])[:size] for k, size in enumerate(sizes)]
    keep = is_test.clone()
    keep[torch.from_numpy(np.concatenate(drawn))] = True
    what = "training rows" if len(test_rows) else "rows"
    note = f"a stratified sample of {sum(sizes):,} of {len(train):,} {what}, the same for every seed"
    kept = keep.nonzero().squeeze(1)
    return kept, is_test[kept].nonzero().squeeze(1), (note,)
