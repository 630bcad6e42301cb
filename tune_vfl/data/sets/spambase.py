"""Spambase: word and character frequencies of e-mails, all at one party, the labels at another."""

from __future__ import annotations

from pathlib import Path

import torch
from pydantic import Field

from tune_vfl.data.assemble import assemble
from tune_vfl.data.base import Dataset, Loader, Recipe, dataset
from tune_vfl.data.encode import Encoding, encode_party
from tune_vfl.data.options import PartyOptions, SplitChoice
from tune_vfl.data.partition import matrix_parties
from tune_vfl.data.reading.files import find
from tune_vfl.data.reading.labels import encode_labels
from tune_vfl.data.reading.table import read_table
from tune_vfl.errors import DataError
from tune_vfl.spec import Training

_WORDS = (
    "make address all 3d our over remove internet order mail receive will people report addresses free",
    "business email you credit your font 000 money hp hpl george 650 lab labs telnet 857 data 415 85",
    "technology 1999 parts pm direct cs meeting original project re edu table conference",
)
_RUNS = ("average", "longest", "total")
FEATURES = (
    *(f"word_freq_{word}" for line in _WORDS for word in line.split()),
    *(f"char_freq_{char}" for char in ";([!$#"),
    *(f"capital_run_length_{kind}" for kind in _RUNS),
)


class SpambaseOptions(PartyOptions):
    """All features at the passive party, labels alone at the other, unless ``split`` says otherwise."""

    split: SplitChoice = Field(1.0, description="share of the columns, in file order, that the passive side holds")


@dataset("spambase")
class Spambase(Loader[SpambaseOptions]):
    """4,601 x 57, standardized; the recipe is that of GAFM (Han et al. 2023): Adam 1e-4, batch 1,028, 300 epochs."""

    summary = "4,601 e-mails x 57 frequencies, spam or not; labels alone at the label party"
    reference = "Hopkins, Reeber, Forman, Suermondt 1999, UCI Spambase; recipe of Han et al. 2023 (GAFM)"
    Options = SpambaseOptions

    def load(self, options: SpambaseOptions, root: Path) -> Dataset:
        """Read ``spambase/spambase.data``."""
        path = find(root, "spambase/spambase.data", "https://archive.ics.uci.edu/dataset/94/spambase")
        frame = read_table(path, names=[*FEATURES, "spam"])
        y, class_names = encode_labels(frame["spam"], f"{path}: label column 'spam'")
        features, _ = encode_party(frame, "all", FEATURES, str(path), Encoding())
        if features.names != FEATURES or len(class_names) != 2 or not torch.isfinite(features.x).all():
            raise DataError(
                f"{path}: expected 57 complete numeric columns and a label of two classes; fetch the file again"
            )
        return assemble(
            "spambase",
            matrix_parties(features.x, FEATURES, options.share, options.passive_parties, str(path)),
            y,
            ("ham", "spam"),
            metric=options.metric,
            recipe=Recipe.of("gafm", Training(epochs=300, batch_size=1028, lr=1e-4)),
        )
