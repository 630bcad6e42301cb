"""Texts as binary columns: the presence of each of the most frequent words."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

import numpy as np

_TAG = re.compile(r"<[^>]*>")
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case: runs of letters and digits, with apostrophes inside; no HTML tags."""
    return _WORD.findall(_TAG.sub(" ", text.lower()))


def top_words(
    texts: Sequence[str], counted: np.ndarray[Any, np.dtype[np.bool_]], size: int
) -> tuple[np.ndarray[Any, np.dtype[np.float32]], tuple[str, ...]]:
    """Find the most frequent words, and their presence in each text.

    Args:
        texts: N texts.
        counted: ``(N,)`` the texts whose words are counted, every occurrence: those to train on.
        size: how many words.

    Returns:
        ``(N, size)`` 1 where a text holds a word, else 0; and the words, most frequent first, in alphabetic order
        among equals. Fewer columns where the counted texts have fewer words.
    """
    number: defaultdict[str, int] = defaultdict(count().__next__)
    held = [np.fromiter(map(number.__getitem__, words_of(text)), dtype=np.int64) for text in texts]
    words = list(number)
    counts = np.bincount(np.concatenate([h for h, c in zip(held, counted, strict=True) if c]), minlength=len(words))
    first = _most_frequent(words, counts, size)
    column = np.full(len(words), -1)
    column[first] = np.arange(len(first))
    x = np.zeros((len(texts), len(first)), dtype=np.float32)
    for row, numbers in enumerate(held):
        at = column[numbers]
        x[row, at[at >= 0]] = 1
    return x, tuple(words[k] for k in first)


def _most_frequent(words: Sequence[str], counts: Iterable[int], size: int) -> list[int]:
    ranked = sorted((-int(c), word, k) for k, (word, c) in enumerate(zip(words, counts, strict=True)) if c)
    return [k for _, _, k in ranked[:size]]
