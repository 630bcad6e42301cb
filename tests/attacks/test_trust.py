"""How far gradients and own columns are trusted: closed forms, noise, swaps."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tune_vfl.attacks.parts.trust import FAINT, POWERS, Trust

EVEN = torch.full((1, 1, 2), 0.5).log()
SWAPS = torch.tensor([[[0.9, 0.1], [0.3, 0.7]]])


def labels_of(rows: int, known: int, seed: int = 0, classes: int = 2) -> tuple[Tensor, Trust]:
    """Return classes drawn evenly, and trust in them with the first rows known."""
    y = torch.randint(classes, (rows,), generator=torch.Generator().manual_seed(seed))
    return y, Trust(torch.full((1, 1, classes), 1 / classes).log(), y[None, :known], None)


def said_of(y: Tensor, gap: float, seed: int, classes: int = 2) -> Tensor:
    """Return the true log likelihoods of the classes by a normal number a class, of mean gap for the row's own."""
    g = torch.Generator().manual_seed(seed)
    seen = gap * one_hot(y, classes) + torch.randn(len(y), classes, generator=g)
    return (gap * seen)[None]


def power_of(chosen: Tensor, evidence: Tensor) -> float:
    return float((chosen * evidence).sum() / evidence.square().sum())


def test_balanced_probabilities_have_the_class_shares_as_means() -> None:
    g = torch.Generator().manual_seed(0)
    prior = torch.tensor([[[0.7, 0.2, 0.1]], [[0.1, 0.1, 0.8]]])
    logits = torch.randn(2, 400, 3, generator=g) + torch.tensor([2.0, 0.0, -1.0])
    found = Trust(prior.log(), torch.zeros(2, 1, dtype=torch.long), None).balanced(logits)
    torch.testing.assert_close(found.exp().mean(1), prior[:, 0], atol=2e-3, rtol=0)
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(2, 400))
    moved = found - logits  # by one number a class, up to a constant of the row
    moved = moved - moved[..., :1]
    torch.testing.assert_close(moved, moved[:, :1].expand_as(moved), atol=1e-4, rtol=0)


def test_known_rows_are_set_and_others_left() -> None:
    y, trust = labels_of(30, known=8)
    shares = torch.full((1, 30, 2), 0.5)
    pinned = trust.pinned(shares)
    assert torch.equal(pinned[0, :8], one_hot(y[:8], 2).float())
    assert torch.equal(pinned[0, 8:], shares[0, 8:])


def test_what_was_taught_says_of_the_true_class_what_the_swaps_let_through() -> None:
    said = torch.tensor([[[0.0, 100.0], [100.0, 0.0], [0.0, 0.0]]])
    trust = Trust(EVEN, torch.zeros(1, 1, dtype=torch.long), SWAPS)
    expected = torch.tensor([[[0.1, 0.7], [0.9, 0.3], [0.5, 0.5]]])
    torch.testing.assert_close(trust.of_true(said).exp(), expected)
    assert trust.of_true(said) is not said
    assert Trust(EVEN, trust.labels, None).of_true(said) is said


def test_the_class_taught_is_bayes_rule_by_hand() -> None:
    """A known row's true class is sure, and yet the class that it was taught is not."""
    g = torch.Generator().manual_seed(1)
    said, own = torch.randn(2, 1, 4, 2, generator=g)
    trust = Trust(EVEN, torch.tensor([[1]]), SWAPS)
    found = trust.taught(said, own)[0]
    for row in range(4):
        true = torch.tensor([0.0, 1.0]) if row == 0 else own[0, row].softmax(-1)
        taught = torch.stack([true[0] * SWAPS[0, 0, j] + true[1] * SWAPS[0, 1, j] for j in range(2)])
        weights = taught * said[0, row].exp()
        torch.testing.assert_close(found[row], weights / weights.sum())


