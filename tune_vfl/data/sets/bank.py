"""Bank marketing: clients of a bank, the campaign's circumstances, and whether they subscribed a deposit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from pydantic import Field

from tune_vfl.data.base import dataset
from tune_vfl.data.encode import Encoding
from tune_vfl.data.options import PartyOptions
from tune_vfl.data.public import Rows
from tune_vfl.data.public_tables import CsvSet
from tune_vfl.data.sample import balanced
from tune_vfl.data.sets.steel_plates import labobf_recipe
from tune_vfl.spec import Training

if TYPE_CHECKING:
    import pandas as pd


class BankOptions(PartyOptions):
    """The first ten columns (the client's) at the passive party, the last ten (the campaign's) with the labels."""

    balance: bool = Field(
        True, description="draw as many rows of the larger class as the smaller one has, once for all seeds"
    )


@dataset("bank")
class Bank(CsvSet[BankOptions]):
    """41,188 x 20, categories as ordinal codes, all standardized; balanced by default, 1 row in 11 held out.

    The recipe is that of LabObf, whose accuracies only make sense on balanced classes: 4,640 of each give 8,436
    training and 844 test rows, in the proportion of the paper's 10,000 and 1,000.
    """

    summary = "41,188 bank clients x 20 columns, deposit subscribed or not; balanced to 9,280 rows by default"
    reference = "Moro, Cortez, Rita 2014, UCI Bank Marketing (bank-additional-full); recipe of LabObf"
    Options = BankOptions
    files = ("bank/bank-additional-full.csv.gz",)
    source = "https://archive.ics.uci.edu/dataset/222/bank+marketing (then gzip it)"
    features = (
        *("age", "job", "marital", "education", "default", "housing", "loan", "contact", "month", "day_of_week"),
        *("duration", "campaign", "pdays", "previous", "poutcome"),
        *("emp.var.rate", "cons.price.idx", "cons.conf.idx", "euribor3m", "nr.employed"),
    )
    label = "y"
    classes = ("no", "yes")
    encoding = Encoding(codes="ordinal")
    recipe = labobf_recipe(Training(epochs=100, batch_size=256, lr=1e-3), 100)

    def read(self, options: BankOptions, root: Path) -> Rows:
        """Read the table, and balance its classes."""
        table = super().read(options, root)
        counts = torch.bincount(table.y).tolist()
        counted = zip(self.classes, counts, strict=True)
        shares = ", ".join(f"{name} {count} ({count / len(table.y):.1%})" for name, count in counted)
        if not options.balance:
            return replace(table, notes=(f"classes as in the file: {shares}",))
        rows, frame = balanced(table.y, self.name), cast("pd.DataFrame", table.x)
        note = f"classes balanced: {min(counts)} rows of each drawn, the same for every seed; in the file: {shares}"
        return replace(table, x=frame.iloc[rows.numpy()], y=table.y[rows], notes=(note,), test_share=1 / 11)
