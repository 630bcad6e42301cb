"""Columns cut into bins, each party's by itself: the only values of a column that a tree compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bins = NDArray[np.uint8]
MOST_BINS = 256


@dataclass(frozen=True, eq=False)
class ColumnBins:
    """Cuts of the columns of a table.

    Attributes:
        cuts: of each column, rising; a value is in the bin numbered by how many cuts are below it. None: one bin.

    Example:
        >>> import numpy as np
        >>> made = ColumnBins.of(np.array([[0.0], [1.0], [1.0], [4.0]]), most=8)
        >>> made.cuts[0].tolist(), made.binned(np.array([[0.5], [0.6], [9.0]])).tolist()
        ([0.5, 2.5], [[0, 1, 2]])
    """

    cuts: Sequence[NDArray[np.float64]]

    @classmethod
    def of(cls, x: NDArray[np.float64], most: int) -> ColumnBins:
        """Return cuts in the middle between distinct values, or of more values than ``most`` at equal shares of rows.

        Args:
            x: ``(N, F)`` finite numbers.
            most: bins of a column, at most :data:`MOST_BINS`.
        """
        found = []
        for column in x.T:
            distinct = np.unique(column)
            if len(distinct) <= most:
                cuts = (distinct[:-1] + distinct[1:]) / 2
            else:
                shares = np.linspace(0, 100, num=most + 1)[1:-1]
                cuts = np.unique(np.percentile(column, shares, method="averaged_inverted_cdf"))
            found.append(cuts)
        return cls(found)

    def binned(self, x: NDArray[np.float64]) -> Bins:
        """Return the bin of each value, a column a row: ``(F, n)``; a value equal to a cut is below it.

        Args:
            x: ``(n, F)``.
        """
        columns = [np.searchsorted(cuts, x[:, k], side="left") for k, cuts in enumerate(self.cuts)]
        return np.array(columns, dtype=np.uint8).reshape(len(self.cuts), len(x))
