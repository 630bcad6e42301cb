"""What is handed to an allocator, how studies' next settings spread, and chances on the scale of a compromise."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.campaign.test_words import DEPLOY
from tests.helpers.campaigns import campaign_of, outcome_of, part_of
from tune_vfl.campaign import campaign as module
from tune_vfl.campaign.allocation import PartState
from tune_vfl.campaign.campaign import Campaign, named
from tune_vfl.campaign.challengers import chances_over
from tune_vfl.campaign.decide import Far
from tune_vfl.campaign.describing import Describer
from tune_vfl.campaign.gains import DRAWS, MOVED, Shown, draws
from tune_vfl.campaign.joint import joint_of
from tune_vfl.campaign.words import sentences
from tune_vfl.statistics.fronts import TOLERANCES
from tune_vfl.statistics.intervals import PRIOR


def test_a_study_stands_by_the_attack_that_is_worst_for_each_setting() -> None:
    ok = [
        outcome_of([0.9, 0.8, 0.7], {"norm": [0.1, 0.2, 0.3], "pmc": [0.4, 0.0, 0.5]}),
        outcome_of([0.6, 0.6, 0.6], {"norm": [0.9, 0.1, 0.2], "pmc": [0.3, 0.3, 0.3]}),
    ]
    state = PartState.of("s", "laplace", ok, due=0, failed=2, flying=3)
    assert state.utility.tolist() == [[0.9, 0.8, 0.7], [0.6, 0.6, 0.6]]
    assert state.leakage == pytest.approx(np.asarray([[0.4, 0.0, 0.5], [0.9, 0.1, 0.2]])), "whole, seed by seed"
    assert state.objectives == pytest.approx(np.asarray([[0.8, 0.3], [0.6, 0.4]]))
    assert (state.finished, state.asked) == (4, 7)
    bare = PartState.of("s", "laplace", [outcome_of([0.9, 0.8], {})], due=0)
    assert bare.leakage.tolist() == [[0.0, 0.0]], "no attack finds nothing"
    nothing = PartState.of("s", "laplace", [], due=1)
    assert (nothing.finished, nothing.objectives.shape, nothing.utility.shape) == (0, (0, 2), (0, 1))


def test_next_settings_are_moved_by_a_spread_between_the_study_s_and_the_usual_one() -> None:
    rng = np.random.default_rng(5)
    parts = [rng.normal(size=(n, 2)) * s for n, s in ((6, [0.1, 0.3]), (4, [0.02, 0.05]), (1, [0.0, 0.0]))]
    shown = Shown(np.concatenate(parts), np.zeros((11, 2)), np.repeat([0, 1, 2], [6, 4, 1]))
    squares = [(p - p.mean(0)).T @ (p - p.mean(0)) for p in parts]
    usual = sum(squares) / (5 + 3 + 0)
    normal = np.random.default_rng(7).normal(size=(DRAWS, 2))
    for part, square, moved in zip(parts, squares, draws(shown, 7), strict=True):
        n = len(part)
        spread = (square + PRIOR * usual) / (n - 1 + PRIOR) + np.diag(np.square(TOLERANCES)) / 4
        moves = normal @ np.linalg.cholesky(spread).T * MOVED * n ** (-1 / 6)
        assert moved == pytest.approx(part[:, None, :] + moves)


def test_a_compromise_s_chance_weighs_both_variances_on_the_undefended_scale() -> None:
    found = [
        outcome_of([u + d, u - d, u], {"norm": [x + 3 * d, x, x - 3 * d]})
        for u, x, d in (
            (0.90, 0.30, 0.01),
            (0.89, 0.28, -0.01),
            (0.8, 0.2, 0.012),
            (0.7, 0.1, 0.008),
            (0.6, 0.05, -0.01),
        )
    ]
    describer = Describer(joint_of(campaign_of(part_of("laplace", found, attacks=["norm"]))))
    own = describer.settings.own
    assert own is not None
    utility, leakage = (o.variance[0] + o.variance[1] for o in own)
    gap = (0.90 - 0.89) / 0.2 - (0.30 - 0.28) / 0.9
    z = gap / math.sqrt(utility / 0.2**2 + leakage / 0.9**2)
    expected = (1 + math.erf(z / math.sqrt(2))) / 2
    assert chances_over(describer, [0], 1, by_utility=False) == pytest.approx([expected], abs=2e-3)
    assert 0.5 < expected < 0.95


def test_three_defenses_that_are_far_are_all_named() -> None:
    told = sentences(replace(DEPLOY, far=(Far(("kdk", "cae", "mid"), 0.02), Far(("iso",), None))))
    assert told[-2:] == [
        "No setting of kdk, cae or mid comes within .020 AUC of it at no more leakage.",
        "No setting of iso leaks so little.",
    ]


def test_a_name_is_that_of_a_campaign_or_of_a_study(monkeypatch: pytest.MonkeyPatch) -> None:
    class Held:
        name = "c"
        place = type("Place", (), {"url": "sqlite:///x"})

    answers: list[Any] = [Held(), None]
    monkeypatch.setattr(module, "open_campaign", lambda _name, _storage: answers.pop(0))
    monkeypatch.setattr(module, "Study", lambda name, storage: ("study", name, storage))
    found = named("c")
    assert isinstance(found, Campaign)
    assert (found.name, found.storage, found.stopped) == ("c", "sqlite:///x", False)
    assert named("s", "there") == ("study", "s", "there")
