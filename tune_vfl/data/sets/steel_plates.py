"""Steel plates: shapes and shades of surface faults, and which of seven kinds a fault is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from tune_vfl.data.assemble import assemble
from tune_vfl.data.base import Dataset, Loader, Recipe, dataset
from tune_vfl.data.encode import Encoding, encode_party
from tune_vfl.data.options import PartyOptions
from tune_vfl.data.partition import matrix_parties
from tune_vfl.data.reading.files import find
from tune_vfl.data.reading.table import read_table
from tune_vfl.errors import DataError
from tune_vfl.spec import Training

FAULTS = (
    *("Pastry_Fault", "Z_Scratch_Fault", "K_Scatch_Fault", "Stains_Fault", "Dirtiness_Fault", "Bumps_Fault"),
    "Other_Faults",
)
CLASSES = ("pastry", "z_scratch", "k_scratch", "stains", "dirtiness", "bumps", "other")
_FEATURES = 27
FAULT_TRAINING = Training(epochs=50, batch_size=64, lr=1e-3)
"""LabObf's training on its fault data."""


@dataset("steel_plates")
class SteelPlates(Loader[PartyOptions]):
    """1,941 x 27, standardized, and seven 0/1 columns that name the fault; 14 columns at the passive party.

    The recipe is LabObf's for its fault data: bottoms 64-32-10, Adam 1e-3, 50 epochs. 1 row in 5 is held out, in the
    proportion of its 10,000 and 40,000.
    """

    summary = "1,941 faults of steel plates x 27 measurements, 7 kinds"
    reference = "Buscema, Terzi, Tastle 2010, UCI Steel Plates Faults; recipe of LabObf"
    Options = PartyOptions

    def load(self, options: PartyOptions, root: Path) -> Dataset:
        """Read ``steel_plates_faults/steel_plates_faults.csv``."""
        return self.read(options, root, name=self.name)

    def read(self, options: PartyOptions, root: Path, *, name: str, notes: Sequence[str] = ()) -> Dataset:
        """Read the same file under another name, for a data set whose own file is missing."""
        path = find(
            root,
            "steel_plates_faults/steel_plates_faults.csv",
            "https://archive.ics.uci.edu/dataset/198/steel+plates+faults (as one csv, with its column names on top)",
        )
        frame = read_table(path)
        features = tuple(column for column in frame.columns if column not in FAULTS)
        if len(features) != _FEATURES or len(frame.columns) != _FEATURES + len(FAULTS):
            raise DataError(
                f"{path}: expected {_FEATURES} features and the columns {', '.join(FAULTS)}, got {len(features)} "
                f"features and {len(frame.columns) - len(features)} of these"
            )
        columns, _ = encode_party(frame, "all", (*features, *FAULTS), str(path), Encoding())
        if columns.names != (*features, *FAULTS) or not torch.isfinite(columns.x).all():
            raise DataError(f"{path}: expected complete numeric columns; fetch the file again")
        parties = matrix_parties(columns.x[:, :_FEATURES], features, options.share, options.passive_parties, str(path))
        return assemble(
            name,
            parties,
            _labels(columns.x[:, _FEATURES:], path),
            CLASSES,
            metric=options.metric,
            recipe=labobf_recipe(FAULT_TRAINING),
            test_share=0.2,
            notes=notes,
            where=f"{path}: the {len(FAULTS)} fault columns",
        )


def labobf_recipe(training: Training, per_class: int = 10) -> Recipe:
    """Return LabObf's network with a training and so many labeled rows a class."""
    return Recipe.of("mlp", training, per_class, bottom_hidden=[64, 32], embedding_dim=10, top_hidden=[32])


def _labels(flags: torch.Tensor, path: Path) -> torch.Tensor:
    """Return the class of each row from its ``(N, 7)`` flags, exactly one of which must be 1."""
    proper = ((flags == 0) | (flags == 1)).all(1) & (flags.sum(1) == 1)
    if not proper.all():
        row = int((~proper).nonzero()[0])
        found = ", ".join(f"{v:g}" for v in flags[row].tolist())
        raise DataError(f"{path}: row {row + 1} has the fault columns {found}; exactly one must be 1 and the others 0")
    return flags.argmax(1)
