"""Classes read off the signs of gradients that are mostly 0, and which class is which."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tests.helpers.visits import FILTER, packed, success, world
from tune_vfl.attacks.parts.own_columns import ColumnRegression
from tune_vfl.attacks.parts.read_signs import read_signs, with_signs
from tune_vfl.attacks.parts.trust import Trust

ROWS, KNOWN, ENTRIES, WIDTH = 400, 20, 6, 5


def thin(y: Tensor, seed: int = 0, left: float = 0.03) -> Tensor:
    """Return gradients ``(E, n, d)`` of one line's two directions, of which a few entries are left."""
    g = torch.Generator().manual_seed(seed)
    line = torch.randn(ENTRIES, 1, WIDTH, generator=g)
    whole = (2.0 * y - 1).view(1, -1, 1) * line * torch.rand(ENTRIES, len(y), 1, generator=g)
    return torch.where(torch.rand(whole.shape, generator=g) < left, whole, 0.0)


def labels(seed: int = 0) -> Tensor:
    y = torch.randint(2, (ROWS,), generator=torch.Generator().manual_seed(seed))
    y[:KNOWN] = torch.arange(KNOWN) % 2
    return y


def trust_of(y: Tensor) -> Trust:
    return Trust(torch.full((1, 1, 2), 0.5).log(), y[None, :KNOWN], None)


def test_what_is_left_of_a_row_has_the_sign_of_its_class_up_to_one_sign_of_all() -> None:
    y = labels()
    read = read_signs(thin(y)[None])[0]
    told = read.sum(0).sign()
    assert 0.3 < (told != 0).float().mean() < 0.9
    right = (told == 2 * y - 1)[told != 0].float().mean()
    assert max(right, 1 - right) == 1
    assert (read == 0)[thin(y).abs().sum(-1) == 0].all(), "of nothing nothing is read"


def test_each_member_is_read_alone_and_one_that_diverged_says_nothing_wrong() -> None:
    y = labels()
    one, other = thin(y, 1), thin(1 - y, 2)
    both = read_signs(torch.stack([one, other]))
    torch.testing.assert_close(both[1], read_signs(other[None])[0])
    assert not read_signs(torch.full((1, ENTRIES, ROWS, WIDTH), torch.nan)).any()


def test_an_entry_that_fewer_than_three_rows_were_sent_is_not_read() -> None:
    signs = torch.zeros(1, 1, 12, 3)
    signs[..., :5, 0], signs[..., 5:7, 1], signs[..., 7:10, 2] = 1.0, 1.0, 1.0
    signs[..., 0, 2] = -1.0  # the row by which the last column is told from the first
    assert (read_signs(signs)[0, 0] != 0).tolist() == [True] * 5 + [False] * 2 + [True] * 3 + [False] * 2
    assert read_signs(signs)[0, 0, :5].eq(-read_signs(signs)[0, 0, 7]).all()


def told_by(y: Tensor, seed: int, strength: float = 1.0) -> ColumnRegression:
    """Return a regression on three noisy columns of the class."""
    noise = torch.randn(1, len(y), 3, generator=torch.Generator().manual_seed(seed))
    return ColumnRegression.held(strength * (2.0 * y - 1)[None, :, None] + noise, known=trust_of(y).known)


def sent_where_surprising(own: ColumnRegression, y: Tensor, seed: int) -> Tensor:
    """Return classes of visits ``(1, 1, n)`` of those rows alone whose columns speak against their class."""
    towards = own.columns[0].mean(-1)
    towards = towards * (towards[y == 1].mean() - towards[y == 0].mean()).sign()
    noise = 0.3 * towards.std() * torch.randn(len(y), generator=torch.Generator().manual_seed(seed))
    surprise = -(2.0 * y - 1) * towards + noise
    sent = surprise > surprise.quantile(0.7)
    return torch.where(sent, 2.0 * y - 1, 0.0).view(1, 1, -1)


@pytest.mark.parametrize("order", [1, -1])
def test_rows_that_are_not_sent_are_of_the_class_that_their_columns_speak_for(order: int) -> None:
    gains = []
    for seed in range(4):
        y = labels(seed)
        own, trust = told_by(y, seed, 0.8), trust_of(y)
        read = order * sent_where_surprising(own, y, seed)
        before = own.by_known(*trust.known)
        hidden = (read[0, 0] == 0) & (torch.arange(ROWS) >= KNOWN)
        found = with_signs(read, before, own.columns, trust)[0]
        # Columns alone, however well they are read: what is not sent is told apart better than they tell any row.
        best = (own.by_all(one_hot(y, 2).float()[None])[0].argmax(-1) == y).float().mean()
        gains.append((found.argmax(-1) == y)[hidden].float().mean() - best)
        assert (found.argmax(-1) == y)[read[0, 0] != 0].float().mean() > 0.95
    assert sum(gains) / len(gains) > 0.05, gains


def test_half_of_what_is_known_judges_the_other_half_and_a_fit_without_use_adds_nothing() -> None:
    y = labels()
    own, trust = told_by(y, 1, 0.0), trust_of(y)  # columns that say nothing
    before = torch.stack([-(2.0 * y - 1), 2.0 * y - 1], -1)[None]
    g = torch.Generator().manual_seed(2)
    read = torch.where(torch.rand(1, 1, ROWS, generator=g) < 0.2, torch.randn(1, 1, ROWS, generator=g).sign(), 0.0)
    read[..., :KNOWN] = 0
    found = with_signs(read, before, own.columns, trust)[0]
    assert (found.argmax(-1) == y).all()


