"""Make the two tables of the tutorial: 2,000 synthetic loans, of which a shop and a bank know different columns.

    python examples/loans/make.py [FOLDER]

Nobody's data: all is drawn from the seed. The bank knows who defaulted. Its table also has what no model may use: an
identifier, a date, and what was recovered after a default.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

ROWS, SEED = 2000, 0


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the shop's table and the bank's, joined by ``loan_id``."""
    rng = np.random.default_rng(SEED)
    loan_id = rng.permutation(np.arange(100_000, 100_000 + ROWS))
    age = rng.integers(19, 75, ROWS)
    orders = rng.gamma(2.0, 1.5, ROWS).round(1)
    returned = rng.beta(1.5, 6.0, ROWS).round(3)
    reminders = rng.poisson(0.6, ROWS)
    device = rng.choice(["phone", "laptop", "tablet"], ROWS, p=[0.6, 0.3, 0.1])
    income = rng.lognormal(10.3, 0.45, ROWS).round(-1).astype(int)
    debt = rng.beta(2.0, 4.0, ROWS).round(3)
    employed = rng.integers(0, 240, ROWS)
    amount = (income * rng.uniform(0.1, 0.9, ROWS)).round(-2).astype(int)

    # What the bank cannot know says more than what it knows: the federation has something to gain.
    shop_sees = 1.4 * reminders + 7.0 * returned - 0.5 * orders - 0.03 * age + 0.4 * (device == "phone")
    bank_sees = 3.0 * debt - 0.012 * employed - 0.8 * np.log(income / 30_000)
    chance = 1 / (1 + np.exp(1.4 - shop_sees - bank_sees))
    default = (rng.random(ROWS) < chance).astype(int)
    recovered = np.where(default == 1, (amount * rng.uniform(0.05, 0.6, ROWS)).round(2), 0.0)
    opened = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, ROWS), unit="D")

    shop = pd.DataFrame(
        {
            "loan_id": loan_id,
            "age": age,
            "orders": orders,
            "returned": returned,
            "reminders": reminders,
            "device": device,
        }
    )
    bank = pd.DataFrame(
        {
            "loan_id": loan_id,
            "opened": opened.strftime("%Y-%m-%d"),
            "income": income,
            "debt": debt,
            "employed": employed,
            "amount": amount,
            "recovered": recovered,
            "default": default,
        }
    )
    # Each sorts in its own way, and the shop does not know a few of the bank's customers.
    return shop.iloc[12:].sort_values("age", kind="stable"), bank.sort_values("opened", kind="stable")


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for name, table in zip(("shop", "bank"), tables(), strict=True):
        table.to_csv(folder / f"{name}.csv", index=False, lineterminator="\n")
