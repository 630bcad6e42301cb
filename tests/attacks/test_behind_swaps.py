"""What gradients say of classes that a model believes in, where it is taught others."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import one_hot

from tests.helpers.visits import EPOCHS, FILTER, ROWS, WIDTH, success, swapped
from tune_vfl.attacks.parts.behind_swaps import behind_swaps, beliefs, odds_of_taught
from tune_vfl.attacks.parts.own_columns import ColumnRegression
from tune_vfl.attacks.parts.trust import Trust

KEPT = 0.7


def believed(seed=0, *, strength=1.0, rows=ROWS, tell=True):
    """Return true classes, taught ones as 1 and -1, the model's beliefs and the gradients of their cross-entropy.

    The model believes in the true class, with an error that each row keeps; or in another row's, where it tells
    nothing.
    """
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(2, (rows,), generator=g)
    taught = torch.where(torch.rand(rows, generator=g) < KEPT, y, 1 - y)
    seen = y if tell else y[torch.randperm(rows, generator=g)]
    belief = (strength * (2 * seen - 1) + torch.randn(rows, generator=g)).sigmoid()
    line = torch.randn(EPOCHS, 1, WIDTH, generator=g)
    return y, 2.0 * taught - 1, belief, (belief - taught)[:, None] * line


def told(received, taught):
    return beliefs(received.unsqueeze(0), taught.unsqueeze(0))[0]


def seen_by_an_attacker(seed, *, tell=True):
    """Return true classes and the view of a world with such gradients, whose own columns say a little."""
    y, _, _, received = believed(seed, strength=2.0, tell=tell)
    _, view = swapped(seed, KEPT)
    ids = torch.cat([(y == k).nonzero().flatten()[:10] for k in range(2)])
    columns = 0.7 * one_hot(y, 2) + torch.randn(ROWS, 2, generator=torch.Generator().manual_seed(seed))
    return y, view.holding(
        visits=replace(view.granted("visits"), received=received),
        features=replace(view.features, train=columns),
        auxiliary=replace(view.auxiliary, ids=ids, labels=y[ids]),
        class_prior=one_hot(y, 2).float().mean(0),
    )


def test_what_is_beside_the_class_taught_is_the_belief():
    _, taught, belief, received = believed(rows=20_000)
    found = told(received, taught)
    for of in (taught > 0, taught < 0):
        assert torch.corrcoef(torch.stack([found[of], belief[of]]))[0, 1] > 0.999


def test_beliefs_are_in_deviations_whatever_the_scale_of_an_epochs_gradients_and_the_order_of_classes():
    _, taught, _, received = believed()
    received = received + torch.randn(received.shape, generator=torch.Generator().manual_seed(1))
    found = told(received, taught)
    assert torch.allclose(found, told(received * 10.0 ** torch.arange(EPOCHS).view(-1, 1, 1), taught), atol=1e-4)
    assert torch.allclose(found, -told(received, -taught), atol=1e-5)
    assert found.square().mean().item() == pytest.approx(1, abs=1e-5)


def test_nothing_is_believed_where_gradients_say_the_class_taught_alone_or_it_is_not_known():
    _, taught, _, received = believed()
    alone = taught[:, None] * torch.randn(EPOCHS, 1, WIDTH)
    assert told(alone, taught).abs().max() < 0.05  # errors of rounding
    unknown = torch.arange(ROWS) % 3 == 0
    found = told(received, taught.masked_fill(unknown, 0.0))
    told_alone = told(received[:, ~unknown], taught[~unknown])
    assert (found[unknown] == 0).all()
    assert torch.allclose(found[~unknown] / found[~unknown].std(), told_alone / told_alone.std(), atol=1e-5)
    assert told(torch.zeros_like(received), torch.zeros(ROWS)).isfinite().all()


def read(received, y):
    """Return the log odds that class 1 was taught, and those with an answer that names the classes the other way."""
    best = 0.2 * (2.0 * y - 1)[None, :, None] * torch.tensor([-1.0, 1.0])
    return (odds_of_taught(received.unsqueeze(0), of)[0] for of in (best, -best))


@pytest.mark.parametrize("rare", [0.5, 0.05])
def test_the_class_taught_is_read_off_each_row_whichever_way_an_epochs_line_points(rare):
    g = torch.Generator().manual_seed(0)
    y = (torch.rand(ROWS, generator=g) < rare).long()
    taught = torch.where(torch.rand(ROWS, generator=g) < KEPT, y, 1 - y)
    belief = (0.5 * torch.randn(ROWS, generator=g)).sigmoid()
    received = (belief - taught)[:, None] * torch.randn(EPOCHS, 1, WIDTH, generator=g)
    found, reversed_ = read(received, y)
    assert torch.equal(found.sign(), 2.0 * taught - 1)
    assert torch.equal(found, -reversed_)
    assert (found.abs() == 30).all()


def test_a_visit_counts_by_how_often_visits_of_a_row_agree():
    g = torch.Generator().manual_seed(0)
    taught = torch.randint(2, (ROWS,), generator=g)
    wrong = torch.rand(EPOCHS, ROWS, generator=g) < 0.2
    side = (2.0 * taught - 1) * (1 - 2.0 * wrong)
    found, _ = read(side[..., None] * torch.randn(WIDTH, generator=g), taught)
    exact = (1 - 2.0 * wrong).sum(0) * (2.0 * taught - 1) * torch.tensor(0.8 / 0.2).log()
    assert torch.corrcoef(torch.stack([found, exact]))[0, 1] > 0.999
    assert (found - exact).abs().max() < 0.15 * exact.abs().max()


@pytest.mark.parametrize("seed", range(3))
def test_beliefs_tell_classes_that_were_not_taught(seed):
    y, view = seen_by_an_attacker(seed)
    answers = FILTER().run(view)
    without, alone, joined = (success(answers[name], y) for name in ("filter", "beliefs", "matched_filter"))
    assert alone > without + 0.02
    assert joined > without + 0.02


def test_beliefs_that_are_those_of_other_rows_cost_little():
    found = []
    for seed in range(4):
        y, view = seen_by_an_attacker(seed, tell=False)
        answers = FILTER().run(view)
        found.append([success(answers[name], y) for name in ("with_taught", "matched_filter")])
    without, joined = torch.tensor(found).mean(0)
    assert joined > without - 0.02


def members(*seeds, keep):
    """Return the classes taught, and what :func:`behind_swaps` takes, of members whose own columns say nothing."""
    of_members, labels = [], []
    for seed in seeds:
        y, taught, _, received = believed(seed, strength=2.0)
        known = torch.cat([(y == k).nonzero().flatten()[:10] for k in range(2)])
        order = torch.cat([known, torch.tensor([i for i in range(ROWS) if i not in set(known.tolist())])])
        columns = torch.randn(ROWS, 2, generator=torch.Generator().manual_seed(seed))
        of_members.append((taught[order], received[:, order], 0.2 * (2.0 * one_hot(y[order], 2) - 1), columns))
        labels.append(y[known])
    taught, received, best, columns = (torch.stack(part) for part in zip(*of_members, strict=True))
    swaps = torch.tensor([[keep, 1 - keep], [1 - keep, keep]]).expand(len(seeds), -1, -1)
    trust = Trust(torch.full((len(seeds), 1, 2), 0.5).log(), torch.stack(labels), swaps)
    own = ColumnRegression.held(columns, columns, known=trust.known)
    return taught, (best, received, own, trust, swaps)


@pytest.mark.parametrize("keep", [0.75, 0.9])
def test_a_deviation_of_belief_is_worth_half_a_log_odds_less_what_swaps_hide(keep):
    """Own columns that say nothing: within a class taught the answer moves with the belief alone."""
    taught, given = members(0, keep=keep)
    found = behind_swaps(*given)[0]
    odds, deviations = found[:, 1] - found[:, 0], beliefs(given[1], taught)[0]
    for of in (taught[0] > 0, taught[0] < 0):
        both = torch.stack([deviations[of], odds[of]]).cov()
        assert float(both[0, 1] / both[0, 0]) == pytest.approx(0.5 * (2 * keep - 1), rel=0.2)


def test_an_answer_is_that_of_a_member_alone():
    together = behind_swaps(*members(0, 1, 2, keep=KEPT)[1])
    for index in range(3):
        alone = behind_swaps(*members(index, keep=KEPT)[1])[0]
        torch.testing.assert_close(together[index], alone, atol=1e-3, rtol=1e-3)
