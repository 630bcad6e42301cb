"""Codes of texts: the place of each one among the different ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from tune_vfl.statistics.arrays import Ints


def sorted_codes(texts: np.ndarray[Any, Any]) -> tuple[Ints, list[str]]:
    """Return the place ``(N,)`` of each text among the different ones, and these in alphabetic order."""
    import pandas as pd

    # Arrays of numpy's own strings would cut null characters off, and make all texts as long as the longest.
    codes, found = pd.factorize(texts.astype(object), sort=True)
    return codes, [str(text) for text in found]
