"""Marvell: published solutions, a brute-force twin, the budget, what leaks at d = 1, and batches that lack a class."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tune_vfl.defenses.marvell import Marvell, MarvellParams, class_statistics
from tune_vfl.defenses.parts.marvell_solver import solve


def solution(u, v, d, gap, p, budget):
    """(l10, l20, l11, l21, sum_kl) of one problem."""
    numbers = {"u": u, "v": v, "gap": gap, "p": p, "budget": budget}
    found = solve(d=d, **{name: np.array([float(value)]) for name, value in numbers.items()})
    return [float(x[0]) for x in (found.along0, found.across0, found.along1, found.across1, found.sum_kl)]


def divergence(u, v, d, gap, noise):
    """Symmetric Kullback-Leibler divergence of N(0, diag) and N(sqrt(G) e1, diag), from its definition."""
    l10, l20, l11, l21 = noise
    a, b = l10 + u, l11 + v
    c, e = l20 + u, l21 + v
    along = (a / b + b / a) / 2 - 1 + gap * (1 / a + 1 / b) / 2
    return along + (d - 1) * ((c / e + e / c) / 2 - 1)


GOLDEN = [
    ((0.2, 0.5, 4, 1.69, 0.3, 1.69), (1.27140, 0.20994, 1.19714, 0, 1.141736)),
    ((0.5, 0.2, 4, 1.69, 0.3, 1.69), (1.28740, 0, 1.82671, 0.26756, 0.904341)),
    ((0.05, 0.08, 16, 0.25, 0.1, 1), (0.62651, 0.02723, 0.68583, 0, 0.365031)),
    ((0.2, 0.5, 1, 1.69, 0.3, 1.69), (1.70692, 0, 1.65052, 0, 0.843286)),
    ((0, 0, 4, 1, 0.25, 1), (0.95620, 0, 1.13139, 0, 0.979020)),
]


@pytest.mark.parametrize(("problem", "expected"), GOLDEN)
def test_published_solutions(problem, expected):
    assert solution(*problem) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("variance", "d", "p", "budget"), [(0.3, 4, 0.3, 1.69), (0.05, 1, 0.1, 0.5), (1.0, 16, 0.8, 4)]
)
def test_equal_variances_equal_brute_force_on_a_grid(variance, d, p, budget):
    l10, l20, l11, l21, leak = solution(variance, variance, d, 1.69, p, budget)
    grid = np.linspace(0, budget / (1 - p), 200_001)
    leaks = divergence(variance, variance, d, 1.69, (grid, 0, (budget - (1 - p) * grid) / p, 0))
    best = leaks.argmin()
    assert (l20, l21) == (0, 0)
    assert (l10, l11) == pytest.approx((grid[best], (budget - (1 - p) * grid[best]) / p), abs=1e-4)
    assert leak == pytest.approx(leaks[best], abs=1e-9)


def test_the_divergence_formula():
    assert divergence(0.2, 0.5, 4, 1.69, (0.7, 0.1, 0.4, 0.05)) == pytest.approx(2.445959, abs=1e-6)


problems = st.tuples(
    st.floats(0.001, 2), st.floats(0.001, 2), st.sampled_from([1, 2, 8, 40]), st.floats(0.01, 10), st.floats(0.02, 0.98)
)


@given(problem=problems, strength=st.floats(0.01, 25), seed=st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_no_random_noise_of_the_same_budget_leaks_less(problem, strength, seed):
    u, v, d, gap, p = problem
    budget = strength * gap
    *noise, leak = solution(u, v, d, gap, p, budget)
    assert leak == pytest.approx(divergence(u, v, d, gap, noise), rel=1e-6, abs=1e-9)
    rng = np.random.default_rng(seed)
    # Any split of the budget: between classes, then between directions, orthogonal noise never above the one along.
    to_positives = rng.random(20_000) ** rng.choice([0.3, 1, 3])
    l21, l20 = (rng.random((2, 20_000)) ** 3) / d
    l11 = (to_positives * budget / p) * (1 - (d - 1) * l21)
    l10 = ((1 - to_positives) * budget / (1 - p)) * (1 - (d - 1) * l20)
    l21, l20 = to_positives * budget / p * l21, (1 - to_positives) * budget / (1 - p) * l20
    np.testing.assert_allclose(p * (l11 + (d - 1) * l21) + (1 - p) * (l10 + (d - 1) * l20), budget, rtol=1e-9)
    assert divergence(u, v, d, gap, (l10, l20, l11, l21)).min() >= leak * (1 - 1e-6) - 1e-9


@given(problem=problems, strength=st.floats(0.01, 25))
@settings(max_examples=60, deadline=None)
def test_the_budget_is_spent_exactly_and_more_of_it_leaks_less(problem, strength):
    u, v, d, gap, p = problem
    l10, l20, l11, l21, leak = solution(u, v, d, gap, p, strength * gap)
    assert p * (l11 + (d - 1) * l21) + (1 - p) * (l10 + (d - 1) * l20) == pytest.approx(strength * gap, rel=1e-9)
    assert l11 >= l21 >= 0
    assert l10 >= l20 >= 0
    assert min(l20, l21) == 0
    assert solution(u, v, d, gap, p, 1.5 * strength * gap)[4] <= leak * (1 + 1e-9)


def test_members_are_solved_as_if_alone_and_units_do_not_matter():
    columns = list(zip(*(problem for problem, _ in GOLDEN[:2] + GOLDEN[4:]), strict=True))
    u, v, _, gap, p, budget = (np.array(c, dtype=float) for c in columns)
    together = solve(u=u, v=v, gap=gap, p=p, budget=budget, d=4)
    for member, (problem, _) in enumerate(GOLDEN[:2] + GOLDEN[4:]):
        alone = solution(*problem)
        assert [
            float(x[member]) for x in (together.along0, together.across0, together.along1, together.across1)
        ] == alone[:4]
    small = solve(u=u * 1e-12, v=v * 1e-12, gap=gap * 1e-12, p=p, budget=budget * 1e-12, d=4)
    np.testing.assert_allclose(small.along1, together.along1 * 1e-12, rtol=1e-6)
    np.testing.assert_allclose(small.sum_kl, together.sum_kl, rtol=1e-6)


def batch(rows=200, d=8, share=0.3, seed=0, spread=(0.2, 0.4)):
    g = torch.Generator().manual_seed(seed)
    y = (torch.rand(rows, generator=g) < share).long()
    shift = torch.randn(d, generator=g)
    noise = torch.randn(rows, d, generator=g) * torch.tensor(spread)[y].unsqueeze(-1)
    return (y.unsqueeze(-1) * shift + noise) * 1e-3, y


def marvell(budget=1.0, d=8, seed=0):
    defense = Marvell(MarvellParams(budget=budget), num_classes=2, embedding_dims=[d])
    defense.setup(torch.tensor([0, 1]), torch.tensor([0, 1]), seed=seed)
    return defense


def test_statistics_are_the_naive_ones():
    grad, y = batch()
    found = class_statistics(grad, y)
    ones, zeros = grad[y == 1].double(), grad[y == 0].double()
    np.testing.assert_allclose(found.difference[0], (ones.mean(0) - zeros.mean(0)).numpy(), rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(
        found.variances[:, 0], [(c - c.mean(0)).square().mean() for c in (zeros, ones)], rtol=1e-4
    )
    assert found.gap[0] == pytest.approx(float((ones.mean(0) - zeros.mean(0)).square().sum()), rel=1e-4)
    assert found.share[0] == pytest.approx(float(y.double().mean()))


def test_the_noise_has_the_solved_covariance_and_no_mean():
    grad, y = batch(spread=(0.2, 0.5))
    defense = marvell(budget=2.0)
    sent = torch.stack([defense.cut_gradient(grad, y=y) for _ in range(2000)]) - grad
    stats = class_statistics(grad, y)
    unit = torch.from_numpy(stats.difference[0] / math.sqrt(stats.gap[0])).float()
    u, v = stats.variances[:, 0]
    l10, l20, l11, l21, _ = solution(u, v, 8, stats.gap[0], stats.share[0], 2.0 * stats.gap[0])
    along = sent @ unit
    across = (sent - along.unsqueeze(-1) * unit).square().sum(-1) / 7
    # At least 2000 * 50 draws a class: a relative standard error of a variance below 0.5%.
    for c, (wanted_along, wanted_across) in enumerate([(l10, l20), (l11, l21)]):
        assert along[:, y == c].square().mean().item() == pytest.approx(wanted_along, rel=0.03)
        assert across[:, y == c].mean().item() == pytest.approx(wanted_across, rel=0.03, abs=1e-12)
    # The budget, and the class means, which stay: five standard errors of a mean over 2000 draws of a class's rows.
    spent = sent.square().sum(-1).mean().item()
    assert spent == pytest.approx(2.0 * stats.gap[0], rel=0.03)
    drift = along[:, y == 1].mean() - along[:, y == 0].mean()
    assert abs(drift.item()) < 5 * math.sqrt(l11 / (2000 * int(y.sum())) + l10 / (2000 * int((1 - y).sum())))


@pytest.mark.parametrize(("budget", "leak"), [(0.25, 0.841), (1, 0.691), (4, 0.599), (25, 0.540)])
def test_mean_attack_on_one_dimension(budget, leak):
    # Well-separated classes: the nearest-mean rule is right with probability Phi(1 / (2 sqrt(s))).
    assert pytest.approx(leak, abs=5e-4) == 0.5 * (1 + math.erf(1 / (2 * math.sqrt(2 * budget))))
    g = torch.Generator().manual_seed(1)
    y = torch.arange(100_000) % 2
    grad = (y.unsqueeze(-1) * 2.0 - 1 + 0.01 * torch.randn(100_000, 1, generator=g)) * 1e-3
    sent = marvell(budget, d=1).cut_gradient(grad, y=y)
    guess = ((sent - 1e-3).abs() < (sent + 1e-3).abs()).squeeze(-1).long()
    # 100,000 rows leave a standard error of 0.0016.
    assert (guess == y).double().mean().item() == pytest.approx(leak, abs=0.008)


def test_more_budget_disturbs_more_with_the_same_draws():
    grad, y = batch()
    shifts = [(marvell(s).cut_gradient(grad, y=y) - grad).square().sum().item() for s in (0.1, 1, 10)]
    assert shifts == sorted(shifts)
    assert shifts[2] > 10 * shifts[0]


def test_the_remaining_divergence_is_logged():
    grad, y = batch()
    defense = marvell()
    assert defense.logged() == {}
    defense.cut_gradient(grad, y=y)
    stats = class_statistics(grad, y)
    u, v = stats.variances[:, 0]
    expected = solution(u, v, 8, stats.gap[0], stats.share[0], stats.gap[0])[4]
    assert defense.logged()["sum_kl"][0] == pytest.approx(expected, rel=1e-6)


def test_the_divergence_is_a_mean_over_the_batches_with_both_classes_once_each_member_had_one():
    (first, y), (second, _) = batch(), batch(spread=(0.2, 0.5))
    pack = Marvell([MarvellParams()] * 2, num_classes=2, embedding_dims=[8])
    pack.setup(y.expand(2, -1), torch.arange(200).expand(2, 200), seed=[0, 0])
    pack.cut_gradient(torch.stack([first, first]), y=torch.stack([y, torch.ones_like(y)]))
    assert pack.logged() == {}
    pack.cut_gradient(torch.stack([second, second]), y=y.expand(2, -1))
    left = []
    for grad in (first, second):
        stats = class_statistics(grad, y)
        left.append(solution(*stats.variances[:, 0], 8, stats.gap[0], stats.share[0], stats.gap[0])[4])
    assert left[0] != pytest.approx(left[1])
    assert pack.logged()["sum_kl"] == pytest.approx([np.mean(left), left[1]], rel=1e-6)


def test_each_party_keeps_its_own_last_noise_and_draws():
    grad, y = batch()
    defense = Marvell(MarvellParams(), num_classes=2, embedding_dims=[8, 8])
    defense.setup(y, torch.arange(200), seed=0)
    one, other = (defense.cut_gradient(grad, y=y, party=k) - grad for k in (0, 1))
    assert abs(np.corrcoef(one.flatten(), other.flatten())[0, 1]) < 0.1
    torch.testing.assert_close(marvell().cut_gradient(grad, y=y) - grad, one)
    defense.cut_gradient(3 * grad, y=y, party=1)
    only = torch.ones_like(y)
    lengths = [(defense.cut_gradient(grad, y=only, party=k) - grad).square().mean().sqrt().item() for k in (0, 1)]
    assert lengths[1] / lengths[0] == pytest.approx(3, rel=0.1)


def test_a_batch_that_lacks_a_class_takes_the_noise_of_the_last_one_that_had_both():
    grad, y = batch()
    defense = marvell(budget=3.0)
    defense.cut_gradient(grad, y=y)
    only = torch.ones_like(y)
    noise = torch.stack([defense.cut_gradient(grad, y=only) - grad for _ in range(500)])
    stats = class_statistics(grad, y)
    u, v = stats.variances[:, 0]
    _, _, l11, l21, _ = solution(u, v, 8, stats.gap[0], stats.share[0], 3.0 * stats.gap[0])
    # 500 * 200 rows: a relative standard error below 0.5%.
    assert noise.square().sum(-1).mean().item() == pytest.approx(l11 + 7 * l21, rel=0.03)


def test_before_that_it_gets_noise_of_all_directions():
    grad, y = batch(rows=500)
    sent = torch.stack([marvell(budget=4.0, seed=s).cut_gradient(grad, y=torch.zeros_like(y)) for s in range(50)])
    longest = grad.norm(dim=-1).max().item()
    # sqrt(s) * max ||g|| / sqrt(d) a coordinate; 25,000 draws a coordinate leave 0.9% of a variance.
    per_coordinate = (sent - grad).square().mean((0, 1))
    torch.testing.assert_close(per_coordinate, torch.full((8,), 4 * longest**2 / 8), rtol=0.05, atol=0)


def test_members_fall_back_one_by_one():
    grad, y = batch()
    both, one, none = y, torch.ones_like(y), y
    stacked_y = torch.stack([both, one, none])
    stacked = torch.stack([grad, grad, torch.zeros_like(grad)])
    pack = Marvell([MarvellParams()] * 3, num_classes=2, embedding_dims=[8])
    pack.setup(stacked_y, torch.arange(200).expand(3, 200), seed=[0, 0, 0])
    sent = pack.cut_gradient(stacked, y=stacked_y)
    for member in range(3):
        alone = marvell().cut_gradient(stacked[member], y=stacked_y[member])
        torch.testing.assert_close(sent[member], alone, rtol=0, atol=1e-9)
    assert torch.equal(sent[2], stacked[2])  # class means that coincide need no noise
