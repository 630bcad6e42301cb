"""Texts as tokens, cut into consecutive parts for the parties."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from tune_vfl.data.base import Columns
from tune_vfl.data.partition import Parties, cut_among
from tune_vfl.data.reading.words import words_of
from tune_vfl.data.sample import SampledOptions
from tune_vfl.errors import DataError

PADDING, UNKNOWN, START = 0, 1, 2
"""Special tokens of the vocabulary: after a text's end, for a word not in it, and at the start of a party's part."""


class TextOptions(SampledOptions):
    """Tokenization of texts: words of a vocabulary made from them, or a pretrained tokenizer's pieces."""

    tokens: int = Field(64, ge=2, description="length that texts are cut or filled to, all parties' parts together")
    vocabulary: int = Field(8000, ge=10, description="how many of the most frequent words have a token of their own")
    tokenizer: str | None = Field(
        None, description="folder or hub name of a transformers tokenizer instead: that of model.pretrained"
    )


def by_words(texts: Sequence[str], counted: np.ndarray[Any, np.dtype[np.bool_]], options: TextOptions) -> Tensor:
    """Return the tokens ``(N, tokens)`` of texts as words; the vocabulary is counted on the ``counted`` texts."""
    words = [words_of(text) for text in texts]
    counts = Counter(w for said, c in zip(words, counted, strict=True) if c for w in said)
    ranked = sorted(counts, key=lambda w: (-counts[w], w))[: options.vocabulary - START - 1]
    number = {word: START + 1 + k for k, word in enumerate(ranked)}
    return _filled([[number.get(w, UNKNOWN) for w in said] for said in words], options.tokens)


def by_tokenizer(texts: Sequence[str], options: TextOptions) -> tuple[Tensor, int]:
    """Return the tokens ``(N, tokens)`` of a pretrained tokenizer, and the one that starts a text.

    Raises:
        DataError: when it cannot be loaded, or its padding token is not 0.
    """
    from tune_vfl.machine.vision import import_torchvision

    import_torchvision()
    from transformers import AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(options.tokenizer, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise DataError(
            f"dataset.tokenizer {options.tokenizer!r}: no tokenizer can be loaded from it "
            f"({str(error).splitlines()[0]}); give the folder that holds one, or a hub name that this machine can reach"
        ) from error
    if tokenizer.pad_token_id != PADDING:
        raise DataError(
            f"dataset.tokenizer {options.tokenizer!r}: fills with token {tokenizer.pad_token_id}, expected 0 as BERT "
            "and DistilBERT do"
        )
    encoded = tokenizer(list(texts), add_special_tokens=False, truncation=True, max_length=options.tokens)
    return _filled(encoded["input_ids"], options.tokens), int(tokenizer.cls_token_id)


def _filled(rows: Sequence[Sequence[int]], length: int) -> Tensor:
    x = np.full((len(rows), length), PADDING, dtype=np.int64)
    for k, row in enumerate(rows):
        kept = row[:length]
        x[k, : len(kept)] = kept
    return torch.from_numpy(x)


def text_parties(x: Tensor, start: int, share: float, parties: int, where: str) -> Parties:
    """Share out consecutive positions of the tokens ``(N, L)``; each party's part begins with ``start``."""
    begin = torch.full((len(x), 1), start)

    def part(party: str, a: int, b: int) -> Columns:
        return Columns(party, torch.cat([begin, x[:, a:b]], 1))

    return cut_among(x.shape[1], share, parties, f"{where}: tokens", part)


def at_home(tokenizer: str | None) -> str | None:
    """Return the folder of a tokenizer as an absolute path; a hub name stays."""
    return str(Path(tokenizer).resolve()) if tokenizer and Path(tokenizer).is_dir() else tokenizer
