"""Surface faults: LabObf's fault data, and the steel plates of UCI, which stand in where few have that file."""

from __future__ import annotations

from pathlib import Path

import torch
from pydantic import Field

from tune_vfl.data.base import Recipe, dataset
from tune_vfl.data.options import Column, PartyOptions, SplitChoice
from tune_vfl.data.public import PublicSet, Rows
from tune_vfl.data.public_tables import RareTable, complete_numbers
from tune_vfl.data.reading.table import read_table
from tune_vfl.errors import DataError
from tune_vfl.spec import Training

FAULTS = (
    *("Pastry_Fault", "Z_Scratch_Fault", "K_Scatch_Fault", "Stains_Fault", "Dirtiness_Fault", "Bumps_Fault"),
    "Other_Faults",
)
CLASSES = ("pastry", "z_scratch", "k_scratch", "stains", "dirtiness", "bumps", "other")
_FEATURES = 27
_TRAINING = Training(epochs=50, batch_size=64, lr=1e-3)
_ADDRESS = "https://www.kaggle.com/datasets/guanlintao/classification-of-faults-dataset"


def labobf_recipe(training: Training, per_class: int = 10) -> Recipe:
    """Return LabObf's network with a training and so many labeled rows a class."""
    return Recipe.of("mlp", training, per_class, bottom_hidden=[64, 32], embedding_dim=10, top_hidden=[32])


@dataset("steel_plates")
class SteelPlates(PublicSet[PartyOptions]):
    """1,941 x 27, standardized, and seven 0/1 columns that name the fault; 14 columns at the passive party.

    The recipe is LabObf's for its fault data: bottoms 64-32-10, Adam 1e-3, 50 epochs. 1 row in 5 is held out, in the
    proportion of its 10,000 and 40,000.
    """

    summary = "1,941 faults of steel plates x 27 measurements, 7 kinds"
    reference = "Buscema, Terzi, Tastle 2010, UCI Steel Plates Faults; recipe of LabObf"
    Options = PartyOptions
    files = ("steel_plates_faults/steel_plates_faults.csv",)
    source = "https://archive.ics.uci.edu/dataset/198/steel+plates+faults (as one csv, with its column names on top)"
    classes = CLASSES
    recipe = labobf_recipe(_TRAINING)
    test_share = 0.2

    def read(self, options: PartyOptions, root: Path) -> Rows:
        """Read the table, whose label is in seven columns."""
        del options
        path = self.file(root)
        frame = read_table(path)
        features = [column for column in frame.columns if column not in FAULTS]
        if len(features) != _FEATURES or len(frame.columns) != _FEATURES + len(FAULTS):
            raise DataError(
                f"{path}: expected {_FEATURES} features and the columns {', '.join(FAULTS)}, got {len(features)} "
                f"features and {len(frame.columns) - len(features)} of these"
            )
        numbers = complete_numbers(frame[[*features, *FAULTS]], path)
        x, flags = numbers[:, :_FEATURES], numbers[:, _FEATURES:]
        return Rows(x, _labels(flags, path), path, f"the {len(FAULTS)} fault columns", names=features)


def _labels(flags: torch.Tensor, path: Path) -> torch.Tensor:
    """Return the class of each row from its ``(N, 7)`` flags, exactly one of which must be 1."""
    proper = ((flags == 0) | (flags == 1)).all(1) & (flags.sum(1) == 1)
    if not proper.all():
        row = int((~proper).nonzero()[0])
        found = ", ".join(f"{v:g}" for v in flags[row].tolist())
        raise DataError(f"{path}: row {row + 1} has the fault columns {found}; exactly one must be 1 and the others 0")
    return flags.argmax(1)


class FaultOptions(PartyOptions):
    """Partition of the columns, and the label column."""

    split: SplitChoice = Field(
        0.49, description="share of the columns, in file order, that the passive side holds: 23 of 47"
    )
    label: Column | None = Field(None, description="the label column of the Kaggle file; none: its last one")


@dataset("fault")
class Fault(RareTable[FaultOptions]):
    """50,000 x 47, three classes, 10,000 rows held out; 23 columns at the passive party, 24 beside the labels.

    Sizes and recipe are LabObf's: bottoms 64-32-10, Adam 1e-3, 50 epochs, 30 labeled rows a class. Where the Kaggle
    file is missing, the steel plates of UCI stand in for it, and a note says so.
    """

    summary = "the fault data of LabObf, 50,000 x 47, 3 classes; steel_plates where they are not there"
    reference = "Kaggle, Classification of Faults Dataset 2023; else Buscema, Terzi, Tastle 2010; recipe of LabObf"
    Options = FaultOptions
    files = ("fault/fault.csv", "fault/fault.csv.gz")
    source = _ADDRESS
    recipe = labobf_recipe(_TRAINING, 30)
    test_share = 0.2
    has_numbers = True
    instead = SteelPlates
    unlike = (
        "the steel plates of UCI stand in for the Kaggle fault data of LabObf, published numbers do not compare; "
        f"{_ADDRESS} goes to {files[0]}"
    )

    def count_note(self, columns: int, classes: int, label: str, where: str) -> str:
        """Return how many columns and classes the file has, where LabObf counts others."""
        del where
        if (columns, classes) == (47, 3):
            return ""
        return (
            f"{columns} columns and {classes} classes by {label!r}, LabObf counts 47 and 3; label names another column"
        )
