"""Batched L-BFGS: closed forms, each problem by itself, and what ends it."""

import torch

from tune_vfl.attacks.parts.lbfgs import minimize


def quadratics(many, width, seed=0):
    g = torch.Generator().manual_seed(seed)
    a = torch.randn(many, width, width, generator=g, dtype=torch.float64)
    a = a @ a.transpose(-1, -2) + 0.1 * torch.eye(width)
    b = torch.randn(many, width, generator=g, dtype=torch.float64)

    def objective(x, which):
        slope = (a[which] @ x.unsqueeze(-1)).squeeze(-1) - b[which]
        return (x * (slope - b[which])).sum(-1) / 2, slope

    return objective, torch.linalg.solve(a, b)


def rosenbrock(x, which):
    v = x.detach().requires_grad_()
    value = 100 * (v[:, 1] - v[:, 0] ** 2) ** 2 + (1 - v[:, 0]) ** 2
    (slope,) = torch.autograd.grad(value.sum(), v)
    return value.detach(), slope


def test_quadratics_end_where_their_equations_say():
    objective, solution = quadratics(5, 12)
    found, value = minimize(objective, torch.zeros(5, 12, dtype=torch.float64), iterations=80)
    torch.testing.assert_close(found, solution, atol=1e-6, rtol=0)
    torch.testing.assert_close(value, objective(solution, torch.arange(5))[0])


def test_curved_valleys_are_followed_from_anywhere():
    starts = torch.tensor([[-1.2, 1.0], [0.0, 0.0], [3.0, -2.0], [1.0, 1.0]], dtype=torch.float64)
    found, value = minimize(rosenbrock, starts, iterations=200)
    torch.testing.assert_close(found, torch.ones_like(found), atol=1e-5, rtol=0)
    assert value.max() < 1e-10
    assert value[-1] == 0.0  # it began at the end


def test_problems_go_their_own_way():
    objective, _ = quadratics(4, 7)
    start = torch.randn(4, 7, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    together, _ = minimize(objective, start, iterations=6)
    for i in range(4):
        alone, _ = minimize(lambda x, which, i=i: objective(x, which + i), start[i : i + 1], iterations=6)
        torch.testing.assert_close(alone[0], together[i], atol=1e-10, rtol=0)


def test_a_problem_is_asked_for_no_more_once_it_is_good_enough_or_stuck():
    asked = []

    def objective(x, which):
        asked.append(which.tolist())
        value, slope = rosenbrock(x, which)
        # The second problem is flat but says that it is not: no step brings it lower.
        return torch.where(which == 1, 1.0, value), torch.where((which == 1).unsqueeze(-1), 1.0, slope)

    start = torch.tensor([[1.0, 1.0 + 1e-9], [0.5, 0.5], [-1.2, 1.0]], dtype=torch.float64)
    found, value = minimize(objective, start, iterations=100, enough=1e-12)
    assert asked[0] == [0, 1, 2]
    assert all(0 not in which for which in asked[1:])
    assert torch.equal(found[1], start[1])
    assert asked[-1] == [2]
    assert value[2] < 1e-10


def test_a_value_that_is_not_finite_is_where_a_search_never_ends():
    def objective(x, which):
        beyond = x.abs().max(-1).values > 2
        value = torch.where(beyond, torch.nan, (x - 1.9).square().sum(-1))
        return value, 2 * (x - 1.9)

    found, value = minimize(objective, torch.full((1, 3), -1.9), iterations=50)
    torch.testing.assert_close(found, torch.full((1, 3), 1.9), atol=1e-4, rtol=0)
    lost, value = minimize(objective, torch.full((1, 3), 5.0), iterations=5)
    assert torch.equal(lost, torch.full((1, 3), 5.0))
    assert value.isnan().all()
