"""SGSub and FLSG: their random numbers by the book, and how candidates are chosen."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import one_hot

from tune_vfl.defenses.parts.mahalanobis import lengths, lengths_on_device, whitening, whitening_on_device
from tune_vfl.defenses.parts.substitution import Rule, stable_order, substitute
from tune_vfl.defenses.sgsub import Sgsub, SgsubParams
from tune_vfl.seeds import Stream, sorted_normals
from tune_vfl.testing.gradients import softmax_gradient

CLASSES = 10


def made(cls, params):
    return cls(params, num_classes=CLASSES, embedding_dims=[CLASSES])


def gradients(batches, seed=0):
    g = torch.Generator().manual_seed(seed)
    logits = torch.randn(batches, 32, CLASSES, generator=g) * 0.05
    y = torch.randint(0, CLASSES, (batches, 32), generator=g)
    return softmax_gradient(logits, one_hot(y, CLASSES).float()), y


def naive_distance(u, v, shape, w_cos, w_mahalanobis):
    """The distance of two flat vectors, by the book, in float64."""
    rows = v.reshape(shape)
    covariance = np.cov(rows.T, bias=True).reshape(shape[1], shape[1])
    inverse = np.linalg.inv(covariance + 1e-3 * np.trace(covariance) / shape[1] * np.eye(shape[1]))
    apart = (u - v).reshape(shape)
    mahalanobis = np.mean([np.sqrt(row @ inverse @ row) for row in apart]) / np.sqrt(shape[1])
    cosine = u @ v / np.linalg.norm(u) / np.linalg.norm(v)
    return w_cos * (1 - cosine) + w_mahalanobis * mahalanobis


def naive(grad, seed, name, params):
    """Draw, put in order, judge, one candidate after the other."""
    v, best, nearest = grad.double().flatten().numpy(), None, np.inf
    stream = Stream(seed, name)
    rank = np.empty(len(v), dtype=int)
    rank[np.argsort(v, kind="stable")] = np.arange(len(v))
    for _ in range(params.max_tries):
        normals = np.sort(stream.sorted_normal(1, len(v))[0].double().numpy())
        u = np.clip(v.mean() + v.std() * normals, v.min(), v.max())[rank]
        distance = naive_distance(u, v, tuple(grad.shape), params.w_cos, params.w_mahalanobis)
        if distance < nearest:
            best, nearest = u, distance
        if distance <= params.tau:
            return u, True
    return best, False


@given(
    tau=st.floats(0.1, 2),
    w_cos=st.floats(0, 1),
    w_mahalanobis=st.floats(0, 1),
    max_tries=st.integers(1, 9),
    rows=st.integers(8, 40),
    d=st.integers(1, 5),
    seed=st.integers(0, 500),
)
@settings(max_examples=40, deadline=None)
def test_what_is_sent_is_what_the_naive_loop_sends(tau, w_cos, w_mahalanobis, max_tries, rows, d, seed):
    grad = torch.randn(rows, d, generator=torch.Generator().manual_seed(seed)) * 1e-3
    params = SgsubParams(tau=tau, w_cos=w_cos, w_mahalanobis=w_mahalanobis, max_tries=max_tries)
    defense = made(Sgsub, params)
    defense.setup(torch.zeros(rows), torch.arange(rows), seed=seed)
    sent = defense.cut_gradient(grad, y=torch.zeros(rows))
    expected, accepted = naive(grad, seed, "cut/0/0", params)
    torch.testing.assert_close(sent.double().flatten(), torch.tensor(expected), rtol=1e-3, atol=1e-7)
    assert defense.logged()["accepted"] == [float(accepted)]


@given(rows=st.integers(1, 4), n=st.integers(1, 80), seed=st.integers(0, 500), ties=st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_radix_order_is_the_stable_one(rows, n, seed, ties):
    values = torch.randn(rows, n, generator=torch.Generator().manual_seed(seed)) * 1e-3
    values = (values * 1e3).round() if ties else values  # rounding makes both zeros, which are equal
    assert torch.equal(stable_order(values), values.argsort(dim=-1, stable=True))


@given(d=st.integers(1, 40), rows=st.integers(2, 60), seed=st.integers(0, 500))
@settings(max_examples=40, deadline=None)
def test_distances_are_those_under_the_ridged_covariance_on_any_device(d, rows, seed):
    g = torch.Generator().manual_seed(seed)
    values, apart = (torch.randn(2, rows, d, generator=g, dtype=torch.float64) for _ in range(2))
    expected = torch.empty(2, rows)
    for member in range(2):
        covariance = np.cov(values[member].numpy(), rowvar=False, bias=True).reshape(d, d)
        inverse = np.linalg.inv(covariance + (1e-3 * covariance.trace() / d + 1e-12) * np.eye(d))
        expected[member] = torch.from_numpy(np.sqrt(np.einsum("md,de,me->m", apart[member], inverse, apart[member])))
    centered = values - values.mean(-2, keepdim=True)
    on_device = lengths_on_device(whitening_on_device(centered), apart)
    on_host = lengths(whitening(values), apart.clone())
    for found in (on_device, on_host):
        torch.testing.assert_close(found, expected.double(), rtol=1e-5, atol=1e-8)


def test_normals_made_sorted_have_the_law_of_sorted_normals():
    made_sorted = sorted_normals(torch.rand(4000, 21, generator=torch.Generator().manual_seed(0)))
    drawn = torch.randn(4000, 20, generator=torch.Generator().manual_seed(1)).sort(-1).values
    assert (made_sorted.diff(dim=-1) >= 0).all()
    # Order statistics of 20 have deviations below 0.53: two means of 4,000 differ by 0.012 standard errors at most.
    torch.testing.assert_close(made_sorted.mean(0), drawn.mean(0), rtol=0, atol=0.05)
    torch.testing.assert_close(made_sorted.std(0), drawn.std(0), rtol=0.08, atol=0)
    ends = sorted_normals(torch.tensor([[0.0, 0.0, 0.5], [0.5, 1 - 2**-24, 0.0]]))
    assert torch.isfinite(ends).all()


def test_the_first_near_candidate_is_taken_and_else_the_nearest():
    grad, _ = gradients(1)
    one = torch.ones(1)

    def sent(tau, tries):
        return substitute(grad[0], Stream(0, "x"), Rule(one * tau, one, None, [tries]))

    def far(u):
        return 1 - torch.cosine_similarity(u.flatten(), grad.flatten(), dim=0).item()

    first, accepted = sent(2.0, 50)
    assert accepted.all()
    assert torch.equal(first, sent(0.0, 1)[0])
    nearest, accepted = sent(0.0, 50)
    assert not accepted.any()
    assert far(nearest) < far(first)


def test_mixed_tries_leave_the_other_members_alone():
    grad, y = gradients(1)
    params = [SgsubParams(max_tries=n, tau=0.0) for n in (1, 9, 30)]
    together = made(Sgsub, params)
    together.setup(y.expand(3, 32), torch.arange(32).expand(3, 32), seed=[0, 0, 1])
    steps = [together.cut_gradient(grad.expand(3, 32, CLASSES), y=y) for _ in range(3)]
    for member, seed in enumerate((0, 0, 1)):
        alone = made(Sgsub, params[member])
        alone.setup(y[0], torch.arange(32), seed=seed)
        for step in steps:
            torch.testing.assert_close(step[member], alone.cut_gradient(grad[0], y=y[0]), rtol=0, atol=1e-7)