def test_without_swaps_the_class_taught_is_the_true_one() -> None:
    y, trust = labels_of(50, known=5)
    said, own = said_of(y, 1.0, 1), said_of(y, 0.5, 2)
    expected = trust.pinned(trust.balanced(said + own).exp())
    torch.testing.assert_close(trust.taught(said, own), expected)
    assert torch.equal(expected[0, :5], one_hot(y[:5], 2).float())


@pytest.mark.parametrize("size", [0.5, 3.0, 30.0])
@pytest.mark.parametrize("classes", [2, 5])
def test_noise_is_not_trusted_however_loud(classes: int, size: float) -> None:
    """What is left of it is small beside the log likelihoods of a class, whose deviation is 1.5 or more."""
    left = []
    for seed in range(8):
        y, trust = labels_of(1500, 20 * classes, seed, classes)
        noise = size * torch.randn(1, 1500, classes, generator=torch.Generator().manual_seed(10 + seed))
        left.append(float(trust.chosen([noise], [said_of(y, 1.5, seed, classes)])[0].std()))
    assert sum(left) / 8 < 0.15
    assert max(left) < 0.5


@pytest.mark.parametrize("seed", range(3))
def test_evidence_as_sure_as_it_should_be_keeps_its_power(seed: int) -> None:
    y, trust = labels_of(1500, 40, seed)
    evidence = said_of(y, 1.5, 20 + seed)
    said, _ = trust.chosen([evidence], [said_of(y, 1.0, 30 + seed)])
    assert power_of(said, evidence) in [pytest.approx(p, abs=1e-4) for p in (0.7, 1.0, 1.4)]


@pytest.mark.parametrize("seed", range(3))
def test_evidence_that_is_ten_times_too_sure_is_tempered(seed: int) -> None:
    y, trust = labels_of(1500, 40, seed)
    evidence = 10 * said_of(y, 1.5, 20 + seed)
    said, _ = trust.chosen([evidence], [said_of(y, 1.0, 30 + seed)])
    assert 0.05 < power_of(said, evidence) < 0.25
    faint, _ = trust.chosen([10 * evidence], [said_of(y, 1.0, 30 + seed)], FAINT)
    assert 0.005 < power_of(faint, 10 * evidence) < 0.04


def test_of_several_the_telling_evidence_and_the_telling_columns_are_taken_by_each_member() -> None:
    y, trust = labels_of(1000, 40)
    both = Trust(trust.prior.expand(2, -1, -1), trust.labels.expand(2, -1), None)
    good, gate = said_of(y, 1.5, 1), said_of(y, 1.2, 2)
    g = torch.Generator().manual_seed(3)
    noise, nothing = torch.randn(2, 1, 1000, 2, generator=g)
    said, own = both.chosen(
        [torch.cat([noise, good]), torch.cat([good, noise])], [torch.cat([gate, nothing]), torch.cat([nothing, gate])]
    )
    torch.testing.assert_close(own, trust.balanced(gate).expand(2, -1, -1))
    for member in said:
        assert power_of(member[None], good) > 0.6


def test_known_rows_judge_where_own_columns_say_nothing() -> None:
    """Two evidences are each other's opposite: columns that know no class cannot tell them apart, known rows can."""
    y, trust = labels_of(1000, 20)
    good = said_of(y, 1.5, 1)
    said, _ = trust.chosen([good.flip(-1), good], [torch.zeros(1, 1000, 2)])
    assert power_of(said, good) > 0.6


def test_agreement_of_all_rows_judges_where_few_are_known() -> None:
    """One known row of each class, on both of which the noise happens to be right."""
    y = torch.arange(1000) % 2
    trust = Trust(EVEN, y[None, :2], None)
    good, noise = said_of(y, 1.5, 1), said_of(y, 0.0, 2) + torch.randn(1, 1000, 2, generator=torch.Generator())
    noise[0, :2] = good[0, :2] = one_hot(y[:2], 2).float()
    said, _ = trust.chosen([noise, good], [said_of(y, 1.2, 4)])
    assert power_of(said, good) > 0.6


