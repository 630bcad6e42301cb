"""The columns of three parties and the labels of the server, of examples/loans."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

COLUMNS = (["age", "orders"], ["returned", "reminders"], ["income", "debt", "employed", "amount"])
"""What each of the three parties knows."""
WIDTH = 4
"""Of each party's embedding."""


def table(folder: str) -> pd.DataFrame:
    """Return the rows that shop and bank share, in an order that all parties know."""
    shop, bank = (pd.read_csv(Path(folder) / f"{name}.csv") for name in ("shop", "bank"))
    return shop.merge(bank, on="loan_id").sort_values("loan_id").reset_index(drop=True)


def columns(folder: str, party: int) -> Tensor:
    """Return a party's columns ``(N, c)`` with mean 0 and deviation 1."""
    own = table(folder)[COLUMNS[party]].fillna(0)
    return torch.tensor(((own - own.mean()) / own.std()).to_numpy(), dtype=torch.float32)


def labels(folder: str) -> Tensor:
    """Return the labels ``(N, 1)``, which the server alone reads."""
    return torch.tensor(table(folder)["default"].to_numpy(), dtype=torch.float32).unsqueeze(1)
