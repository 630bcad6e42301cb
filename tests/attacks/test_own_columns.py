"""Kernel ridge on own columns: leave-one-out in closed form equals fits that leave one out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tune_vfl.attacks.parts import own_columns
from tune_vfl.attacks.parts.columns import ranked
from tune_vfl.attacks.parts.own_columns import ColumnRegression


def _rings(rows: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return two rings around one center, which no line separates, and the ring of each row."""
    g = torch.Generator().manual_seed(seed)
    ring = torch.arange(rows) % 2
    angle = 2 * torch.pi * torch.rand(rows, generator=g)
    size = 1 + 2 * ring + 0.2 * torch.randn(rows, generator=g)
    return torch.stack([size * angle.cos(), size * angle.sin()], -1), ring


def _kernel_of(own: ColumnRegression) -> Tensor:
    (kernel,) = own._kernels
    return kernel.features @ kernel.features.mT


def test_scores_of_all_rows_are_those_of_fits_without_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_columns, "RIDGES", (0.1,))
    monkeypatch.setattr(own_columns, "SHARPNESS", (1.0,))
    x, ring = _rings(30)
    own = ColumnRegression.of([x.unsqueeze(0)])
    y = one_hot(ring, 2).float()
    said = own.by_all(y.unsqueeze(0))[0]
    kernel, ridge = _kernel_of(own)[0].double(), 0.1 * float(own._kernels[0].unit)
    for row in (0, 7, 29):
        kept = torch.arange(30) != row
        system = torch.zeros(30, 30, dtype=torch.float64)
        system[:29, :29] = kernel[kept][:, kept] + ridge * torch.eye(29)
        system[:29, 29] = system[29, :29] = 1.0
        solved = torch.linalg.solve(system, torch.cat([y[kept].double(), torch.zeros(1, 2)]))
        alone = kernel[row][kept] @ solved[:29] + solved[29]
        torch.testing.assert_close(said[row].double(), alone, atol=2e-4, rtol=0)


def test_known_rows_are_scored_by_fits_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_columns, "RIDGES", (0.1,))
    monkeypatch.setattr(own_columns, "SHARPNESS", (1.0,))
    x, ring = _rings(60)
    own = ColumnRegression.of([x.unsqueeze(0)])
    ids = torch.arange(20)
    whole = own.by_known(ids.unsqueeze(0), ring[ids].unsqueeze(0), 2)[0]
    without = own.by_known(ids[1:].unsqueeze(0), ring[ids[1:]].unsqueeze(0), 2)[0]
    torch.testing.assert_close(whole[0], without[0], atol=1e-4, rtol=0)


def test_members_side_by_side_are_scored_as_alone_whether_rows_are_shared_or_not() -> None:
    x, ring = _rings(60)
    other, noise = _rings(60, seed=1)[0], torch.rand(60, 2, generator=torch.Generator().manual_seed(2))
    first, second = torch.stack([x, other, x, noise]), torch.stack([noise, other, noise, x])
    target = one_hot(ring, 2).float().expand(4, -1, -1) * torch.tensor([1.0, 0.8, 0.6, 1.0])[:, None, None]
    ids, labels = torch.arange(20).expand(4, -1), ring[:20].expand(4, -1)
    own = ColumnRegression(first, second)
    scores, told = own.by_all(target), own.by_known(ids, labels, 2)
    for member in range(4):
        alone = ColumnRegression(first[member : member + 1], second[member : member + 1])
        torch.testing.assert_close(scores[member], alone.by_all(target[member : member + 1])[0], atol=1e-4, rtol=0)
        of_few = alone.by_known(ids[member : member + 1], labels[member : member + 1], 2)[0]
        torch.testing.assert_close(told[member], of_few, atol=1e-3, rtol=0)


def test_it_finds_what_no_line_finds() -> None:
    x, ring = _rings(400)
    own = ColumnRegression.of([x.unsqueeze(0)])
    by_known = own.by_known(torch.arange(40).unsqueeze(0), ring[:40].unsqueeze(0), 2)[0].argmax(-1)
    assert (by_known == ring).float().mean() > 0.95


def test_soft_labels_that_are_noise_teach_nothing() -> None:
    x, _ = _rings(400)
    g = torch.Generator().manual_seed(3)
    noise = torch.randint(2, (400,), generator=g)
    said = ColumnRegression.of([x.unsqueeze(0)]).by_all(one_hot(noise, 2).float().unsqueeze(0))[0].argmax(-1)
    assert abs(float((said == noise).float().mean()) - 0.5) < 0.1


