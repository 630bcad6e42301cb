"""White-box inversion: the descent against closed forms, what is granted, and how features are scored beside labels."""

import dataclasses

import pytest
import torch
from torch import nn

from tests.helpers.cells import cells
from tune_vfl.attacks.base import TargetRequest
from tune_vfl.attacks.parts.inversion import (
    InversionParams,
    descend,
    total_variation,
    tuned,
    typical_row,
    weights_to_try,
)
from tune_vfl.attacks.parts.matrices import ConvolutionMatrix, with_matrices
from tune_vfl.attacks.wmi import Wmi, WmiParams
from tune_vfl.defenses.base import defense_params
from tune_vfl.evaluation import evaluate_pack, measure_references
from tune_vfl.evaluation.grants.received import SentEmbeddings, target_rows
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack
from tune_vfl.models.layers import stack_of
from tune_vfl.protocol.hooks import Hooks
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.members import Pack, Rows
from tune_vfl.seeds import Stream
from tune_vfl.spec.cell import Cell
from tune_vfl.testing.attacks import success_of
from tune_vfl.testing.views import make_world

QUICK = {"name": "wmi", "iterations": 150, "rows": 16, "tuning_rows": 4}


cell_of = cells("training.epochs=3")


def square(width: int = 5, seed: int = 0) -> nn.Linear:
    """A linear bottom model that can be inverted exactly."""
    layer = nn.Linear(width, width)
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        layer.weight.copy_(torch.linalg.qr(torch.randn(width, width, generator=g)).Q)
    return layer.requires_grad_(False)


def test_total_variation_equals_a_loop_over_neighbors():
    x = torch.rand(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))
    for image, value in zip(x, total_variation(x), strict=True):
        down = [(image[c, i + 1, j] - image[c, i, j]) ** 2 for c in range(3) for i in range(3) for j in range(5)]
        right = [(image[c, i, j + 1] - image[c, i, j]) ** 2 for c in range(3) for i in range(4) for j in range(4)]
        assert value.item() == pytest.approx(float(sum(down) / len(down) + sum(right) / len(right)), rel=1e-5)
    assert total_variation(torch.rand(2, 1, 1, 1)).tolist() == [0.0, 0.0]
    assert total_variation(x[:, :, :1]).shape == (2,)


def test_an_invertible_model_is_inverted_and_a_penalty_shrinks_rows_as_ridge_regression_does():
    bottom, x = square(), torch.randn(7, 5, generator=torch.Generator().manual_seed(1))
    params = InversionParams(iterations=600)
    found = descend(bottom, bottom(x), (5,), torch.zeros(7, 2), params)
    torch.testing.assert_close(found.rows, x, atol=1e-3, rtol=0)
    assert found.mismatch.max() < 1e-5
    # With an orthogonal weight and l2 = 1 the best row is half the way from 0 to the true one, less half the bias.
    shrunk = descend(bottom, bottom(x), (5,), torch.tensor([0.0, 1.0]).expand(7, 2), params)
    torch.testing.assert_close(shrunk.rows, x / 2, atol=1e-3, rtol=0)


def test_rows_go_their_own_way():
    bottom, x = square(), torch.randn(6, 5, generator=torch.Generator().manual_seed(2))
    weights = torch.tensor([0.0, 0.1]).expand(6, 2)
    together = descend(bottom, bottom(x), (5,), weights, InversionParams(iterations=40)).rows
    alone = descend(bottom, bottom(x[3:4]), (5,), weights[:1], InversionParams(iterations=40)).rows
    torch.testing.assert_close(together[3:4], alone, atol=1e-6, rtol=0)


def test_pixels_stay_within_bounds():
    bottom = nn.Sequential(nn.Flatten(), square(4))
    goal = bottom(torch.full((2, 1, 2, 2), 3.0))
    for bounded in (True, False):
        found = descend(bottom, goal, (1, 2, 2), torch.zeros(2, 2), InversionParams(bounded=bounded, iterations=50))
        assert found.rows.min() >= 0
        assert found.rows.max() <= 1


def test_weights_are_those_that_bring_known_rows_back():
    bottom, x = square(), torch.randn(2, 30, 5, generator=torch.Generator().manual_seed(3))
    noise = torch.randn(30, 5, generator=torch.Generator().manual_seed(4))
    sent = torch.stack([bottom(x[0]), bottom(x[1]) + 2 * noise])
    chosen, error = tuned(bottom, x, sent, [(0.0, 0.0), (0.0, 1.0)], InversionParams(iterations=300))
    assert chosen[:, 1].tolist() == [0.0, 1.0]
    assert error[0] < 0.01 < error[1]


