"""Breast histopathology: patches of tissue, cancer or not; each party has another patch of the same patient."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field

from tune_vfl.data.assemble import assemble
from tune_vfl.data.base import Columns, Dataset, Loader, Recipe, dataset
from tune_vfl.data.options import MetricChoice
from tune_vfl.data.partition import ACTIVE, passive_names
from tune_vfl.data.reading.files import find_folder, locate
from tune_vfl.data.reading.pictures import pictures_of, read_pictures, visible
from tune_vfl.data.reading.public_images import scaled_images
from tune_vfl.data.sample import training_sample
from tune_vfl.errors import DataError
from tune_vfl.seeds import numpy_rng
from tune_vfl.spec import Strict, Training

Numbers = np.ndarray[Any, np.dtype[np.int64]]
_PLACES = ("bhi/IDC_regular_ps50_idx5", "IDC_regular_ps50_idx5", "bhi")
_ADDRESS = "https://www.kaggle.com/datasets/paultimothymooney/breast-histopathology-images"
_CLASSES = ("benign", "carcinoma")
_SIDE = 50
_ROWS = 86_000
_TEST_SHARE = 17 / 86
TRAINING = Training(epochs=5, batch_size=64, optimizer="sgd", lr=0.05, momentum=0.9, weight_decay=5e-4)
_MIXED = "patches of one patient are among training and test rows alike; held_out: patients keeps patients apart"


class BhiOptions(Strict):
    """Formation of rows from patches, and the choice of held-out rows."""

    passive_parties: int = Field(
        1, ge=1, le=7, description="number of passive parties; each has a patch of every row, as the label party has"
    )
    rows: int | None = Field(
        None, ge=2, description="keep a stratified sample of so many rows; none: 86,000, as published, or all if fewer"
    )
    size: int = Field(_SIDE, ge=8, le=_SIDE, description="side that the patches of 50 pixels are resized to")
    held_out: Literal["rows", "patients"] = Field(
        "rows",
        description="rows: 17 in 86 of each class, drawn for each seed; patients: all rows of some patients, the same",
    )
    metric: MetricChoice = Field("f1", description="utility metric; F1 is the papers'")


@dataset("bhi")
class Bhi(Loader[BhiOptions]):
    """Rows of patches ``(3, 50, 50)`` in [0, 1], one for each party, all of one patient and one class.

    As in Fu et al., a row is one patch of the same patient for each party. The 69,000 and 17,000 rows are LADSG's,
    which does not speak of patients: rows are held out, so that a patient may have both training and test rows.
    ``held_out: patients`` keeps patients apart, at nearly these sizes. A patient's patches are combined to rows in an
    order drawn once; patches left over are not used, and patches cut off at the edge of a slide are stretched. The
    training is Fu et al.'s. All rows take about 10 GiB of memory at 50 pixels, 4 GiB at ``size: 32``.
    """

    summary = "69,000 + 17,000 pairs of tissue patches of 50x50 pixels, 28% carcinoma; a patch at each party"
    reference = "Janowczyk, Madabhushi 2016; Kaggle, Breast Histopathology Images (277,524 patches)"
    Options = BhiOptions
    kept = True

    def load(self, options: BhiOptions, root: Path) -> Dataset:
        """Read ``bhi/IDC_regular_ps50_idx5/PATIENT/0/*.png`` and ``PATIENT/1/*.png``."""
        folder = find_folder(root, _PLACES, f"{_ADDRESS}, unpacked there")
        tuples, labels, patients = _tuples(folder, root, options.passive_parties + 1)
        y = torch.from_numpy(labels)
        wanted = _ROWS if options.rows is None and len(y) > _ROWS else options.rows
        kept, _, notes = training_sample(y, None, wanted, _CLASSES, self.name)
        chosen = kept.numpy()
        shape = (options.size, options.size, 3)
        parties = [
            Columns(party, scaled_images(read_pictures([tuples[row][k] for row in chosen], shape, resize=True)))
            for k, party in enumerate([*passive_names(options.passive_parties), ACTIVE])
        ]
        by_patient = options.held_out == "patients"
        return assemble(
            self.name,
            (tuple(parties[:-1]), parties[-1]),
            y[kept],
            _CLASSES,
            metric=options.metric,
            recipe=Recipe.of("resnet20", TRAINING, 30, embedding_dim=5),
            test_rows=_held_out(patients[chosen], folder) if by_patient else None,
            test_share=_TEST_SHARE,
            notes=notes if by_patient else (*notes, _MIXED),
            where=f"{folder}: its folders 0 and 1",
        )


def _tuples(folder: Path, root: Path, parties: int) -> tuple[list[list[Path]], Numbers, Numbers]:
    """Return the patches of each row, with class and patient number."""
    locate(str(folder), root, folder=True)
    patients = [place for place in visible(folder) if place.is_dir() and place.name.isdigit()]
    if not patients:
        raise DataError(f"{folder}: has no folders of patients, such as 8863; unpack the archive again")
    tuples: list[list[Path]] = []
    rows: list[tuple[int, int]] = []
    for number, patient in enumerate(patients):
        # A patient may have patches of only one class.
        held = [label for label in range(len(_CLASSES)) if (patient / str(label)).is_dir()]
        if not held:
            raise DataError(f"{patient}: has neither a folder 0 nor a folder 1; unpack the archive again")
        for label in held:
            files = pictures_of(patient / str(label), root)
            order = numpy_rng(0, f"bhi/{patient.name}/{label}").permutation(len(files))
            made = [[files[k] for k in order[a : a + parties]] for a in range(0, len(files) - parties + 1, parties)]
            tuples += made
            rows += [(label, number)] * len(made)
    table = np.array(rows, dtype=np.int64).reshape(-1, 2)
    return tuples, table[:, 0], table[:, 1]


def _held_out(patients: Numbers, folder: Path) -> torch.Tensor:
    """Return the rows of patients drawn until they are 17 rows in 86, or the next one would be too many."""
    counts = np.bincount(patients)
    order = numpy_rng(0, "bhi/patients").permutation(np.flatnonzero(counts))
    if len(order) < 2:
        raise DataError(f"{folder}: holds the rows of one patient; held_out: patients needs several")
    within = np.cumsum(counts[order]) <= len(patients) * _TEST_SHARE
    return torch.from_numpy(np.flatnonzero(np.isin(patients, order[: max(1, int(within.sum()))])))
