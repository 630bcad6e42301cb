"""From an attack's answers to its success with each seed: plain twins, and values that can be counted by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from tests.metrics.twins import success_at_one_percent
from tune_vfl.evaluation.scoring import guess_success, paired, score_answer, score_reconstruction, success_metric
from tune_vfl.metrics import reconstruction
from tune_vfl.metrics.utility import auc, f1
from tune_vfl.protocol.answers import Answer, Reconstruction
from tune_vfl.seeds import numpy_rng
from tune_vfl.statistics.floors import auc_by_fold, cross_fitted_auc_of_each, stratified_folds

NOBODY = torch.zeros(0, dtype=torch.int64)


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def labels(*shape: int, classes: int = 2, seed: int = 0) -> torch.Tensor:
    y = torch.from_numpy(np.random.default_rng(seed).integers(0, classes, shape))
    y[..., :classes] = torch.arange(classes)
    return y


@pytest.mark.parametrize(("classes", "name"), [(2, "leak_auc"), (3, "top1"), (50, "top1"), (51, "top5")])
def test_the_success_is_named_by_the_number_of_classes(classes, name):
    assert success_metric(classes) == name


def test_class_scores_succeed_by_the_share_of_labels_that_they_hit():
    y = torch.tensor([[0, 1, 2, 2], [2, 2, 1, 0]])
    ids = torch.tensor([[3, 0, 1, 2], [0, 1, 2, 3]])  # the labels of these rows: 2 0 1 2, and 2 2 1 0
    said = torch.eye(3)[torch.tensor([[2, 0, 0, 0], [2, 2, 1, 1]])]
    answer = Answer(said, ids, validation=torch.tensor([0.25, 0.5]))
    found = score_answer(answer, y, NOBODY.expand(2, 0), 3, [0, 1])
    assert found == {"success": [0.5, 0.75], "validation": [0.25, 0.5]}
    counted = torch.tensor([[True, True, False, False], [False, False, False, True]])
    only = score_answer(Answer(said, ids, counted=counted), y, NOBODY.expand(2, 0), 3, [0, 1])
    assert only == {"success": [1.0, 0.0]}
    tested = score_answer(Answer(said, ids, test=said), y, torch.tensor([[2, 0, 1, 2], [2, 2, 2, 2]]), 3, [0, 1])
    assert tested["test"] == [0.5, 0.5]
    assert score_answer(Answer(said[1], ids[1]), y[1], NOBODY, 3, [0]) == {"success": [0.75]}


@pytest.mark.parametrize("classes", [5, 6, 60])
def test_of_many_classes_the_five_likeliest_are_looked_at_too(classes):
    y, scores = labels(200, classes=classes), drawn(200, classes)
    found = score_answer(Answer(scores, torch.arange(200)), y, NOBODY, classes, [0])
    five = (scores.topk(5, -1).indices == y.unsqueeze(-1)).any(-1).double().mean().item()
    one = (scores.argmax(-1) == y).double().mean().item()
    if classes <= 5:
        assert found == {"success": [one]}
    elif classes <= 50:
        assert found == {"success": [one], "top5": [five]}
    else:
        assert found == {"success": [five], "top1": [one]}


def test_scores_whose_positive_end_is_known_are_measured_as_they_are():
    y, scores = labels(2, 60), drawn(2, 60)
    found = score_answer(
        Answer(scores, torch.arange(60).expand(2, 60), oriented=True), y, NOBODY.expand(2, 0), 2, [0, 1]
    )
    for member in range(2):
        s, t = scores[member].numpy(), y[member].numpy()
        assert found["success"][member] == pytest.approx(auc(s, t))
        assert found["at_1_percent_fpr"][member] == pytest.approx(success_at_one_percent(s, t))
        upper = (s > (s.min() + s.max()) / 2).astype(int)
        assert found["top1"][member] == pytest.approx((upper == t).mean())
    assert set(found) == {"success", "at_1_percent_fpr", "top1", "f1"}
    worse = score_answer(
        Answer(-scores, torch.arange(60).expand(2, 60), oriented=True), y, NOBODY.expand(2, 0), 2, [0, 1]
    )
    assert worse["success"] == pytest.approx([1 - s for s in found["success"]])


def test_scores_whose_positive_end_is_not_known_are_turned_by_the_other_folds():
    y, scores, seeds = labels(2, 80), drawn(2, 80), [4, 9]
    scores[0] -= y[0]  # the positives have the lower scores
    found = score_answer(Answer(scores, torch.arange(80).expand(2, 80)), y, NOBODY.expand(2, 0), 2, seeds)
    for member, seed in enumerate(seeds):
        s, t = scores[member].numpy(), y[member].numpy()
        folds = stratified_folds(t, numpy_rng(seed, "scoring/folds"))
        assert [found["success"][member]] == cross_fitted_auc_of_each([s], t, folds)
        end = -s if auc(s, t) < 0.5 else s
        assert found["at_1_percent_fpr"][member] == pytest.approx(success_at_one_percent(end, t))
    assert found["success"][0] > 0.65
    assert set(found) == {"success", "at_1_percent_fpr"}


def test_two_class_scores_say_a_label_of_each_row_too():
    y, scores = labels(70), drawn(70, 2)
    found = score_answer(Answer(scores, torch.arange(70)), y, NOBODY, 2, [3])
    margin, t = (scores[:, 1] - scores[:, 0]).numpy(), y.numpy()
    folds = stratified_folds(t, numpy_rng(3, "scoring/folds"))
    assert found["success"] == cross_fitted_auc_of_each([margin], t, folds)
    assert found["f1"] == [pytest.approx(f1(scores.numpy(), t))]
    assert found["top1"] == [pytest.approx((scores.argmax(-1).numpy() == t).mean())]
    tested = score_answer(Answer(scores, torch.arange(70), test=scores), y, 1 - y, 2, [3])
    area = auc(margin, 1 - t)
    assert tested["test"] == [pytest.approx(max(area, 1 - area))]
    sure = score_answer(Answer(scores, torch.arange(70), oriented=True, test=scores), y, 1 - y, 2, [3])
    assert sure["test"] == [pytest.approx(area)]


def test_rows_that_different_rules_scored_are_measured_fold_by_fold():
    y, scores, folds = labels(60), drawn(60), torch.arange(60) % 3
    answer = Answer(scores + 10 * folds, torch.arange(60), oriented=True, folds=folds)
    found = score_answer(answer, y, NOBODY, 2, [0])["success"]
    assert found == [auc_by_fold(scores.numpy(), y.numpy(), folds.numpy())]
    counted = torch.arange(60) >= 20
    kept = score_answer(Answer(answer.scores, answer.ids, True, counted, folds=folds), y, NOBODY, 2, [0])["success"]
    assert kept == [auc_by_fold(scores[20:].numpy(), y[20:].numpy(), folds[20:].numpy())]
    turned = score_answer(Answer(answer.scores, answer.ids, folds=folds), y, NOBODY, 2, [0])["success"]
    assert turned != found  # what no attacker could have turned is not measured by its own folds


def test_a_reconstruction_succeeds_by_the_share_of_the_variance_that_it_recovers():
    x, ids = drawn(2, 30, 4), torch.tensor([[3, 5, 8], [1, 2, 4]])
    true = torch.stack([x[0][ids[0]], x[1][ids[1]]])
    rows = true + drawn(2, 3, 4, seed=1) / 4
    found = score_reconstruction(Reconstruction(rows, ids, validation=torch.tensor([0.1, 0.2])), x)
    assert set(found) == {"success", "mse", "mse_mean", "validation"}
    assert found["validation"] == pytest.approx([0.1, 0.2])
    for member in range(2):
        error = (rows[member] - true[member]).square().mean().item()
        without = (x[member].mean(0) - true[member]).square().mean().item()
        assert found["mse"][member] == pytest.approx(error)
        assert found["mse_mean"][member] == pytest.approx(without)
        assert found["success"][member] == pytest.approx(1 - error / without)
    alone = score_reconstruction(Reconstruction(rows[1], ids[1]), x[1])
    assert alone["success"] == pytest.approx(found["success"][1:])


def test_a_reconstruction_worse_than_the_mean_is_negative_and_ends_at_minus_one():
    x, ids = drawn(30, 4), torch.arange(5)
    mean = x.mean(0).expand(5, 4)
    assert score_reconstruction(Reconstruction(mean, ids), x)["success"] == [pytest.approx(0)]
    away = mean + 1.2 * (mean - x[:5])  # 2.2 times as far away: an error of 4.84
    assert score_reconstruction(Reconstruction(away, ids), x)["success"] == [-1.0]
    near = mean + 0.2 * (mean - x[:5])
    assert score_reconstruction(Reconstruction(near, ids), x)["success"] == [pytest.approx(1 - 1.44)]
    flat = torch.ones(6, 4)
    assert math.isnan(score_reconstruction(Reconstruction(flat[:2] + 1, torch.arange(2)), flat)["success"][0])


def test_images_are_compared_as_images_too():
    x = torch.rand(12, 1, 13, 13, generator=torch.Generator().manual_seed(0))
    rows = (x[:4] + 0.1).clamp(0, 1)
    found = score_reconstruction(Reconstruction(rows, torch.arange(4)), x)
    assert found["psnr"] == [reconstruction.psnr(rows.numpy(), x[:4].numpy())]
    assert found["ssim"] == [reconstruction.ssim(rows.numpy(), x[:4].numpy())]


def test_the_best_constant_guess():
    assert guess_success(torch.tensor([[0, 1, 1, 1]]), 2) == 0.5
    y = torch.tensor([[0, 0, 1, 2], [2, 2, 2, 1]])
    assert guess_success(y, 3) == pytest.approx((0.5 + 0.75) / 2)
    assert guess_success(y[1], 3) == 0.75
    many = torch.cat([torch.arange(51), torch.tensor([7, 7, 3, 50])])
    assert guess_success(many, 51) == pytest.approx((3 + 2 + 2 + 1 + 1) / 55)
    assert guess_success(many[many < 50], 50) == pytest.approx(3 / 53)


def test_rows_of_a_batch_are_paired_with_the_true_ones_as_brings_the_least_error():
    x = torch.rand(12, 1, 3, 3, generator=torch.Generator().manual_seed(0))
    y = torch.arange(12) % 5
    ids, order = torch.tensor([7, 2, 9, 4, 11, 0]), torch.tensor([2, 0, 1, 4, 5, 3])
    rows, labels = (x[ids] + 0.05)[order], y[ids][order]
    answer = Reconstruction(rows, ids, batch=3, labels=labels)
    found, known = score_reconstruction(answer, x, y), score_reconstruction(Reconstruction(x[ids] + 0.05, ids), x)
    assert found["label_recovery"] == [1.0]
    assert {k: found[k] for k in known} == known
    apart = score_reconstruction(Reconstruction(rows, ids, labels=labels), x, y)
    assert apart["success"][0] < known["success"][0]
    assert apart["label_recovery"] == [pytest.approx(float((labels == y[ids]).float().mean()))]
    # Rows never leave their batch: those of one that stand in another are paired with nothing of their own.
    swapped = score_reconstruction(Reconstruction(rows.roll(3, 0), ids, batch=3), x)
    assert swapped["mse"][0] > found["mse"][0] + 0.01


def test_pairing_equals_trying_every_order_and_clamps_images_first():
    g = torch.Generator().manual_seed(1)
    true, said = torch.rand(4, 1, 2, 2, generator=g).numpy(), torch.randn(4, 1, 2, 2, generator=g).numpy() * 2
    clamped = said.clip(0, 1)
    best = min(itertools.permutations(range(4)), key=lambda p: ((clamped[list(p)] - true) ** 2).sum())
    assert paired(said, true, 4).tolist() == list(best)
    assert paired(said, true, 1).tolist() == [0, 1, 2, 3]
    rows, wanted = said.reshape(4, 4), true.reshape(4, 4)  # a table is compared as it is
    best = min(itertools.permutations(range(4)), key=lambda p: ((rows[list(p)] - wanted) ** 2).sum())
    assert paired(rows, wanted, 4).tolist() == list(best)