def test_tables_have_no_total_variation():
    params = InversionParams(tv=(0.0, 1.0), l2=0.5)
    assert weights_to_try(params, (7,)) == [(0.0, 0.5)]
    assert weights_to_try(params, (1, 4, 4)) == [(0.0, 0.5), (1.0, 0.5)]


def test_without_a_choice_of_weights_it_needs_no_known_rows():
    fixed = Wmi(WmiParams(tv=0.0, l2=0.0))
    assert "pairs" not in fixed.sees()
    world = make_world(0, num_classes=3, width=3, bottom_widths=(64, 6))
    assert fixed.run(world.view(fixed))["wmi"].rows.shape == (fixed.target_request().rows, 3)


def test_of_several_guesses_the_nearest_match_counts():
    world = make_world([0, 1], num_classes=3, width=3, bottom_widths=(64, 6))
    wrong = nn.Sequential(*stack_of([3, 64, 6], nn.ReLU, stream=Stream([7, 8], "wrong")))
    attack = Wmi(WmiParams(iterations=100, tv=0.0, l2=0.0, restarts=2))
    right, view = attack.run(world.view("wmi"))["wmi"].rows, world.view("wmi")
    for good in (0, 1):
        guesses = view.holding(known_bottom=lambda name, good=good: world.bottom if name[-1] == str(good) else wrong)
        assert torch.equal(attack.run(guesses)["wmi"].rows, right)


def test_targets_are_the_same_for_all_and_known_rows_are_others():
    few, _ = target_rows(TargetRequest(10, 5), 100, seed=3)
    many, known = target_rows(TargetRequest(10), 100, seed=3)
    assert torch.equal(few, many)
    assert len(known) == 16
    assert not set(many.tolist()) & set(known.tolist())
    everything, rest = target_rows(TargetRequest(999, 999), 100, seed=3)
    assert sorted([*everything.tolist(), *rest.tolist()]) == list(range(100))
    assert len(everything) == 50


def test_what_was_sent_passes_the_hooks_and_asking_for_it_moves_nothing():
    cell = cell_of(QUICK)
    params = [defense_params("laplace", {"scale": 1e-3}, num_classes=2)]
    task = Task.open(cell)
    plain, kept = (train_pack(task, params, Pack((0, 1), 1), attacks) for attacks in ([], task.attacks))
    assert SentEmbeddings not in plain.keepers
    sent = kept.kept(SentEmbeddings).sent
    assert plain.table["utility",] == kept.table["utility",]
    for a, b in zip(plain.network.parameters(), kept.network.parameters(), strict=True):
        assert torch.equal(a, b)
    with torch.no_grad():
        torch.testing.assert_close(sent, kept.network.bottoms[0](kept.x_train))

    class Doubling(Hooks):
        def send_embedding(self, embedding, *, party):
            return embedding * 2

    loop = SplitTraining(kept.network, Rows(kept.split, kept.pack), task.cell.training, [Doubling()], kept.pack.lead)
    twice = SentEmbeddings(task.attacks, task.cell.training, rows=len(kept.split.y_train[0]))
    twice.end(loop)
    torch.testing.assert_close(twice.sent, sent * 2)


def assert_well_scored(cell: Cell, *, images: bool) -> None:
    assert measure_references(cell).r_lower == {}
    (outcome,) = evaluate_pack(cell, [{"scale": 1e-4}])
    assert outcome.outcome == "ok", outcome.reason
    found = outcome.attacks["wmi"]
    assert (found.metric, found.guess, found.floor, found.r_lower) == ("reconstruction", 0.0, 0.0, None)
    assert not found.upper_bound
    assert not found.weak_attack
    # A mean over seeds of ratios, beside the ratio of means.
    assert found.mean == pytest.approx(1 - found.extra["mse"] / found.extra["mse_mean"], abs=0.06)
    assert set(found.extra) == {"mse", "mse_mean", *(("psnr", "ssim") if images else ())}
    assert outcome.leakage == max(s.advantage for s in outcome.attacks.values())


def test_features_are_scored_beside_labels():
    assert_well_scored(cell_of({**QUICK, "iterations": 300}, "norm"), images=False)


def test_what_stacks_not_is_inverted_seed_by_seed():
    cell = cell_of({**QUICK, "tv": 0.01, "l2": 0.0}, dataset="digits", settings=("model.name=cnn",))
    assert_well_scored(cell, images=True)


