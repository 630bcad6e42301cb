"""Labels read off the signs of single rows' gradients, where there is no top model."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from tune_vfl.errors import SpecError
from tune_vfl.protocol.granted import Auxiliary
from tune_vfl.protocol.view import Recording, View

Rule = Literal["first_negative", "argmin", "argmax_of_negatives", "argmax"]
RULES: tuple[Rule, ...] = get_args(Rule)


def require_classes(view: View, seen: Recording) -> None:
    """Refuse gradients with neither K entries nor one, which cannot be p - y.

    Raises:
        SpecError: for these.
    """
    width = seen.gradients.shape[-1]
    if width != view.num_classes and not (width == 1 and view.num_classes == 2):
        raise SpecError(
            f"attack {view.attack!r} needs cut gradients of width {view.num_classes} (one a class), got {width}; "
            "use a model without a top model (model.top: none)"
        )


def infer(gradients: Tensor, rule: Rule) -> tuple[Tensor, Tensor]:
    """Apply one rule to every row.

    Args:
        gradients: ``(*trials, M, d)``, d the number of classes, or 1.
        rule: which entry names the label.

    Returns:
        ``(*trials, M)`` int64 labels, and ``(*trials, M)`` bool: the rows that give no answer.
    """
    finite = torch.isfinite(gradients).all(-1)
    negative = gradients < 0
    if gradients.shape[-1] == 1:
        return negative.squeeze(-1).long(), ~finite | (gradients == 0).squeeze(-1)
    failed = ~finite | (gradients == gradients[..., :1]).all(-1)
    if rule == "argmin":
        return gradients.argmin(-1), failed
    if rule == "argmax":
        return gradients.argmax(-1), failed
    failed = failed | ~negative.any(-1)
    if rule == "first_negative":
        return negative.to(torch.uint8).argmax(-1), failed
    return gradients.masked_fill(~negative, -torch.inf).argmax(-1), failed


def labels_read_off(view: View, seen: Recording, rule: Rule, count: int) -> Auxiliary:
    """Return rows with labels read off their gradients, possibly wrong, in place of rows with known labels.

    Args:
        view: its streams draw the rows.
        seen: when gradients are read.
        rule: which entry names the label.
        count: how many rows; those that give no answer come last, and are guessed. Fewer where fewer were recorded.
    """
    require_classes(view, seen)
    labels, failed = infer(seen.gradients, rule)
    guess = view.streams["direct/guess"].uniform(labels.shape[-1]).to(labels.device) * view.num_classes
    labels = torch.where(failed, guess.long().clamp_max(view.num_classes - 1), labels)
    drawn = view.streams["direct/rows"].uniform(labels.shape[-1]).to(labels.device) + failed
    at = drawn.argsort(-1)[..., :count]
    return Auxiliary(ids=seen.ids.gather(-1, at), labels=labels.gather(-1, at))
