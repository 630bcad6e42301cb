"""Black-box inversion: what it learns from known rows, its nets, and how its variants are scored."""

import dataclasses

import pytest
import torch
from torch import nn

from tune_vfl.attacks.base import TargetRequest
from tune_vfl.attacks.bmi import Bmi, BmiParams, decoder_net
from tune_vfl.errors import SpecError
from tune_vfl.evaluation import evaluate_pack, measure_references
from tune_vfl.evaluation.grants.base import view_of
from tune_vfl.evaluation.grants.received import target_rows
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.evaluation.scoring import score_reconstruction
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import untrained
from tune_vfl.protocol.granted import OwnColumns
from tune_vfl.protocol.members import Pack
from tune_vfl.seeds import Stream
from tune_vfl.spec import parse
from tune_vfl.spec.raw import apply_settings
from tune_vfl.testing.attacks import success_of
from tune_vfl.testing.views import KNOWN, TARGETS, make_world

QUICK = {"name": "bmi", "iterations": 60, "rows": 16, "epochs": 20, "decoder_hidden": [64]}


def world_of(seeds=0, **options):
    return make_world(seeds, num_classes=3, width=3, bottom_widths=(64, 6), **options)


def run(world, **params):
    return Bmi(BmiParams(**params)).run(world.view("bmi"))


def spec_of(dataset, *settings, defense="none", attacks=(QUICK,)):
    raw = {
        "study": "s",
        "dataset": dataset,
        "defense": defense,
        "attacks": list(attacks),
        "budget": {"trials": 1, "seeds": 2},
    }
    return apply_settings(raw, settings)


def outcome_of(*given, params=None, **changes):
    (outcome,) = evaluate_pack(resolve(parse(spec_of(*given, **changes))), [params or {}])
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


def test_own_columns_help_as_far_as_they_say_what_embeddings_do_not():
    world = world_of(3, separable=False)
    x = world.features.train
    order = target_rows(TargetRequest(TARGETS, KNOWN), len(x), world.seeds)
    noise = [torch.randn(len(ids), 2, generator=torch.Generator().manual_seed(1)) for ids in order]
    telling = OwnColumns(*(x[ids, :2] + 0.1 * drawn for ids, drawn in zip(order, noise, strict=True)))
    bmi = Bmi(BmiParams(epochs=60, decoder_hidden=(64,), variants=("decoder", "decoder_own")))
    columns = {"telling": telling, "silent": OwnColumns(*noise)}
    found = {name: bmi.run(world.view("bmi").holding(own_features=own)) for name, own in columns.items()}
    assert success_of(found["telling"]["decoder_own"], world) > 0.5  # two of three columns
    assert max(success_of(found[n]["decoder"], world) for n in found) < 0.1
    assert success_of(found["silent"]["decoder_own"], world) < 0.1
    for answers in found.values():  # the held-out tenth says whether to read them
        better = float(answers["decoder_own"].validation) > float(answers["decoder"].validation) + 0.1
        assert better == (answers is found["telling"])
    assert torch.equal(found["telling"]["decoder"].rows, found["silent"]["decoder"].rows)


def test_a_label_party_without_columns_has_no_such_variant_and_no_such_floor():
    settings = ("dataset.split=1", "training.epochs=2", "attacks.bmi.variants=[decoder,decoder_own]")
    found = outcome_of("wine", *settings).attacks["bmi"]
    assert (set(found.variants), found.r_lower, found.floor) == ({"decoder"}, None, 0.0)
    with pytest.raises(SpecError, match="decoder_own reads the label party's own columns"):
        outcome_of("wine", "dataset.split=1", "attacks.bmi.variants=[decoder_own]")


def test_its_floor_is_the_decoder_of_own_columns_alone():
    """By hand: where every row sends the same, a decoder of embeddings and columns is one of columns."""
    cell = resolve(parse(spec_of("wine", "attacks.bmi.variants=[decoder_own]")))
    (lower,) = measure_references(cell).r_lower.values()
    task, bmi = Task.open(cell), Bmi(BmiParams(**{k: v for k, v in QUICK.items() if k != "name"}))
    for seed, floor in enumerate(lower):
        run_ = untrained(task, Pack((seed,), None), [bmi])
        view = view_of(bmi, run_)
        assert view.pairs.embeddings.abs().max() == 0
        answer = bmi.run(view)["decoder_own"]
        (success,) = score_reconstruction(answer, run_.x_train)["success"]
        assert success == pytest.approx(floor, abs=0.02)
    assert min(lower) > 0.1


def test_without_the_variant_own_columns_are_not_asked_for():
    plain = Bmi(BmiParams(variants=("decoder", "shadow")))
    assert plain.sees() == {"received", "pairs"}
    cell = resolve(parse(spec_of("wine", "attacks.bmi.variants=[decoder]")))
    assert measure_references(cell).r_lower == {}


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
    assert set(found.variants) == {"decoder", "decoder_own", "shadow"}
    assert "chosen" in found.extra
    assert found.mean > 0.2
    # Half of the columns tell much of the other half without any training.
    assert 0.2 < found.r_lower == found.floor
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