def test_a_trial_comes_out_the_same_alone_and_in_a_pack():
    cell = cell_of({**QUICK, "l2": 0.01})
    settings = [{"scale": 1e-5}, {"scale": 1e-2}]
    for one, setting in zip(evaluate_pack(cell, settings), settings, strict=True):
        (alone,) = evaluate_pack(cell, [setting])
        assert one.attacks["wmi"].values == pytest.approx(alone.attacks["wmi"].values, abs=0.02)


def test_an_attack_that_does_not_stack_gets_the_same_of_each_member(monkeypatch):
    cell = cell_of({**QUICK, "l2": 0.01})
    (together,) = evaluate_pack(cell, [{"scale": 1e-4}])
    alone = dataclasses.replace(Wmi.capabilities, stackable=False)
    monkeypatch.setattr(Wmi, "capabilities", alone)
    (apart,) = evaluate_pack(cell, [{"scale": 1e-4}])
    assert apart.attacks["wmi"].values == pytest.approx(together.attacks["wmi"].values, abs=0.02)


def test_secret_passports_hide_the_features():
    quick = {**QUICK, "tv": 0.01, "l2": 0.1}
    bare, hidden = (
        evaluate_pack(cell_of(quick, dataset="digits", defense=d), [p])[0].attacks["wmi"]
        for d, p in (("none", {}), ("fedpass", {"where": "bottom"}))
    )
    assert hidden.extra["mse"] > 1.3 * bare.extra["mse"]


def test_a_world_whose_embeddings_are_those_of_other_rows_gives_nothing_away():
    world = make_world(1, num_classes=3, width=3, separable=False, bottom_widths=(64, 6))
    found = Wmi(WmiParams()).run(world.view("wmi"))["wmi"]
    assert success_of(found, world) == 0.0


def test_images_start_from_the_mean_of_known_ones_and_are_drawn_back_to_it():
    x = torch.rand(2, 9, 1, 3, 3, generator=torch.Generator().manual_seed(5))
    start = typical_row(x, (1, 3, 3))
    assert start is not None
    torch.testing.assert_close(start[:, 0], x.mean(1))
    bottom = nn.Sequential(nn.Flatten(-3), square(9))
    goal, nowhere = bottom(x), InversionParams(iterations=1, lr=1e-12)
    torch.testing.assert_close(
        descend(bottom, goal, (1, 3, 3), torch.zeros(2, 9, 2), nowhere, start=start).rows, start.expand_as(x)
    )
    # Half the way from the mean to the row, as from zero to a row of a table.
    pulled = descend(
        bottom,
        goal,
        (1, 3, 3),
        torch.tensor([0.0, 1.0]).expand(2, 9, 2),
        InversionParams(iterations=600, bounded=False),
        start=start,
    )
    torch.testing.assert_close(pulled.rows, (x + start) / 2, atol=1e-3, rtol=0)
    assert typical_row(torch.rand(9, 4), (4,)) is None


@pytest.mark.parametrize(("dataset", "least"), [("digits", 0.2), ("breast_cancer", 0.2)])
def test_noise_on_embeddings_does_not_blind_who_knows_the_model(dataset: str, least: float):
    cell = cell_of("wmi", dataset=dataset, defense="gaussian", settings=("training.epochs=10",))
    (outcome,) = evaluate_pack(cell, [{"where": "embeddings", "sigma": 1.0}])
    assert outcome.attacks["wmi"].mean > least


def test_small_convolutions_become_matrices_that_answer_alike():
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(2, 3, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(3),
        nn.Sequential(nn.ReLU(), nn.Conv2d(3, 6, (2, 3), groups=3, padding_mode="reflect", padding=1)),
        nn.Conv2d(6, 40, 1),
        nn.Flatten(),
    ).eval()
    wide, narrow = torch.rand(5, 2, 12, 10), torch.rand(5, 2, 6, 4)
    written_out = with_matrices(net, narrow[:1])
    assert not any(isinstance(m, nn.Conv2d) for m in written_out.modules())
    torch.testing.assert_close(written_out(narrow), net(narrow), atol=1e-5, rtol=1e-5)
    only_some = with_matrices(net, wide[:1])
    assert [type(only_some[i]) for i in (0, 3)] == [ConvolutionMatrix, nn.Conv2d]
    torch.testing.assert_close(only_some(wide), net(wide), atol=1e-5, rtol=1e-5)
    alone = with_matrices(net[0], wide[:1])
    assert isinstance(alone, ConvolutionMatrix)
    torch.testing.assert_close(alone(wide), net[0](wide), atol=1e-5, rtol=1e-5)
    assert isinstance(net[0], nn.Conv2d), "the model itself stays as it was"
