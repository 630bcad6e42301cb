"""The budget of Gaussian noise: published accountants, the tails themselves in many digits, limits."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from tune_vfl.statistics.privacy import composed, delta_of, epsilon_of


@pytest.mark.parametrize(
    ("noise", "releases", "delta", "by_distributions", "by_renyi"),
    [
        # dp-accounting 0.6.0, its PLDAccountant (intervals of 1e-4, pessimistic) and its RdpAccountant.
        (1.0, 1, 1e-5, 4.37717810, 4.728507),
        (0.5, 1, 1e-6, 10.99715122, 11.688627),
        (10.0, 50, 1e-5, 2.94322525, 3.188992),
        (100.0, 10, 1e-5, 0.09697920, 0.108605),
        (30.0, 2, 1e-5, 0.15007626, 0.172867),
    ],
)
def test_it_is_what_accountants_find(noise, releases, delta, by_distributions, by_renyi):
    found = epsilon_of(composed(releases, sensitivity=2.0, sigma=2.0 * noise), delta)
    assert found == pytest.approx(by_distributions, abs=2e-7)
    assert found < by_renyi


def by_integral(epsilon, mu):
    """Delta as it is defined: the mass of N(mu, 1) above e^eps times that of N(0, 1)."""

    def more(x):
        return (math.exp(-((x - mu) ** 2) / 2) - math.exp(epsilon - x * x / 2)) / math.sqrt(2 * math.pi)

    return quad(more, epsilon / mu + mu / 2, mu + 40, epsabs=0, epsrel=1e-12, limit=200)[0]


@pytest.mark.parametrize(("epsilon", "mu"), [(0.0, 0.3), (1.0, 0.7), (4.0, 1.0), (10.0, 2.0), (3.0, 5.0), (0.01, 0.01)])
def test_delta_is_the_mass_that_a_budget_leaves_out(epsilon, mu):
    assert delta_of(epsilon, mu) == pytest.approx(by_integral(epsilon, mu), rel=1e-9)


@given(mu=st.floats(1e-3, 1e6), delta=st.floats(1e-12, 0.3))
def test_a_budget_keeps_its_delta_and_a_smaller_one_does_not(mu, delta):
    epsilon = epsilon_of(mu, delta)
    if epsilon == 0:
        assert delta_of(0.0, mu) <= delta
    else:
        assert delta_of(epsilon, mu) == pytest.approx(delta, rel=1e-3)


@given(mu=st.floats(1e-3, 1e5), factor=st.floats(1.01, 10))
def test_less_noise_and_more_rounds_cost_more(mu, factor):
    assert epsilon_of(mu * factor) >= epsilon_of(mu)
    assert epsilon_of(mu, 1e-4) <= epsilon_of(mu, 1e-5)


def test_limits():
    assert epsilon_of(0.0) == epsilon_of(1e-7) == 0
    assert epsilon_of(math.inf) == composed(1, sensitivity=1, sigma=0) == math.inf
    assert composed(0, sensitivity=1, sigma=0) == 0
    assert composed(9, sensitivity=2, sigma=3) == pytest.approx(2)
    # Far out epsilon is mu^2/2 and the quantile of delta times mu, less what the second tail is in the first one: 1.
    assert epsilon_of(1e4) == pytest.approx(1e8 / 2 + 4.264890794 * 1e4 - 1, abs=0.01)