def test_members_of_which_nothing_was_read_keep_their_logits() -> None:
    y = labels()
    own, trust = told_by(y, 1), trust_of(y)
    before = trust.balanced(own.by_known(*trust.known))
    torch.testing.assert_close(
        with_signs(torch.zeros(1, 3, ROWS), before, own.columns, trust), before, atol=1e-4, rtol=0
    )


def test_each_member_is_fitted_alone() -> None:
    y, other = labels(0), labels(1)
    one, two = told_by(y, 0), told_by(other, 1)
    both = ColumnRegression(torch.cat([one.columns, two.columns]))
    trust = Trust(torch.full((2, 1, 2), 0.5).log(), torch.stack([y[:KNOWN], other[:KNOWN]]), None)
    read = torch.cat([sent_where_surprising(one, y, 0), -sent_where_surprising(two, other, 1)])
    before = torch.zeros(2, ROWS, 2)
    alone = with_signs(read[1:], before[1:], two.columns, trust_of(other))[0]
    torch.testing.assert_close(with_signs(read, before, both.columns, trust)[1], alone, atol=1e-3, rtol=1e-3)


def test_a_sign_that_is_wrong_now_and_then_is_not_believed_blindly() -> None:
    y = labels()
    own, trust = told_by(y, 3), trust_of(y)
    g = torch.Generator().manual_seed(4)
    wrong = torch.where(torch.rand(5, ROWS, generator=g) < 0.25, -1.0, 1.0)
    read = (wrong * (2.0 * y - 1) * (torch.rand(5, ROWS, generator=g) < 0.3))[None]
    found = with_signs(read, torch.zeros(1, ROWS, 2), own.columns, trust)[0].softmax(-1)[:, 1]
    sure = torch.where(y == 1, found, 1 - found)
    told_once = read[0].abs().sum(0) == 1
    against = told_once & (read[0].sum(0) != 2.0 * y - 1)
    assert sure[KNOWN:].median() > 0.9
    assert (sure[KNOWN:][against[KNOWN:]] > 0.5).float().mean() > 0.5, "columns outweigh one sign"


def test_class_shares_are_those_of_the_trust() -> None:
    y = (torch.rand(ROWS, generator=torch.Generator().manual_seed(0)) < 0.2).long()
    y[:KNOWN] = torch.arange(KNOWN) % 2
    own = told_by(y, 0)
    trust = Trust(torch.tensor([[[0.8, 0.2]]]).log(), y[None, :KNOWN], None)
    found = with_signs(sent_where_surprising(own, y, 0), torch.zeros(1, ROWS, 2), own.columns, trust)
    assert found.softmax(-1)[0, :, 1].mean() == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize("order", [1, -1])
def test_own_columns_of_known_rows_say_which_class_is_which(order: int) -> None:
    y = labels()
    columns = (2.0 * y - 1)[None, :, None] + torch.randn(1, ROWS, 3, generator=torch.Generator().manual_seed(3))
    trust, nothing = trust_of(y), torch.zeros(1, ROWS, 2)
    own = ColumnRegression.held(columns, known=trust.known)
    read = order * read_signs(thin(y)[None])
    found = with_signs(read, nothing, own.columns, trust)[0].argmax(-1)
    told = read.sum(1).sign()[0] != 0
    assert (found == y)[KNOWN:][told[KNOWN:]].float().mean() > 0.99
    alone = own.by_known(*trust.known)[0].argmax(-1)
    assert (found == y)[KNOWN:].float().mean() > (alone == y)[KNOWN:].float().mean() + 0.03


def test_where_own_columns_say_nothing_the_order_stays_open_and_nothing_is_read() -> None:
    y = labels()
    trust, before = trust_of(y), torch.randn(1, ROWS, 2, generator=torch.Generator().manual_seed(4))
    own = ColumnRegression.held(torch.ones(1, ROWS, 2), known=trust.known)
    received = thin(y)
    received[:, :KNOWN] = 0  # or what is read of them would tell
    found = with_signs(read_signs(received[None]), before, own.columns, trust)
    torch.testing.assert_close(found, trust.balanced(before))


def test_signs_that_belong_to_other_rows_add_nothing() -> None:
    moved = []
    for seed in range(12):
        y = labels(seed)
        g = torch.Generator().manual_seed(seed)
        columns = (2.0 * y - 1)[None, :, None] + torch.randn(1, ROWS, 3, generator=g)
        trust = trust_of(y)
        own = ColumnRegression.held(columns, known=trust.known)
        before = own.by_known(*trust.known)
        others = torch.cat([torch.arange(KNOWN), KNOWN + torch.randperm(ROWS - KNOWN, generator=g)])
        found = with_signs(read_signs(thin(y, seed)[None])[:, :, others], before, own.columns, trust)
        now, then = ((logits[0].argmax(-1) == y).float().mean().item() for logits in (found, before))
        moved.append(now - then)
    assert sum(moved) / len(moved) < 0.01, moved


def test_the_filter_reads_signs_where_most_entries_are_0_and_leaves_other_members_alone() -> None:
    y, view = world(noise=0.5, features=1.0)
    visits = view.granted("visits")
    g = torch.Generator().manual_seed(5)
    lost = torch.rand(visits.received.shape, generator=g) < 0.97
    thinned = view.holding(visits=replace(visits, received=torch.where(lost, 0.0, visits.received)))
    alone = FILTER().run(view)["matched_filter"].scores
    both = FILTER().run(packed([view, thinned]))["matched_filter"].scores
    torch.testing.assert_close(both[0], alone, atol=1e-3, rtol=0)
    assert success(FILTER().run(thinned)["matched_filter"], y) > 0.8
