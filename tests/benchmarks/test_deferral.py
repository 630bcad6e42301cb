"""Which settings could do without an attack: dominated by one that met it, and told apart from it by the seeds."""

import numpy as np
import pytest

from benchmarks.deferral import Block, blocks_of, moved, put_off

SPREAD = np.array([-0.001, 0.0, 0.001])


def block(utilities, cheap, dear):
    """Settings with these means, of which seeds say a thousandth more or less."""
    gains = np.asarray([cheap, dear])[..., None] + 10 * SPREAD * np.asarray([1, -1])[:, None, None]
    return Block(np.asarray(utilities)[:, None] + SPREAD, gains, ["cheap", "dear"])


def test_only_what_one_measured_in_full_before_it_dominates_is_put_off():
    tried = block([0.9, 0.8, 0.95, 0.7, 0.6], [0.2, 0.5, 0.6, 0.1, 0.3], [0.3, 0.1, 0.9, 0.1, 0.9])
    verdict = put_off(tried, "dear")
    # The second is behind the first by its cheap attack; the third has more utility; the fourth leaks less; the fifth
    # is behind the fourth, and would not be behind the first by its cheap attack alone.
    assert verdict.dominated.tolist() == [False, True, False, False, True]
    assert verdict.far.tolist() == [False, True, False, False, True]


def test_what_seeds_cannot_tell_from_a_measured_one_is_not_put_off():
    wide = 20 * SPREAD * np.array([1, -1, 1, -1, 1])[:, None]  # half-widths of about .03
    utilities = np.array([0.9, 0.895, 0.5, 0.4, 0.3])[:, None] + wide
    gains = np.array([[0.2, 0.21, 0.6, 0.7, 0.8]] * 2)[..., None] + wide
    verdict = put_off(Block(utilities, gains, ["cheap", "dear"]), "dear")
    assert verdict.dominated[1]
    assert not verdict.far[1]
    assert verdict.far[2:].all()


def test_intervals_move_with_what_is_left_out_of_an_attack_s_block():
    rng = np.random.default_rng(1)
    gains = rng.normal(0.5, 0.05, size=(2, 12, 3))
    gains[1, 6:] += rng.normal(0, 0.3, size=(6, 3))  # settings that teach how far a seed moves the attack
    tried = Block(rng.normal(0.9, 0.01, size=(12, 3)), gains, ["cheap", "dear"])
    assert moved(tried, "dear", np.zeros(12, dtype=bool)) == 0
    assert moved(tried, "dear", np.arange(12) >= 6) > 0.01


@pytest.mark.parametrize("joint", [True, False])
def test_blocks_hold_every_ok_row_of_the_table(joint):
    blocks = blocks_of("digits", 0, joint=joint)
    assert (len(blocks) == 1) is joint
    for b in blocks:
        assert b.gains.shape == (len(b.attacks), *b.utilities.shape)
        assert "pmc" in b.attacks
