"""The rows that a defense's teacher reads: the label party's own, or those of all parties side by side."""

from __future__ import annotations

import torch
from torch import Tensor

from tune_vfl.data.base import Split


def label_party_rows(split: Split, *, full_view: bool) -> Tensor | None:
    """Return rows for a defense's teacher: the label party's own, or every party's if the spec allows it.

    Returns:
        ``(*seeds, N, ...)`` as the data set has them. Those of all parties are joined along their last axis (columns,
        the width of images, tokens), or, where their shapes do not allow that, flattened first. None where the label
        party has no features.
    """
    if not full_view:
        return split.active_train
    lead, parts = split.y_train.dim(), split.features("train")
    alike = len({part.shape[lead:-1] for part in parts}) == 1
    return torch.cat(list(parts) if alike else [part.flatten(lead) for part in parts], dim=-1)
