"""Loans: borrowers that fell 90 days behind within two years or not (Give Me Some Credit), and LADSG's loan data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import Field

from tune_vfl.data.base import Columns, Recipe, dataset
from tune_vfl.data.options import Column
from tune_vfl.data.public_tables import CsvSet, RareTable
from tune_vfl.data.sample import BalancedOptions
from tune_vfl.errors import DataError
from tune_vfl.spec import Training

LONG_TAILED = ("RevolvingUtilizationOfUnsecuredLines", "DebtRatio", "MonthlyIncome")


@dataset("give_me_some_credit")
class GiveMeSomeCredit(CsvSet[BalancedOptions]):
    """150,000 x 10, missing values marked and set to the training mean, standardized; 1 row in 5 held out.

    Utilization, debt ratio and income reach 500 to 900,000 times their median. Each is replaced by the logarithm of one
    plus its value: standardizing them as they are would leave nearly all rows at one point. LADSG gives sizes (four
    layers at the bottom, three on top, 50 labeled rows a class) and no training; here that is Adam 1e-3, 20 epochs,
    batches of 1,024.
    """

    summary = "150,000 borrowers x 10 columns with missing values, 6.7% defaulted"
    reference = "Kaggle, Give Me Some Credit 2011 (cs-training.csv); sizes of LADSG's loan data"
    Options = BalancedOptions
    kept = True
    files = ("give_me_some_credit/cs-training.csv.gz", "give_me_some_credit/cs-training.csv")
    source = "https://www.kaggle.com/c/GiveMeSomeCredit/data"
    features = (
        *("RevolvingUtilizationOfUnsecuredLines", "age", "NumberOfTime30-59DaysPastDueNotWorse", "DebtRatio"),
        *("MonthlyIncome", "NumberOfOpenCreditLinesAndLoans", "NumberOfTimes90DaysLate"),
        *("NumberRealEstateLoansOrLines", "NumberOfTime60-89DaysPastDueNotWorse", "NumberOfDependents"),
    )
    label = "SeriousDlqin2yrs"
    labels = ("0", "1")
    classes = ("paid", "defaulted")
    recipe = Recipe.of(
        "mlp",
        Training(epochs=20, batch_size=1024, lr=1e-3),
        50,
        bottom_hidden=[64, 32, 16],
        embedding_dim=10,
        top_hidden=[32, 16],
    )
    test_share = 0.2

    def prepare(self, columns: Columns, origin: Path) -> Columns:
        """Return the columns with logarithms of the three long-tailed ones.

        Raises:
            DataError: for text in a column, and a negative number in one of the three.
        """
        strange = [n for n in columns.names if n.removesuffix("=missing") not in self.features]
        if strange:
            raise DataError(
                f"{origin}: expected numbers in every column, but found the value {strange[0]!r}; fetch it again"
            )
        x = columns.x.clone()
        for k, name in enumerate(columns.names):
            if name not in LONG_TAILED:
                continue
            if (x[:, k] < 0).any():
                raise DataError(f"{origin}: column {name!r} holds negative numbers; fetch the file again")
            x[:, k] = x[:, k].log1p()
        return replace(columns, x=x)


class LoanOptions(BalancedOptions):
    """Which rows are used, and which column of the wide table is the label."""

    label: Column | None = Field(None, description="the label column of loan/loan.csv; none: its last one")
    positive: str | int | float | bool | None = Field(None, description="the label of a loan that was not paid back")


@dataset("loan")
class Loan(RareTable[LoanOptions]):
    """LADSG counts 156 columns, and cites a table that has ten: Give Me Some Credit. Its own table is not known.

    A table of borrowers at ``loan/loan.csv`` is read as the data set ``csv`` reads one. Of a larger one LADSG's 80,000
    and 20,000 rows are kept. Each party has half of the columns; four layers are at the bottom and three on top, and 50
    rows a class are labeled. Without such a table this is ``give_me_some_credit`` with all its rows. LADSG's metric is
    F1 (``metric: f1``).
    """

    summary = "a wide table of loans (LADSG: 156 columns) at loan/loan.csv; give_me_some_credit where there is none"
    reference = "LADSG, loan default prediction; Kaggle, Give Me Some Credit 2011"
    Options = LoanOptions
    files = ("loan/loan.csv", "loan/loan.csv.gz", "loan/loan.parquet")
    source = "wherever your table of loans is from; label and positive are for it alone"
    recipe = GiveMeSomeCredit.recipe
    test_share = 0.2
    most_rows = 100_000
    instead = GiveMeSomeCredit
    unlike = f"the ten columns of the file that LADSG cites, where it counts 156; a wide table goes to {files[0]}"

    def count_note(self, columns: int, classes: int, label: str, where: str) -> str:
        """Return how many columns the table has, where LADSG counts others; refuse one without two classes."""
        del label
        if classes != 2:
            raise DataError(f"{where}: has {classes} classes, expected 2; name another column as label")
        return "" if columns == 156 else f"{columns} columns, LADSG counts 156"
