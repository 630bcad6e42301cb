"""What attacks make of a few images, and how that is drawn."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.image import imread

from reports.pictures import Lines, drawn
from tune_vfl.evaluation.pictured import Pictured, pictured
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.spec import parse

QUICK = {"name": "wmi", "iterations": 30, "tv": [0.0], "l2": [0.0], "rows": 6}


def cell_of(**fields: Any) -> Any:
    raw = {"study": "s", "dataset": "digits", "defense": "none", "training": {"epochs": 1}, "budget": {"seeds": 1}}
    return resolve(parse({**raw, "attacks": [QUICK], **fields}))


def test_originals_are_the_rows_that_the_attack_looked_for():
    cell = cell_of()
    (one,) = pictured(cell, {}, most=4)
    assert (one.attack, one.variant) == ("wmi", "wmi")
    assert one.true.shape == one.found.shape == (4, 1, 8, 4), "the party's half of the image"
    assert 0 <= float(one.found.min()) <= float(one.found.max()) <= 1
    (whole,) = pictured(cell, {}, most=6)
    assert whole.mse == pytest.approx(float((whole.found - whole.true).square().mean()), rel=1e-5)


def test_in_the_horizontal_setting_they_are_a_client_s():
    cell = cell_of(federation="horizontal", clients=3, rounds=1, training={})
    (one,) = pictured(cell, {}, most=2)
    assert one.true.shape == (2, 1, 8, 8)


@pytest.mark.parametrize("fields", [{"dataset": "breast_cancer"}, {"attacks": ["norm"], "dataset": "breast_cancer"}])
def test_without_images_there_is_nothing_to_show(fields):
    assert pictured(cell_of(**fields), {}) == []


def test_there_is_a_line_for_every_model_and_attack_and_attacks_on_the_same_images_share_originals():
    true, found = torch.zeros(3, 1, 8, 8), torch.ones(3, 1, 8, 8)
    models = [
        Lines(called, [Pictured(attack, "v", true, found, 0.5) for attack in ("wmi", "bmi")])
        for called in ("no defense", "kept")
    ]
    image = imread(BytesIO(drawn(models)), format="png")
    column = image[:, -20, :3].mean(-1)  # through the last images of all lines
    bands = np.diff(np.concatenate([[0], (column < 0.5).astype(int), [0]]))
    assert (bands == 1).sum() == 1, "one black line, the originals, above four white ones"
    assert image.shape[0] > image.shape[1] / 3
