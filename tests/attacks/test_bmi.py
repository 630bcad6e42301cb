"""Black-box inversion: what it learns from known rows, its nets, and how its variants are scored."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from tune_vfl.attacks.bmi import Bmi, BmiParams, decoder_net
from tune_vfl.errors import SpecError
from tune_vfl.evaluation import evaluate_pack
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.seeds import Stream
from tune_vfl.spec import parse
from tune_vfl.spec.raw import apply_settings
from tune_vfl.testing.attacks import success_of
from tune_vfl.testing.views import make_world

QUICK = {"name": "bmi", "iterations": 60, "rows": 16, "epochs": 20, "decoder_hidden": [64]}


def world_of(seeds=0, **options):
    return make_world(seeds, num_classes=3, width=3, bottom_widths=(64, 6), **options)


def run(world, **params):
    return Bmi(BmiParams(**params)).run(world.view("bmi"))


def outcome_of(dataset, *settings, defense="none", params=None, attacks=(QUICK,)):
    raw = {
        "study": "s",
        "dataset": dataset,
        "defense": defense,
        "attacks": list(attacks),
        "budget": {"trials": 1, "seeds": 2},
    }
    (outcome,) = evaluate_pack(resolve(parse(apply_settings(raw, settings))), [params or {}])
    return outcome


def test_both_variants_recover_what_embeddings_hold_and_know_how_well():
    world = world_of()
    for answer in run(world, epochs=200, decoder_hidden=(64,)).values():
        success = success_of(answer, world)
        assert success > 0.8
        assert float(answer.validation) == pytest.approx(success, abs=0.15)


def test_more_known_rows_are_worth_more():
    view = world_of(1).view("bmi")
    pairs = dataclasses.replace(view.pairs, features=view.pairs.features[:12], embeddings=view.pairs.embeddings[:12])
    few = Bmi(BmiParams(variants="decoder")).run(view.holding(pairs=pairs))["decoder"]
    many = run(world_of(1), variants="decoder")["decoder"]
    assert success_of(few, world_of(1)) < success_of(many, world_of(1))


def test_the_pass_that_does_best_on_held_out_rows_is_taken():
    world = world_of(2, separable=False)
    found = run(world, variants="decoder", epochs=300, decoder_hidden=(64,))["decoder"]
    # Nothing to learn: what it would memorize is worse than the mean, the best pass is not much worse than it.
    x = world.features.train
    error = (found.rows - x[found.ids]).square().mean()
    assert error < 1.2 * (x - x.mean(0)).square().mean()


def test_a_decoder_answers_pixels_or_any_number():
    stream = Stream(0, "start")
    pixels = decoder_net([4, 8, 9], images=True, stream=stream)(torch.randn(5, 4) * 100)
    assert 0 <= pixels.min() <= pixels.max() <= 1
    net = decoder_net([4, 8, 6, 9], images=False, stream=stream)
    kinds = [type(m).__name__ for m in net]
    assert kinds == ["Linear", "LayerNorm", "ReLU", "Linear", "LayerNorm", "ReLU", "Linear"]
    hidden = nn.Sequential(*net[:2])(torch.randn(5, 4))
    torch.testing.assert_close(hidden.mean(-1), torch.zeros(5), atol=1e-5, rtol=0)


def test_too_few_known_rows_are_refused():
    view = world_of().view("bmi")
    pairs = dataclasses.replace(view.pairs, features=view.pairs.features[:9], embeddings=view.pairs.embeddings[:9])
    with pytest.raises(SpecError, match="10 known rows"):
        Bmi(BmiParams()).run(view.holding(pairs=pairs))


def test_it_is_evaluated_on_tables_and_chooses_its_variant():
    outcome = outcome_of("breast_cancer", "training.epochs=5", attacks=(QUICK, "norm"))
    found = outcome.attacks["bmi"]
    assert outcome.outcome == "ok"
    assert found.metric == "reconstruction"
    assert set(found.variants) == {"decoder", "shadow"}
    assert "chosen" in found.extra
    assert found.mean > 0.2
    assert all("mse" in v for v in found.variants.values())
    assert outcome.attacks["norm"].metric == "leak_auc"


def test_noise_on_embeddings_costs_it_and_it_runs_where_nothing_stacks():
    settings = ("model.name=cnn", "training.epochs=2")
    bare = outcome_of("digits", *settings).attacks["bmi"]
    noisy = outcome_of("digits", *settings, defense="gaussian", params={"where": "embeddings", "sigma": 5.0}).attacks[
        "bmi"
    ]
    assert {"psnr", "ssim", "mse", "mse_mean"} <= set(bare.extra)
    assert noisy.extra["mse"] > bare.extra["mse"]
    assert noisy.mean < 0.5 * bare.mean
