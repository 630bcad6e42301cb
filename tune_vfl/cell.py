"""A cell: everything that decides a trial's outcome except the defense's searched parameters. Plain data."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from tune_vfl.spec import Named, Strict, Training

Mode = Literal["split", "nosplit", "label_only"]
"""The architecture: both sides compute and a top model joins them; embeddings are summed into the logits; the label
party has labels only."""
ALL_MODES: frozenset[Mode] = frozenset({"split", "nosplit", "label_only"})


class Cell(Strict):
    """One (dataset, model, training, defense, attacks, seeds), resolved: every option is written out.

    Attributes:
        dataset, model, attacks: names with all their options.
        training: all fields.
        defense: its name.
        fixed: the defense's parameters that a search does not touch.
        seeds: the seeds of every trial.
        metric: the utility metric.
        num_classes: K.
        mode: derived from data and model.
        trial_minutes: a trial that takes longer ends as ``timeout``.
    """

    dataset: Named
    model: Named
    training: Training
    defense: str
    fixed: dict[str, Any] = Field(default_factory=dict)
    attacks: tuple[Named, ...]
    seeds: tuple[int, ...]
    metric: str
    num_classes: int
    mode: Mode
    trial_minutes: float | None = None


class References(Strict):
    """What a trial's attacks are compared with: measured once a study, the same for every setting of the defense.

    Attributes:
        r_lower: for each attack that needs no gradients, its success on an untrained bottom model, a value per seed.
    """

    r_lower: dict[str, list[float]] = Field(default_factory=dict)
