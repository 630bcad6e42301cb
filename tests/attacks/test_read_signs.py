"""Classes read off the signs of gradients that are mostly 0, and which class is which."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.helpers.visits import FILTER, packed, success, world
from tune_vfl.attacks.parts.own_columns import ColumnRegression
from tune_vfl.attacks.parts.read_signs import SURE, read_signs, with_signs
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


class Asked:
    """A regression on own columns that keeps what it was taught, and by which a first order or the other is right."""

    def __init__(self, right: int) -> None:
        self.right, self.taught = right, []  # type: ignore[var-annotated]

    def by_some(self, ids: Tensor, shares: Tensor, known: tuple[Tensor, Tensor, int]) -> Tensor:
        self.taught.append((ids[0], shares[0]))
        logits = torch.zeros(1, ROWS, 2)
        if len(self.taught) == self.right:
            y = known[1][0]
            logits[0, torch.arange(KNOWN), y] = 5.0
        return logits


@pytest.mark.parametrize("right", [1, 2])
@pytest.mark.parametrize("entries", [2, 6, 9])
def test_what_was_read_in_the_first_third_is_taught_and_all_of_it_is_added(right: int, entries: int) -> None:
    y = labels()
    read = torch.zeros(1, entries, ROWS)
    first, late = slice(50, 60), slice(80, 90)
    early = max(1, entries // 3)
    read[0, early - 1, first] = 1.0
    read[0, early:, late] = -1.0
    read[0, 0, 3] = 1.0  # a known row, which is taught as known
    own, before = Asked(right), torch.zeros(1, ROWS, 2)
    trust = trust_of(y)
    found = with_signs(read, before, own, trust)[0].softmax(-1)[:, 1]  # type: ignore[arg-type]
    assert len(own.taught) == 2
    for way, (ids, shares) in zip((1, -1), own.taught, strict=True):
        assert ids.tolist() == [*range(50, 60), *(i for i in range(KNOWN, ROWS) if not 50 <= i < 60)]
        assert shares[:10].tolist() == ([[0.0, 1.0]] if way == 1 else [[1.0, 0.0]]) * 10
        assert (shares[10:] == 0.5).all(), "of other rows nothing was read by then"
    one, other = (found[first], found[late]) if right == 1 else (found[late], found[first])
    sure = torch.tensor(SURE).sigmoid().expand(10)
    torch.testing.assert_close(one, sure, atol=1e-3, rtol=0)
    torch.testing.assert_close(other, 1 - sure, atol=1e-3, rtol=0)
    rest = torch.cat([found[KNOWN:50], found[90:]])
    torch.testing.assert_close(rest, torch.full_like(rest, 0.5), atol=0.05, rtol=0)


def test_at_most_600_rows_are_taught() -> None:
    rows = 1000
    read = torch.ones(1, 3, rows)
    y = torch.arange(rows) % 2
    trust = Trust(torch.full((1, 1, 2), 0.5).log(), y[None, :KNOWN], None)
    asked = []

    class Many:
        def by_some(self, ids: Tensor, shares: Tensor, known: object) -> Tensor:
            asked.append(ids.shape[-1])
            return torch.zeros(1, rows, 2)

    with_signs(read, torch.zeros(1, rows, 2), Many(), trust)  # type: ignore[arg-type]
    assert asked == [600, 600]


@pytest.mark.parametrize("order", [1, -1])
def test_own_columns_of_known_rows_say_which_class_is_which(order: int) -> None:
    y = labels()
    columns = (2.0 * y - 1)[None, :, None] + torch.randn(1, ROWS, 3, generator=torch.Generator().manual_seed(3))
    trust, nothing = trust_of(y), torch.zeros(1, ROWS, 2)
    own = ColumnRegression.held(columns, known=trust.known)
    read = order * read_signs(thin(y)[None])
    found = with_signs(read, nothing, own, trust)[0].argmax(-1)
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
    torch.testing.assert_close(with_signs(read_signs(received[None]), before, own, trust), before)


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
        found = with_signs(read_signs(thin(y, seed)[None])[:, :, others], before, own, trust)
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
