"""IMDB: film reviews as the frequent words they hold, all at one party, the labels at another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from pydantic import Field

from tune_vfl.data.base import Columns, Recipe, dataset
from tune_vfl.data.options import SplitChoice
from tune_vfl.data.public import PublicSet, Rows
from tune_vfl.data.reading.imdb_files import read_reviews
from tune_vfl.data.reading.words import top_words
from tune_vfl.data.sample import SampledOptions
from tune_vfl.errors import DataError
from tune_vfl.spec import Training


class ImdbOptions(SampledOptions):
    """All words at the passive party, labels alone at the other, unless ``split`` says otherwise."""

    split: SplitChoice = Field(
        1.0, description="share of the words, the most frequent first, that the passive side holds"
    )
    words: int = Field(500, ge=1, description="how many of the most frequent words of the training reviews are columns")


@dataset("imdb")
class Imdb(PublicSet[ImdbOptions]):
    """50,000 reviews x 500 words, 1 where the review holds the word; the official 25,000 test reviews.

    Words are runs of letters and digits in lower case, with apostrophes inside ("don't"); HTML tags are left out. The
    columns are the 500 most frequent words of the training reviews, common ones such as "the" included. Net and
    training are those of GAFM (Han et al. 2023): 500-256-128-1 with ReLU, dropout .5 and a sigmoid, Adam 1e-4, batches
    of 1,028, 300 epochs.
    """

    summary = "25,000 + 25,000 film reviews x the 500 most frequent words; labels alone at the label party"
    reference = "Maas et al. 2011, Large Movie Review Dataset; recipe of Han et al. 2023 (GAFM)"
    Options = ImdbOptions
    kept = True
    classes = ("negative", "positive")
    recipe = Recipe.of(
        "gafm",
        Training(epochs=300, batch_size=1028, lr=1e-4),
        bottom_hidden=[256, 128],
        activation="relu",
        dropout=0.5,
    )

    def read(self, options: ImdbOptions, root: Path) -> Rows:
        """Read ``imdb/imdb_reviews.csv.xz``, the official folder ``aclImdb``, or ``aclImdb_v1.tar.gz``."""
        reviews = read_reviews(root)
        x, words = top_words(reviews.texts, ~reviews.is_test, options.words)
        if len(words) < options.words:
            raise DataError(
                f"{reviews.path}: the training reviews hold {len(words)} different words, fewer than "
                f"words={options.words}"
            )
        test_rows = torch.from_numpy(np.flatnonzero(reviews.is_test))
        return Rows(
            torch.from_numpy(x),
            torch.from_numpy(reviews.y),
            reviews.path,
            reviews.labels,
            names=words,
            test_rows=test_rows,
            notes=reviews.notes,
        )

    def prepare(self, columns: Columns, origin: Path) -> Columns:
        """Mark no column as standardized, as published: zeros and ones are on one scale already."""
        del origin
        return replace(columns, scaled=torch.zeros(len(columns.names), dtype=torch.bool))
