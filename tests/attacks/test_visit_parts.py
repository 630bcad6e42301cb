"""Parts of EM over visits beside naive twins: folds, the model of the gradients, the gate, the evidence of epochs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tune_vfl.attacks.parts.folded_rows import FOLDS, FoldedRows
from tune_vfl.attacks.parts.soft_gate import STRENGTH, SoftGate
from tune_vfl.attacks.parts.visit_evidence import agreement, balanced, joined_evidence, shares_of
from tune_vfl.attacks.parts.visit_model import VisitModel, standardized


def folded(rows, classes, seed=1):
    g = torch.Generator().manual_seed(seed)
    shares = torch.rand(1, rows, classes, generator=g).softmax(-1)
    folds = FoldedRows(torch.randperm(rows, generator=g)[None])
    return folds, shares


def test_folding_keeps_every_row_and_its_order():
    folds, shares = folded(83, 3)
    dealt = folds.fold(shares)
    assert dealt.shape == (1, FOLDS, 3, 21)
    assert int(folds.mask.sum()) == 83
    torch.testing.assert_close(folds.unfold(dealt)[0].T, shares[0, folds.order[0]])


def test_a_models_evidence_is_that_of_least_squares_on_the_other_folds():
    """The naive twin fits each fold's model by one solve on the columns themselves."""
    rows, k, d = 402, 3, 4
    g = torch.Generator().manual_seed(3)
    folds, shares = folded(rows, k)
    sent, received = torch.randn(1, 1, rows, d, generator=g), torch.randn(1, 1, rows, d, generator=g)
    explained = torch.randn(1, rows, 2, generator=g)
    dealt = folds.fold(shares).unsqueeze(2)
    found = folds.unfold(VisitModel(received, sent, explained, folds).linear(dealt))[0, 0, 0]  # (K - 1, M)
    order = folds.order[0]
    phi = torch.cat([standardized(sent[0, 0]), standardized(explained[0])], -1)[order].double()
    gradient = received[0, 0] - received[0, 0].mean(0)
    gradient = (gradient / gradient.square().mean().sqrt())[order].double()
    soft = shares[0, order].double()
    for fold in range(FOLDS):
        mine = torch.arange(rows) % FOLDS == fold
        n = int((~mine).sum())
        z, r, x = phi[~mine], soft[~mine], gradient[~mine]
        expected = torch.cat([torch.cat([z.T @ z, z.T @ r], 1), torch.cat([r.T @ z, torch.diag(r.sum(0))], 1)])
        coefficients = torch.linalg.solve(expected + 1e-3 * n * torch.eye(len(expected)), torch.cat([z, r], 1).T @ x)
        slope, jump = coefficients[: z.shape[1]], coefficients[z.shape[1] :]
        plain = (x.T @ x - x.T @ z @ torch.linalg.solve(z.T @ z + 1e-3 * n * torch.eye(z.shape[1]), z.T @ x)) / n
        noise = 0.95 * plain + 0.05 * plain.trace() / d * torch.eye(d)
        beyond = r.T @ x - r.T @ z @ torch.linalg.solve(z.T @ z + 1e-3 * n * torch.eye(z.shape[1]), z.T @ x)
        noise = noise - beyond.T @ jump / n
        left = gradient[mine] - phi[mine] @ slope
        density = torch.stack([-((left - m) @ torch.linalg.inv(noise) * (left - m)).sum(-1) / 2 for m in jump])
        torch.testing.assert_close(found[:, mine].double(), density[1:] - density[0], atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("k", [2, 7])
def test_a_covariance_for_each_class_gives_the_densities_of_the_residuals_on_the_other_folds(k):
    """The naive twin takes the residuals row by row, by the least squares of each row's own fold."""
    rows, d = 402, 3
    g = torch.Generator().manual_seed(6)
    folds, shares = folded(rows, k)
    sent, explained = torch.randn(1, 2, rows, d, generator=g), torch.randn(1, rows, 2, generator=g)
    received = torch.randn(1, 2, rows, d, generator=g) * (1 + shares[0, :, :1])
    model = VisitModel(received, sent, explained, folds)
    found = folds.unfold(model.curved(folds.fold(shares).unsqueeze(2)))[0, 0]  # (E, K - 1, M)
    order, fold_of = folds.order[0], torch.arange(rows) % FOLDS
    soft = shares[0, order].double()
    for e in range(2):
        z = torch.cat([standardized(sent[0, e]), standardized(explained[0])], -1)[order].double()
        x = received[0, e] - received[0, e].mean(0)
        x = (x / x.square().mean().sqrt())[order].double()
        left = torch.zeros_like(x)
        for fold in range(FOLDS):
            out = fold_of != fold
            design = torch.cat([z, soft], 1)[out]
            gram = design.T @ design
            gram[-k:, -k:] = torch.diag(soft[out].sum(0))
            solved = torch.linalg.solve(gram + 1e-3 * int(out.sum()) * torch.eye(len(gram)), design.T @ x[out])
            left[~out] = x[~out] - z[~out] @ solved[:-k]
        for fold in range(FOLDS):
            out = fold_of != fold
            weights = soft[out] / soft[out].sum(0)
            means = weights.T @ left[out]
            apart = [left[out] - m for m in means]
            own = [(a * w[:, None]).T @ a for a, w in zip(apart, weights.T, strict=True)]
            common = sum(c * n for c, n in zip(own, soft[out].mean(0), strict=True))
            densities = []
            for mean, covariance in zip(means, own, strict=True):
                mixed = 0.8 * covariance + 0.2 * common
                mixed = 0.99 * mixed + 0.01 * mixed.trace() / d * torch.eye(d)
                normal = torch.distributions.MultivariateNormal(mean, mixed)
                densities.append(normal.log_prob(left[~out]))
            expected = torch.stack(densities[1:]) - densities[0]
            torch.testing.assert_close(found[e][:, ~out].double(), expected, atol=2e-3, rtol=2e-3)


def test_a_gate_is_the_logistic_regression_of_the_other_folds():
    rows, width = 403, 3
    g = torch.Generator().manual_seed(4)
    x = standardized(torch.randn(1, rows, width, generator=g))
    y = (x[0, :, 0] + 0.5 * torch.randn(rows, generator=g) > 0).long()
    folds = FoldedRows(torch.randperm(rows, generator=g)[None])
    shares = folds.fold(nn.functional.one_hot(y, 2).float()[None]).unsqueeze(2)
    gate = SoftGate(x, folds)
    for _ in range(30):
        said = gate.learn(shares)
    from sklearn.linear_model import LogisticRegression

    order, mine = folds.order[0], torch.arange(rows) % FOLDS == 1
    # Two opposite columns of coefficients have half of the penalty of their difference.
    plain = LogisticRegression(C=2 * STRENGTH).fit(x[0, order][~mine], y[order][~mine])
    expected = plain.predict_log_proba(x[0, order][mine])
    assert np.abs(folds.unfold(shares_of(said).log())[0, 0].T[mine].numpy() - expected).max() < 0.01


def test_shares_of_classes_come_out_as_they_are_known():
    odds = 1.5 * torch.randn(1, FOLDS, 2, 2, 50, generator=torch.Generator().manual_seed(0))
    folds = FoldedRows(torch.arange(FOLDS * 50)[None])
    prior = torch.tensor([0.7, 0.2, 0.1])
    shares = balanced(odds, prior.log()[None, None, None, :, None], folds.mask)
    torch.testing.assert_close(shares.mean((1, -1))[0, 0], prior, atol=5e-3, rtol=0)


def test_evidence_that_agrees_with_nothing_is_left_out():
    g = torch.Generator().manual_seed(0)
    folds = FoldedRows(torch.arange(FOLDS * 300)[None])
    y = torch.randint(2, (1, FOLDS, 1, 1, 300), generator=g).float()
    prior = torch.full((1, 1, 1, 2, 1), 0.5).log()
    gate = 4 * y - 2
    good = gate + 2**0.5 * torch.randn(y.shape, generator=g)
    bad = 3 * 2**0.5 * torch.randn(y.shape, generator=g)
    power, agreed = agreement(torch.cat([good, bad], 2), gate.expand(-1, -1, 2, -1, -1), prior, folds.mask)
    assert power.flatten()[0] > 0.5
    assert power.flatten()[1] <= 0.1
    assert agreed[0, 0] > 10 * agreed[0, 1].abs()


def test_epochs_that_repeat_each_other_count_once():
    g = torch.Generator().manual_seed(0)
    folds = FoldedRows(torch.arange(FOLDS * 500)[None])
    y = torch.randint(2, (1, FOLDS, 1, 1, 1, 500), generator=g).float()
    one = 2 * y - 1 + torch.randn(y.shape, generator=g)
    shares = torch.cat([1 - y, y], 4).squeeze(3)
    once, often = (joined_evidence(said, shares, folds.mask) for said in (one, one.expand(-1, -1, -1, 9, -1, -1)))
    assert often.std() < 1.3 * once.std()
