"""Turn a column that names a client for each row into the client index of each row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tune_vfl.data.base import Holders
from tune_vfl.data.reading.marks import is_missing
from tune_vfl.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

MOST_CLIENTS = 1000


def read_holders(values: pd.Series[Any], where: str, own_missing: Sequence[str] = ()) -> Holders:
    """Return the client of each row; clients are in the alphabetic order of their names.

    Args:
        values: N names, as text; the index counts the file's rows from 0.
        where: names the file and the column, for messages.
        own_missing: texts that mean a missing name, beside the usual ones.

    Raises:
        DataError: for a row without a name, or more than 1,000 clients.
    """
    texts = values.astype(str).str.strip()
    missing = texts.index[is_missing(texts, own_missing)]
    if len(missing):
        raise DataError(
            f"{where}: is missing in {len(missing)} of {len(texts)} rows (first in row {missing[0] + 1}); remove these "
            "rows or say whose they are"
        )
    names, of = np.unique(texts.to_numpy(dtype=str), return_inverse=True)
    if len(names) > MOST_CLIENTS:
        raise DataError(
            f"{where}: has {len(names)} different values, and each is a client; at most {MOST_CLIENTS} can be: is it "
            "an id?"
        )
    return Holders(tuple(str(name) for name in names), torch.from_numpy(of.astype(np.int64)))
