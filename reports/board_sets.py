"""The board's data sets: what the field calls them, their sources, and what a result of one's own is held against."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tune_vfl.data.base import DATASETS

if TYPE_CHECKING:
    from reports.board import Shelf

SPELLED = {
    "bank": "Bank Marketing",
    "breast_cancer": "Breast Cancer Wisconsin",
    "covtype": "Covertype",
    "digits": "Digits",
    "give_me_some_credit": "Give Me Some Credit",
    "mnist": "MNIST",
    "spambase": "Spambase",
    "spambase_labels_only": "Spambase, labels only",
    "steel_plates": "Steel Plates Faults",
}
"""The names of conditions as the field spells their data; those of other boards stand as they are."""


def spelled(name: str) -> str:
    """Return the name of a board's conditions as the field spells it."""
    return SPELLED.get(name, name.replace("_", " "))


def source_of(dataset: str) -> tuple[str, str]:
    """Return who made a data set, and the address where it is had; either may be empty."""
    if dataset not in DATASETS:  # of a plug-in that is not installed here
        return "", ""
    found = re.search(r"https?://\S+", getattr(DATASETS[dataset], "source", ""))
    return DATASETS[dataset].reference, found[0] if found else ""


def held_against(shelf: Shelf) -> dict[str, Any]:
    """Return what the page compares an exported setting of one's own with: the conditions, and the gain's two ends."""
    cells, alone = [study.cell for study in shelf.data.found.parts], shelf.data.found.alone
    cell, attacked = cells[0], [{attack.name for attack in cell.attacks} for cell in cells]
    return {
        "name": spelled(shelf.name),
        "dataset": cell.dataset.model_dump(mode="json"),
        "model": cell.model.model_dump(mode="json"),
        "training": cell.training.model_dump(mode="json"),
        "rows": cell.rows,
        "known": cell.threat.labels_per_class,
        "attacks": sorted(set.intersection(*attacked)),
        "alone": None if alone is None or alone.kept(alone.utility) is None else alone.utility,
        "gain": None if alone is None else alone.gain,
    }
