"""The parts of a seed's variance, of numbers whose parts are known."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.noise_tables import PARTS, components, with_draws

TRUE = np.array([0.5, 2.0, 0.25, 1.0, 4.0])


def made_up(rng: np.random.Generator, parts: np.ndarray, shape: tuple[int, int, int, int]) -> np.ndarray:
    s, t, a, b = shape
    sizes = ((s, 1, 1, 1), (s, t, 1, 1), (s, 1, a, 1), (s, t, a, 1), (s, t, a, b))
    return sum(np.sqrt(v) * rng.normal(size=size) for v, size in zip(parts, sizes, strict=True)) + np.zeros(shape)


def test_each_part_is_found_without_bias() -> None:
    rng = np.random.default_rng(0)
    found = [components(made_up(rng, TRUE, (6, 3, 3, 2))) for _ in range(3000)]
    error = np.std(found, axis=0) / np.sqrt(len(found))
    assert (np.abs(np.mean(found, axis=0) - TRUE) < 4 * error).all()
    assert (error < 0.1).all()


@pytest.mark.parametrize("part", range(len(PARTS)))
def test_what_varies_by_one_factor_alone_is_that_factor_s(part: int) -> None:
    alone = np.where(np.arange(len(PARTS)) == part, 1.0, 0.0)
    found = components(made_up(np.random.default_rng(part), alone, (200, 8, 8, 8)))
    np.testing.assert_allclose(found, alone, atol=0.25)
    assert found.argmax() == part


def test_draws_divide_what_is_drawn_on_a_training_and_nothing_else() -> None:
    assert with_draws(TRUE, 1) == pytest.approx(TRUE.sum())
    assert with_draws(TRUE, 4) == pytest.approx(2.5 + 5.25 / 4)
