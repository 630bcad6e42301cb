"""Laplace, gradient compression and max-norm: closed forms and naive twins."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tune_vfl.defenses.gradient_compression import GradientCompression, GradientCompressionParams
from tune_vfl.defenses.laplace import Laplace, LaplaceParams
from tune_vfl.defenses.max_norm import MaxNorm
from tune_vfl.spec import Strict

CLASSES = 10


def made(cls, params, d=CLASSES, classes=CLASSES):
    return cls(params, num_classes=classes, embedding_dims=[d])


@given(low=st.floats(1e-5, 1e-1), factor=st.floats(1.1, 100))
@settings(max_examples=25, deadline=None)
def test_laplace_noise_is_its_scale_times_the_same_draws(low, factor):
    grad = torch.zeros(8, 4, dtype=torch.float64)
    weak, strong = (
        made(Laplace, LaplaceParams(scale=s)).cut_gradient(grad, y=torch.zeros(8, dtype=torch.int64))
        for s in (low, low * factor)
    )
    torch.testing.assert_close(strong, weak * factor, rtol=1e-5, atol=0)
    assert (strong.abs() >= weak.abs()).all()


def test_laplace_noise_has_the_moments_of_its_law():
    sent = made(Laplace, LaplaceParams(scale=0.5)).cut_gradient(torch.zeros(100_000, 4), y=torch.zeros(100_000))
    # Mean |n| = b and variance 2 b^2; 400,000 draws leave a relative standard error of 0.16% and 0.35%.
    assert sent.abs().mean().item() == pytest.approx(0.5, rel=0.01)
    assert sent.var().item() == pytest.approx(0.5, rel=0.02)


@given(
    keep=st.floats(0.001, 1, exclude_max=True),
    rows=st.integers(1, 40),
    d=st.integers(1, 12),
    seed=st.integers(0, 1000),
    ties=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_compression_is_what_a_full_sort_gives(keep, rows, d, seed, ties):
    grad = torch.randn(rows, d, generator=torch.Generator().manual_seed(seed))
    grad = (grad * 2).round() if ties else grad
    sent = made(GradientCompression, GradientCompressionParams(keep=keep)).cut_gradient(grad, y=torch.zeros(rows))
    count = math.floor(keep * (rows * d))  # 0.29 * 10 * 10 would be below 29
    descending = sorted(grad.abs().flatten().tolist(), reverse=True)
    threshold = descending[count - 1] if count else math.inf
    naive = torch.tensor([[g if abs(g) > threshold else 0.0 for g in row] for row in grad.tolist()])
    assert torch.equal(sent, naive)
    if not ties:
        assert int((sent != 0).sum()) == max(count - 1, 0)


def test_compression_keeps_everything_only_at_one():
    grad = torch.ones(4, 4)
    assert torch.equal(made(GradientCompression, GradientCompressionParams(keep=1)).cut_gradient(grad, y=grad[0]), grad)
    almost = made(GradientCompression, GradientCompressionParams(keep=0.99)).cut_gradient(grad, y=grad[0])
    assert not almost.any()  # all tie with the threshold


def test_max_norm_gives_every_row_the_largest_norm_on_average():
    lengths = torch.tensor([[0.1], [0.3], [1], [2], [3], [1]])
    grad = torch.randn(6, 5, generator=torch.Generator().manual_seed(3)) * lengths
    copies = 40_000
    sent = made(MaxNorm, Strict(), d=5).cut_gradient(grad.repeat(copies, 1), y=torch.zeros(6 * copies))
    norms = sent.view(copies, 6, 5).square().sum(-1).mean(0)
    # E (1 + n s)^2 = 1 + s^2; its standard deviation is at most 1.5 times its mean, so 40,000 draws leave 0.75%.
    torch.testing.assert_close(norms, grad.square().sum(-1).max().expand(6), rtol=0.02, atol=0)


def test_max_norm_stays_on_the_line_of_each_row_and_leaves_the_longest_and_zero_rows():
    grad = torch.randn(20, 5, generator=torch.Generator().manual_seed(0))
    grad[3], grad[7] = 0, grad[7] * 50
    sent = made(MaxNorm, Strict(), d=5).cut_gradient(grad, y=torch.zeros(20))
    cosine = torch.nn.functional.cosine_similarity(sent, grad).abs()
    assert torch.equal(sent[3], torch.zeros(5))
    torch.testing.assert_close(sent[7], grad[7])
    torch.testing.assert_close(cosine[[i for i in range(20) if i != 3]], torch.ones(19))


def test_laplace_clipping_scales_the_whole_batch_to_its_longest_row():
    def sent(grad, **params):
        return made(Laplace, LaplaceParams(**params), d=2).cut_gradient(grad, y=torch.zeros(len(grad)))

    grad = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    torch.testing.assert_close(sent(grad, scale=0, clip=1), grad / 5)
    assert torch.equal(sent(grad, scale=0, clip=6), grad)
    assert not sent(torch.zeros(3, 2), scale=0, clip=1).any()
    noise = sent(torch.zeros(3, 2), scale=0.1)
    torch.testing.assert_close(sent(grad, scale=0.1, clip=1), grad / 5 + noise)  # the noise is not scaled
    members = [LaplaceParams(scale=0, clip=c) for c in (1, 2)]
    pack = made(Laplace, members, d=2).cut_gradient(grad.expand(2, 3, 2), y=torch.zeros(2, 3))
    torch.testing.assert_close(pack, torch.stack([grad / 5, grad / 2.5]))
