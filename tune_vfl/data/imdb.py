"""IMDB: film reviews as the frequent words they hold, all at one party, the labels at another."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from pydantic import Field

from tune_vfl.data.assemble import assemble
from tune_vfl.data.base import Columns, Dataset, Loader, Recipe, dataset
from tune_vfl.data.partition import matrix_parties
from tune_vfl.data.root import find
from tune_vfl.data.sample import SampledOptions, training_sample
from tune_vfl.data.table import read_table
from tune_vfl.data.words import top_words
from tune_vfl.errors import DataError
from tune_vfl.spec import Named, Training

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

_COLUMNS = ("split", "label", "review")
_CLASSES = ("negative", "positive")


class ImdbOptions(SampledOptions):
    """All words at the passive party, labels alone at the other, unless ``split`` says otherwise."""

    split: float = Field(
        1.0, gt=0, le=1, description="share of the words, the most frequent first, that the passive side holds"
    )
    words: int = Field(500, ge=1, description="how many of the most frequent words of the training reviews are columns")


@dataset("imdb")
class Imdb(Loader[ImdbOptions]):
    """50,000 reviews x 500 words, 1 where the review holds the word; the official 25,000 test reviews.

    Words are runs of letters and digits in lower case, with apostrophes inside ("don't"), HTML tags left out; the most
    frequent 500 of the training reviews, none of them left out for being common. Net and training are those of GAFM
    (Han et al. 2023): 500-256-128-1 with ReLU, dropout .5 and a sigmoid, Adam 1e-4, batches of 1,028, 300 epochs.
    """

    summary = "25,000 + 25,000 film reviews x the 500 most frequent words; labels alone at the label party"
    reference = "Maas et al. 2011, Large Movie Review Dataset; recipe of Han et al. 2023 (GAFM)"
    Options = ImdbOptions
    kept = True

    def load(self, options: ImdbOptions, root: Path) -> Dataset:
        """Read ``imdb/imdb_reviews.csv.xz``."""
        path = find(
            root,
            "imdb/imdb_reviews.csv.xz",
            "https://ai.stanford.edu/~amaas/data/sentiment/; write its reviews to one csv with the columns split "
            "(train or test), label (0 or 1) and review, then pack it with xz",
        )
        frame = read_table(path)
        missing = [name for name in _COLUMNS if name not in frame.columns]
        if missing:
            raise DataError(f"{path}: has no column {missing[0]!r}; expected {', '.join(_COLUMNS)} among its columns")
        is_test = _one_of(frame, "split", ("train", "test"), path) == 1
        y = torch.from_numpy(_one_of(frame, "label", ("0", "1"), path))
        if is_test.all() or not is_test.any():
            raise DataError(f"{path}: column 'split' is the same in all rows; expected both train and test")
        x, words = top_words(frame["review"].tolist(), ~is_test, options.words)
        if len(words) < options.words:
            raise DataError(
                f"{path}: the training reviews hold {len(words)} different words, fewer than words={options.words}"
            )
        test_rows = torch.from_numpy(np.flatnonzero(is_test))
        kept, test_rows, notes = training_sample(y, test_rows, options.rows, _CLASSES, "imdb")
        return assemble(
            "imdb",
            _as_they_are(
                matrix_parties(torch.from_numpy(x)[kept], words, options.split, options.passive_parties, "imdb")
            ),
            y[kept],
            _CLASSES,
            metric=options.metric,
            recipe=_recipe(),
            test_rows=test_rows,
            notes=notes,
            where=f"{path}: label column 'label'",
        )


def _recipe() -> Recipe:
    model = Named.model_validate({"name": "gafm", "bottom_hidden": [256, 128], "activation": "relu", "dropout": 0.5})
    return Recipe(model=model, training=Training(epochs=300, batch_size=1028, lr=1e-4))


def _one_of(
    frame: pd.DataFrame, column: str, allowed: tuple[str, ...], path: Path
) -> np.ndarray[Any, np.dtype[np.int64]]:
    codes = np.select([frame[column] == value for value in allowed], range(len(allowed)), default=-1)
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        raise DataError(
            f"{path}: column {column!r} holds {frame[column].iloc[row]!r} in row {row + 1}, expected "
            f"{' or '.join(allowed)}; correct the row or fetch the file again"
        )
    return codes.astype(np.int64)


def _as_they_are(
    parties: tuple[tuple[Columns, ...], Columns | None],
) -> tuple[tuple[Columns, ...], Columns | None]:
    """Zeros and ones are on one scale already, as published: nothing is standardised."""

    def plain(columns: Columns) -> Columns:
        return replace(columns, scaled=torch.zeros(len(columns.names), dtype=torch.bool))

    passive, active = parties
    return tuple(plain(c) for c in passive), None if active is None else plain(active)
