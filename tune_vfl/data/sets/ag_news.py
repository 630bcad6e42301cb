"""AG News: titles and first sentences of news in four sections, tokens shared out between the parties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from tune_vfl.data.base import Recipe, dataset
from tune_vfl.data.public import PublicSet, Rows
from tune_vfl.data.reading.files import find, holds
from tune_vfl.data.reading.table import read_table
from tune_vfl.data.reading.tokens import START, TextOptions, at_home, by_tokenizer, by_words
from tune_vfl.errors import DataError
from tune_vfl.spec import Training

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd


class SectionedTexts(PublicSet[TextOptions]):
    """Texts in two files without a header, ``train.csv`` and ``test.csv``: the class from 1, then columns of text.

    Attributes:
        folder: where under the data root they are.
        columns: how many columns of text there are.
    """

    folder: ClassVar[str]
    columns: ClassVar[int]
    Options = TextOptions
    kept = True

    def located(self, options: TextOptions, root: Path) -> TextOptions:
        """Return the options with the tokenizer's folder made absolute."""
        return options.model_copy(update={"tokenizer": at_home(options.tokenizer)})

    def read(self, options: TextOptions, root: Path) -> Rows:
        """Read both files. If there is only ``test.csv``, hold out a share of its rows for testing."""
        official = holds(root, f"{self.folder}/train.csv")
        frames = [self._read(root, f"{name}.csv") for name in (["train", "test"] if official else ["test"])]
        y = torch.from_numpy(np.concatenate([label for label, _ in frames]))
        texts = [text for _, column in frames for text in column]
        trained = len(frames[0][0]) if official else len(texts)
        if options.tokenizer is not None:
            x, start = by_tokenizer(texts, options)
        else:
            x, start = by_words(texts, np.arange(len(texts)) < trained, options), START
        training = Training(epochs=6, batch_size=64, lr=1e-3)
        missing = f"{self.folder}/train.csv is not there: the rows are those of test.csv alone"
        return Rows(
            x,
            y,
            root / self.folder,
            start=start,
            test_rows=torch.arange(trained, len(texts)) if official else None,
            notes=() if official else (missing,),
            recipe=Recipe.of("bert", training, vocabulary=options.vocabulary, positions=options.tokens + 1),
        )

    def _read(self, root: Path, file: str) -> tuple[np.ndarray[Any, np.dtype[np.int64]], list[str]]:
        path = find(root, f"{self.folder}/{file}", self.source)
        names = ["class", *(f"text_{k}" for k in range(self.columns))]
        frame: pd.DataFrame = read_table(path, names=names)
        said = frame["class"].astype(str).str.strip()
        known = {str(k + 1): k for k in range(len(self.classes))}
        wrong = ~said.isin(list(known))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise DataError(
                f"{path}: row {row + 1} is of class {said.iloc[row]!r}, expected 1 to {len(self.classes)}; correct it "
                "or fetch the file again"
            )
        texts = frame[names[1:]].fillna("").astype(str).agg(" ".join, axis=1)
        return np.array([known[label] for label in said]), list(texts)


@dataset("ag_news")
class AgNews(SectionedTexts):
    """Titles and descriptions as 64 tokens, the first half at the passive party, the second with the labels.

    Without a pretrained model a small BERT is trained from scratch on words.
    """

    summary = "120,000 + 7,600 news in 4 sections as tokens; the first half of each text at the passive party"
    reference = "Zhang, Zhao, LeCun 2015, AG's News"
    folder = "ag_news"
    columns = 2
    classes = ("world", "sports", "business", "science")
    source = "the archive of Zhang, Zhao, LeCun 2015, or https://huggingface.co/datasets/fancyzhx/ag_news as csv"
