"""The rows that a defense's teacher reads: the label party's own as plain numbers, texts as bags of tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from tune_vfl.data.base import Split

BAG = 1024
"""Bins of the bag of tokens that teachers read of a text."""


def label_party_rows(split: Split, *, full_view: bool) -> Tensor | None:
    """Return what a defense's teacher may read: the label party's own rows, or every party's where that was allowed."""
    if not full_view:
        return None if split.active_train is None else numbers(split.active_train)
    lead = split.y_train.dim()
    return torch.cat([numbers(p).flatten(lead) for p in split.features("train")], dim=-1)


def numbers(rows: Tensor) -> Tensor:
    """Return rows as a small net reads them: tokens ``(*seeds, n, L)`` become counts in ``BAG`` bins, others stay."""
    if rows.is_floating_point():
        return rows
    bins = torch.where(rows == 0, BAG, rows % BAG)  # after a text's end there is nothing to count
    counts = torch.zeros(*rows.shape[:-1], BAG + 1, device=rows.device)
    return counts.scatter_add_(-1, bins, torch.ones_like(bins, dtype=counts.dtype))[..., :BAG]
