"""EM over visits with known labels as the judge: more under noise with many classes, nothing where nothing shows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.visits import EM, success, world
from tune_vfl.attacks.base import ATTACKS

KNOWN = ATTACKS["gradient_em_known"]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_with_many_classes_in_noise_known_labels_judge_better_than_own_columns(seed):
    y, view = world(seed, classes=10, noise=3.0, jump=0.8, features=1.5)
    by_columns, by_labels = EM().run(view)["gradient_em"], KNOWN().run(view)["gradient_em_known"]
    assert success(by_labels, y) > success(by_columns, y) + 0.08


def test_what_epochs_say_is_also_summed_and_one_of_the_candidates_is_the_choice():
    y, view = world(classes=10, noise=2.0, jump=0.8, features=1.0)
    answers = KNOWN().run(view)
    choice = answers.pop("gradient_em_known")
    assert set(answers) == {"means", "directions", "epochs", "sums", "curved"}
    assert any((choice.scores == one.scores).all() for one in answers.values())
    assert success(choice, y) > 0.85


def test_labels_that_nothing_shows_are_not_found():
    worlds = [world(seed, classes=10, noise=2.0, jump=0.8, features=1.0, tell=False) for seed in range(4)]
    found = [success(KNOWN().run(view)["gradient_em_known"], y) for y, view in worlds]
    assert abs(np.mean(found) - 0.1) < 4 * (0.09 / 1100 / 4) ** 0.5 + 0.01
