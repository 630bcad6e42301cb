"""Spambase: word and character frequencies of e-mails, all at one party, the labels at another."""

from __future__ import annotations

from pydantic import Field

from tune_vfl.data.base import Recipe, dataset
from tune_vfl.data.options import PartyOptions, SplitChoice
from tune_vfl.data.public_tables import CsvSet
from tune_vfl.spec import Training

_WORDS = (
    "make address all 3d our over remove internet order mail receive will people report addresses free",
    "business email you credit your font 000 money hp hpl george 650 lab labs telnet 857 data 415 85",
    "technology 1999 parts pm direct cs meeting original project re edu table conference",
)
_RUNS = ("average", "longest", "total")


class SpambaseOptions(PartyOptions):
    """All features at the passive party, labels alone at the other, unless ``split`` says otherwise."""

    split: SplitChoice = Field(1.0, description="share of the columns, in file order, that the passive side holds")


@dataset("spambase")
class Spambase(CsvSet[SpambaseOptions]):
    """4,601 x 57, standardized; the recipe is that of GAFM (Han et al. 2023): Adam 1e-4, batch 1,028, 300 epochs."""

    summary = "4,601 e-mails x 57 frequencies, spam or not; labels alone at the label party"
    reference = "Hopkins, Reeber, Forman, Suermondt 1999, UCI Spambase; recipe of Han et al. 2023 (GAFM)"
    Options = SpambaseOptions
    files = ("spambase/spambase.data",)
    source = "https://archive.ics.uci.edu/dataset/94/spambase"
    has_header = False
    has_numbers = True
    features = (
        *(f"word_freq_{word}" for line in _WORDS for word in line.split()),
        *(f"char_freq_{char}" for char in ";([!$#"),
        *(f"capital_run_length_{kind}" for kind in _RUNS),
    )
    label = "spam"
    labels = ("0", "1")
    classes = ("ham", "spam")
    recipe = Recipe.of("gafm", Training(epochs=300, batch_size=1028, lr=1e-4))
