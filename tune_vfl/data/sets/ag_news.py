"""AG News: titles and first sentences of news in four sections, tokens shared out between the parties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from tune_vfl.data.assemble import assemble
from tune_vfl.data.base import Dataset, Loader, Recipe, dataset
from tune_vfl.data.reading.files import find, holds
from tune_vfl.data.reading.table import read_table
from tune_vfl.data.reading.tokens import START, TextOptions, at_home, by_tokenizer, by_words, text_parties
from tune_vfl.data.sample import training_sample
from tune_vfl.errors import DataError
from tune_vfl.spec import Training

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd


class SectionedTexts(Loader[TextOptions]):
    """Texts in two files without a header, ``train.csv`` and ``test.csv``: the class from 1, then columns of text.

    Attributes:
        folder: where under the data root they are.
        columns: how many columns of text there are.
        classes: the classes' names, in the order of their numbers.
        source: where the files can be had.
    """

    folder: ClassVar[str]
    columns: ClassVar[int]
    classes: ClassVar[tuple[str, ...]]
    source: ClassVar[str]
    Options = TextOptions
    kept = True

    def located(self, options: TextOptions, root: Path) -> TextOptions:
        """Return the options with the tokenizer's folder made absolute."""
        return options.model_copy(update={"tokenizer": at_home(options.tokenizer)})

    def load(self, options: TextOptions, root: Path) -> Dataset:
        """Read both files. If there is only ``test.csv``, hold out a share of its rows for testing."""
        official = holds(root, f"{self.folder}/train.csv")
        frames = [self._read(root, f"{name}.csv") for name in (["train", "test"] if official else ["test"])]
        y = torch.from_numpy(np.concatenate([label for label, _ in frames]))
        texts = [text for _, said in frames for text in said]
        trained = len(frames[0][0]) if official else len(texts)
        x, start = self._tokens(texts, trained, options)
        test_rows = torch.arange(trained, len(texts))
        kept, test_rows, notes = training_sample(y, test_rows, options.rows, self.classes, self.name)
        missing = () if official else (f"{self.folder}/train.csv is not there: the rows are those of test.csv alone",)
        return assemble(
            self.name,
            text_parties(x[kept], start, options.share, options.passive_parties, self.name),
            y[kept],
            self.classes,
            metric=options.metric,
            recipe=self._recipe(options),
            test_rows=test_rows if official else None,
            notes=[*missing, *notes],
            where=f"{root / self.folder}: labels",
        )

    def _tokens(self, texts: list[str], trained: int, options: TextOptions) -> tuple[torch.Tensor, int]:
        if options.tokenizer is not None:
            return by_tokenizer(texts, options)
        return by_words(texts, np.arange(len(texts)) < trained, options), START

    def _recipe(self, options: TextOptions) -> Recipe:
        training = Training(epochs=6, batch_size=64, lr=1e-3)
        return Recipe.of("bert", training, vocabulary=options.vocabulary, positions=options.tokens + 1)

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