def test_members_do_not_touch_each_other() -> None:
    pairs = [_rings(80, seed) for seed in (0, 1)]
    x, ring = (torch.stack(part) for part in zip(*pairs, strict=True))
    ids = torch.arange(20).expand(2, 20)
    together = ColumnRegression.of([x]).by_known(ids, ring[:, :20], 2)
    for member in (0, 1):
        alone = ColumnRegression.of([x[member : member + 1]]).by_known(ids[:1], ring[member : member + 1, :20], 2)
        torch.testing.assert_close(together[member], alone[0], atol=1e-4, rtol=1e-4)


def test_columns_that_do_not_vary_say_nothing() -> None:
    own = ColumnRegression.of([torch.ones(1, 30, 4)])
    said = own.by_known(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 1, 1]]), 2)
    assert said.isfinite().all()
    torch.testing.assert_close(said[0, 3:], said[0, 3:4].expand(27, 2))


def test_of_two_sets_of_columns_the_telling_one_is_taken() -> None:
    x, ring = _rings(200)
    noise = torch.randn(200, 2, generator=torch.Generator().manual_seed(5))
    both = torch.stack([x, noise])  # of two members one knows by the first set, the other by the second
    own = ColumnRegression.of([both], [both.flip(0)])
    said = own.by_known(torch.arange(40).expand(2, 40), ring[:40].expand(2, 40), 2).argmax(-1)
    assert ((said == ring).float().mean(-1) > 0.95).all()


def test_ranks_are_shares_of_smaller_rows() -> None:
    rows = torch.tensor([[3.0], [1.0], [1.0], [100.0]])
    assert ranked(rows).flatten().tolist() == [0.625, 0.25, 0.25, 0.875]


def test_ridges_and_certainties_among_which_one_is_chosen_lie_in_order() -> None:
    for among in (own_columns.RIDGES, own_columns.SHARPNESS):
        assert list(among) == sorted(set(among))
        assert 0 < among[0] < 1 < among[-1]


def _strips(rows: int, classes: int = 4, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return nested spirals and the spiral of each row: long strips, near to others everywhere."""
    g = torch.Generator().manual_seed(seed)
    strip = torch.arange(rows) % classes
    along = torch.rand(rows, generator=g)
    angle = 2 * torch.pi * (strip / classes + along)
    size = 1 + 3 * along + 0.05 * torch.randn(rows, generator=g)
    return torch.stack([size * angle.cos(), size * angle.sin()], -1), strip


def test_known_rows_of_a_long_strip_speak_for_all_of_it() -> None:
    x, strip = _strips(1200)
    ids, x = torch.arange(60).unsqueeze(0), x.unsqueeze(0)
    known = (ids, strip[ids], 4)
    plain, held = ColumnRegression.of([x]), ColumnRegression.held(x, known=known)
    found = [float((own.by_known(*known)[0].argmax(-1) == strip).float().mean()) for own in (plain, held)]
    assert found[1] > max(0.9, found[0] + 0.1)


@pytest.mark.parametrize("seed", range(5))
def test_nearest_rows_are_left_out_where_labels_do_not_follow_them(seed: int) -> None:
    x, _ = _strips(600, seed=seed)
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(2, (1, 40), generator=g)
    held = ColumnRegression.held(x.unsqueeze(0), known=(torch.arange(40).unsqueeze(0), labels, 2))
    assert held._sets[-1].shape[-1] == 2


def test_members_of_whom_one_takes_nearest_rows_equal_each_alone() -> None:
    (strips, strip), (others, _) = _strips(400), _strips(400, seed=1)
    coins = torch.randint(4, (400,), generator=torch.Generator().manual_seed(1))
    x, y = torch.stack([strips, others]), torch.stack([strip, coins])
    ids = torch.arange(60).expand(2, 60)
    together = ColumnRegression.held(x, known=(ids, y[:, :60], 4))
    for member in (0, 1):
        known = (ids[:1], y[member : member + 1, :60], 4)
        alone = ColumnRegression.held(x[member : member + 1], known=known)
        assert alone._sets[-1].shape[-1] == (34 if member == 0 else 2)
        both = (together.by_known(ids, y[:, :60], 4)[member], alone.by_known(*known)[0])
        torch.testing.assert_close(*both, atol=1e-3, rtol=1e-3)
