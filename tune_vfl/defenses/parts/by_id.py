"""Lookup of rows by id, for every member of a pack in one gather."""

from __future__ import annotations

import torch
from torch import Tensor

from tune_vfl.errors import DataError

SPARSE = 64
"""Ids may reach this many times the number of rows, and a million more, before they count as no row numbers."""

UNKNOWN = 2**62
"""The position of an id that the set-up did not have: outside of every table, so that using it raises."""


class RowTable:
    """Where the row with an id is: a dense table from ids to positions, per member.

    Args:
        ids: ``(*trials, N)`` int64, distinct and not negative within a member, as handed to ``setup``.

    Raises:
        DataError: when the largest id is out of all proportion to the number of rows, or an id is negative.
    """

    def __init__(self, ids: Tensor) -> None:
        count, largest, smallest = ids.shape[-1], int(ids.max()), int(ids.min())
        if smallest < 0 or largest > SPARSE * count + 1_000_000:
            raise DataError(
                f"expected row ids like 0..{count - 1} for {count} rows, got ids from {smallest} to {largest}; "
                "number the rows and hand those numbers to the defense"
            )
        self.count = count
        places = torch.full((*ids.shape[:-1], largest + 1), UNKNOWN, dtype=torch.int64, device=ids.device)
        self._places = places.scatter_(-1, ids, torch.arange(count, device=ids.device).expand_as(ids))

    def positions(self, ids: Tensor) -> Tensor:
        """Return the positions ``(*trials, B)``, in the set-up's order, of the rows with these ids."""
        return self._places.gather(-1, ids)
