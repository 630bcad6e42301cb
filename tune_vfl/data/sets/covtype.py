"""Covertype: maps of forest land in 54 columns, and which of seven kinds of trees stands there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from tune_vfl.data.base import dataset
from tune_vfl.data.fetching import download_errors
from tune_vfl.data.public import PublicSet, Rows
from tune_vfl.data.reading.numbers import read_numbers
from tune_vfl.data.sample import SampledOptions
from tune_vfl.data.sets.steel_plates import labobf_recipe
from tune_vfl.errors import DataError
from tune_vfl.machine.files import written_whole
from tune_vfl.spec import Training

_MEASURES = (
    *("Elevation", "Aspect", "Slope", "Horizontal_Distance_To_Hydrology", "Vertical_Distance_To_Hydrology"),
    *("Horizontal_Distance_To_Roadways", "Hillshade_9am", "Hillshade_Noon", "Hillshade_3pm"),
    "Horizontal_Distance_To_Fire_Points",
)
FEATURES = (*_MEASURES, *(f"Wilderness_Area_{k}" for k in range(1, 5)), *(f"Soil_Type_{k}" for k in range(1, 41)))
CLASSES = (
    *("Spruce/Fir", "Lodgepole Pine", "Ponderosa Pine", "Cottonwood/Willow", "Aspen", "Douglas-fir", "Krummholz"),
)
_OFFICIAL_ROWS = 581_012


@dataset("covtype")
class Covtype(PublicSet[SampledOptions]):
    """581,012 x 54 and the label last, all standardized; the first 27 columns at the passive party.

    The recipe is that of LabObf: bottoms 54-64-32-10, Adam 1e-3, batches of 256, 20 labeled rows a class. Of 58 rows 18
    are held out, in the proportion of its 180,000 and 400,000. Training has 50 epochs where the paper has 200, which on
    all rows would be 300,000 steps a seed; ``training.epochs: 200`` is the paper's.
    """

    summary = "581,012 patches of forest x 54 columns, 7 cover types"
    reference = "Blackard 1998, UCI Covertype; recipe of LabObf"
    Options = SampledOptions
    kept = True
    files = ("covtype/covtype.data.gz",)
    source = "https://archive.ics.uci.edu/dataset/31/covertype, or by tune-vfl data fetch covtype"
    classes = CLASSES
    recipe = labobf_recipe(Training(epochs=50, batch_size=256, lr=1e-3), 20)
    test_share = 18 / 58

    def fetch(self, root: Path) -> Path:
        """Download the table through scikit-learn, and write it as UCI does."""
        import gzip
        from tempfile import TemporaryDirectory

        from sklearn.datasets import fetch_covtype

        place = root / self.files[0]
        place.parent.mkdir(parents=True, exist_ok=True)
        with download_errors("sklearn.datasets.fetch_covtype", place), TemporaryDirectory() as scratch:
            bunch = fetch_covtype(data_home=scratch)
            with written_whole(place) as draft, gzip.open(draft, "wt", encoding="ascii") as file:
                np.savetxt(file, np.column_stack([bunch.data, bunch.target]), fmt="%d", delimiter=",")
        return place

    def read(self, options: SampledOptions, root: Path) -> Rows:
        """Read the table of numbers, whose last column is the label from 1."""
        del options
        path = self.file(root)
        numbers = read_numbers(path, len(FEATURES) + 1)
        labels = numbers[:, -1]
        wrong = ~np.isin(labels, np.arange(1, len(CLASSES) + 1))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise DataError(f"{path}: the label in line {row + 1} is {labels[row]:g}, expected 1 to 7; fetch it again")
        rows = len(labels)
        fewer = (f"the file holds {rows:,} of the official {_OFFICIAL_ROWS:,} rows",) * (rows != _OFFICIAL_ROWS)
        x, y = torch.from_numpy(numbers[:, :-1].astype(np.float32)), torch.from_numpy(labels.astype(np.int64) - 1)
        return Rows(x, y, path, "label (last) column", names=FEATURES, notes=fewer)