def test_a_member_whose_evidence_is_no_number_falls_back_on_what_is_one() -> None:
    y, trust = labels_of(200, 20)
    broken = torch.full((1, 200, 2), torch.nan)
    good = said_of(y, 1.5, 1)
    said, own = trust.chosen([broken, good], [said_of(y, 1.0, 2)], [1.0])
    torch.testing.assert_close(said, good)
    assert own.isfinite().all()


def test_the_second_candidate_is_taken_only_where_known_rows_are_likelier_by_it() -> None:
    """However sharp either is, and whatever the rows say that are not known."""
    y, trust = labels_of(400, 100)
    good, bad = said_of(y, 2.0, 1), said_of(y, 0.7, 2)
    good[0, 100:] = good[0, 100:].flip(-1)
    for size in (0.5, 1.0, 8.0):
        assert torch.equal(trust.likelier(bad, size * good), size * good)
        assert torch.equal(trust.likelier(size * good, bad), size * good)
    same = torch.cat([good[:, :100], bad[:, 100:]], 1)
    assert torch.equal(trust.likelier(good, same), good)
    assert torch.equal(trust.likelier(same, good), same)


def test_each_member_takes_its_own_candidate() -> None:
    y, trust = labels_of(200, 60)
    both = Trust(trust.prior.expand(2, -1, -1), trust.labels.expand(2, -1), None)
    good, bad = said_of(y, 2.0, 1), said_of(y, 0.3, 2)
    found = both.likelier(torch.cat([good, bad]), torch.cat([bad, good]))
    torch.testing.assert_close(found, good.expand(2, -1, -1))


def test_scores_that_estimate_probabilities_become_logits_of_several_certainties() -> None:
    scores = torch.tensor([[[0.2, 0.8]]])
    found = _trust().sharpened(scores)
    factors = [float(s[0, 0, 1] / 0.8) for s in found]
    assert factors == sorted(set(factors))
    assert 2 < len(factors) < 6, "a few: each is tried with all powers of all evidence"
    for factor, logits in zip(factors, found, strict=True):
        torch.testing.assert_close(logits, factor * scores)


def _trust() -> Trust:
    return Trust(EVEN, torch.zeros(1, 1, dtype=torch.long), None)


def test_powers_reach_from_nothing_to_more_than_all() -> None:
    for powers in (POWERS, FAINT):
        assert powers[0] == 0
        assert powers[-1] > 1 in powers
        assert list(powers) == sorted(set(powers))


def test_of_several_answers_each_member_takes_the_one_by_which_its_known_rows_are_likeliest() -> None:
    labels = torch.tensor([[0, 1], [1, 1]])
    trust = Trust(EVEN.expand(2, 1, 2), labels, None)
    first = torch.tensor([[[3.0, 0.0], [0.0, 3.0], [1.0, 0.0]], [[3.0, 0.0], [0.0, 3.0], [1.0, 0.0]]])
    second = torch.tensor([[[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]])
    assert torch.equal(trust.likeliest([first, second]), torch.stack([first[0], second[1]]))


def test_joined_logits_are_weighed_by_how_likely_known_rows_are_at_every_power() -> None:
    y, trust = labels_of(50, known=6)
    several = [said_of(y, 1.5, 0), said_of(y, 0.3, 1), torch.zeros(1, 50, 2)]
    expected, total = torch.zeros(1, 50, 2), 0.0
    for logits in several:
        for power in POWERS:
            weight = float((power * logits[0, :6]).softmax(-1)[torch.arange(6), y[:6]].prod())
            expected, total = expected + weight * power * logits, total + weight
    torch.testing.assert_close(trust.joined(several), expected / total)


def test_joined_logits_are_those_that_known_rows_bear_out() -> None:
    y, trust = labels_of(2000, known=40)
    right = said_of(y, 2.0, 0)
    found = trust.joined([right, 5.0 * torch.randn(1, 2000, 2, generator=torch.Generator().manual_seed(1))])
    assert power_of(found, right) > 0.3
    torch.testing.assert_close(found / power_of(found, right), right, atol=1e-3, rtol=0)
