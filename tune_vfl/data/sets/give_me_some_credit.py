"""Give Me Some Credit: borrowers, and whether they fell 90 days behind within two years."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from tune_vfl.data.assemble import assemble
from tune_vfl.data.base import Columns, Dataset, Loader, Recipe, dataset
from tune_vfl.data.encode import Encoding, encode_parties
from tune_vfl.data.partition import by_share
from tune_vfl.data.reading.files import find_one
from tune_vfl.data.reading.labels import encode_labels
from tune_vfl.data.reading.table import read_table
from tune_vfl.data.sample import SampledOptions, training_sample
from tune_vfl.errors import DataError
from tune_vfl.spec import Training

LABEL = "SeriousDlqin2yrs"
FEATURES = (
    *("RevolvingUtilizationOfUnsecuredLines", "age", "NumberOfTime30-59DaysPastDueNotWorse", "DebtRatio"),
    *("MonthlyIncome", "NumberOfOpenCreditLinesAndLoans", "NumberOfTimes90DaysLate", "NumberRealEstateLoansOrLines"),
    *("NumberOfTime60-89DaysPastDueNotWorse", "NumberOfDependents"),
)
LONG_TAILED = ("RevolvingUtilizationOfUnsecuredLines", "DebtRatio", "MonthlyIncome")
_CLASSES = ("paid", "defaulted")


@dataset("give_me_some_credit")
class GiveMeSomeCredit(Loader[SampledOptions]):
    """150,000 x 10, missing values marked and set to the training mean, standardized; 1 row in 5 held out.

    Utilization, debt ratio and income reach 500 to 900,000 times their median. Each is replaced by the logarithm of one
    plus its value: standardizing them as they are would leave nearly all rows at one point. LADSG gives sizes (four
    layers at the bottom, three on top, 50 labeled rows a class) and no training; here that is Adam 1e-3, 20 epochs,
    batches of 1,024.
    """

    summary = "150,000 borrowers x 10 columns with missing values, 6.7% defaulted"
    reference = "Kaggle, Give Me Some Credit 2011 (cs-training.csv); sizes of LADSG's loan data"
    Options = SampledOptions
    kept = True

    def load(self, options: SampledOptions, root: Path) -> Dataset:
        """Read ``give_me_some_credit/cs-training.csv``, gzipped or not."""
        place = "give_me_some_credit/cs-training.csv"
        path = find_one(root, [f"{place}.gz", place], "https://www.kaggle.com/c/GiveMeSomeCredit/data")
        frame = read_table(path)
        if set(frame.columns) != {LABEL, *FEATURES}:
            strange = sorted(set(frame.columns) ^ {LABEL, *FEATURES})
            raise DataError(f"{path}: expected {LABEL} and its ten features; not so: {', '.join(strange)}")
        y, found = encode_labels(frame[LABEL], f"{path}: label column {LABEL!r}")
        if found != ("0", "1"):
            raise DataError(f"{path}: label column {LABEL!r} holds {', '.join(found)}, expected 0 and 1")
        kept, _, notes = training_sample(y, None, options.rows, _CLASSES, self.name)
        partition = by_share(FEATURES, options.share, options.passive_parties, str(path))
        passive, active, said = encode_parties(frame, partition, str(path), Encoding())
        return assemble(
            self.name,
            (tuple(_shortened(held, kept, path) for held in passive), active and _shortened(active, kept, path)),
            y[kept],
            _CLASSES,
            metric=options.metric,
            recipe=credit_recipe(),
            test_share=0.2,
            notes=[*notes, *said],
            where=f"{path}: label column {LABEL!r}",
        )


def credit_recipe() -> Recipe:
    """Return the net in LADSG's sizes, and a training."""
    training = Training(epochs=20, batch_size=1024, lr=1e-3)
    return Recipe.of("mlp", training, 50, bottom_hidden=[64, 32, 16], embedding_dim=10, top_hidden=[32, 16])


def _shortened(columns: Columns, kept: torch.Tensor, path: Path) -> Columns:
    """Return the kept rows with logarithms of the three long-tailed columns."""
    strange = [n for n in columns.names if n.removesuffix("=missing") not in FEATURES]
    if strange:
        raise DataError(f"{path}: expected numbers in every column, but found the value {strange[0]!r}; fetch it again")
    x = columns.x[kept]
    for k, name in enumerate(columns.names):
        if name not in LONG_TAILED:
            continue
        if (x[:, k] < 0).any():
            raise DataError(f"{path}: column {name!r} holds negative numbers; fetch the file again")
        x[:, k] = x[:, k].log1p()
    return replace(columns, x=x)
