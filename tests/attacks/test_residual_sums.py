"""Residual reconstruction: the regression beside one that is written out, and what batches tell exactly."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tune_vfl.attacks.parts.clipped_sums import Sizes, Spread, may_be_clipped
from tune_vfl.attacks.parts.summed_residuals import Regression, Told, labels_of, linearized
from tune_vfl.protocol.sums import BatchSums
from tune_vfl.seeds import Stream


def made_up(
    rows: int, columns: int, *, epochs: int, batch: int, classes: int = 1, seed: int = 0
) -> tuple[Told, torch.Tensor]:
    """Sums over batches of a model that is not trained: the residual of a row is .5, or a K-th, less its label."""
    g = torch.Generator().manual_seed(seed)
    x, share = torch.randn(rows, columns, generator=g), 1 / max(2, classes)
    labels = torch.randint(0, max(2, classes), (rows,), generator=g)
    y = torch.nn.functional.one_hot(labels, max(2, classes)).float()[:, -classes:]
    order = torch.stack([torch.randperm(rows, generator=g) for _ in range(epochs)])
    steps = range(0, rows, batch)
    sums = [[(share - y[b]).T @ x[b] / len(b) for s in steps for b in [o[s : s + batch]]] for o in order]
    values = torch.stack([torch.stack(epoch) for epoch in sums])
    return Told.of(BatchSums(values, torch.zeros_like(values), order, batch), x), y


def named(beliefs: torch.Tensor) -> torch.Tensor:
    """The class of each row."""
    return beliefs[:, 0] > 0.5 if beliefs.shape[-1] == 1 else beliefs.argmax(-1)


def even(y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    share = 1 / max(2, y.shape[-1])
    return torch.full_like(y, share), torch.full_like(y, share * (1 - share))


def none_of(told: Told) -> torch.Tensor:
    """Say that no sum was clipped."""
    return torch.zeros_like(told.lengths, dtype=torch.bool)


def clipped(told: Told, bound: float) -> Told:
    """Clip what each party was told of each batch."""
    factors = (bound / told.lengths).clamp(max=1)
    return replace(told, sums=told.sums * (factors @ told.parts).unsqueeze(-1), lengths=told.lengths * factors)


def test_going_back_is_the_transpose_of_going_forth() -> None:
    told, y = made_up(50, 3, epochs=2, batch=8, classes=3)
    g = torch.Generator().manual_seed(1)
    told = replace(told, moves=torch.rand(len(told.sums), 2, generator=g))
    state, sums = torch.randn(*y.shape, 3, generator=g), torch.randn(*told.sums.shape, generator=g)
    slope, _ = linearized(told, torch.zeros(*y.shape, 3))
    forth = (told.summed((told.of_rows(state) * slope).sum(-1)) * sums).sum()
    torch.testing.assert_close(forth, (state * told.back(sums, slope)).sum(), rtol=1e-4, atol=1e-4)


def test_the_descent_ends_where_the_written_out_ridge_regression_does() -> None:
    told, y = made_up(40, 3, epochs=3, batch=8)
    told = replace(told, moves=told.moves[:, :0])  # the model does not move: labels alone are sought
    prior, variance = even(y)
    found = Regression(told, prior, variance, none_of(told)).fit(0.1, rounds=1, steps=200).state[..., 0, 0]
    x = torch.zeros(len(told.sums), 3, 40)
    for batch, at in enumerate(told.rows.view(len(told.sums), -1)):
        inside = at < 40
        x[batch][:, at[inside]] = told.x[batch][inside].T
    lines, wanted = x.flatten(0, 1), (0.5 * x.sum(-1) - told.sums[..., 0]).flatten()
    left = lines.T @ lines / (0.1 * 8) + torch.eye(40) / 0.25
    right = lines.T @ (wanted - lines @ prior[:, 0]) / (0.1 * 8)
    torch.testing.assert_close(found, prior[:, 0] + torch.linalg.solve(left, right), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("epochs", "batch", "classes"), [(2, 5, 1), (2, 5, 3), (8, 20, 1)])
def test_as_many_equations_as_rows_give_every_label(epochs: int, batch: int, classes: int) -> None:
    """A batch of fewer rows than columns tells all; of a larger one all is told as its rows return in others."""
    told, y = made_up(200, 6, epochs=epochs, batch=batch, classes=classes)
    found = labels_of(told, *even(y), Stream(0, "checked"))
    assert torch.equal(named(found), named(y))


def test_fewer_equations_than_rows_leave_labels_open() -> None:
    told, y = made_up(400, 2, epochs=1, batch=100)
    found = labels_of(told, *even(y), Stream(0, "checked"))
    right = ((found > 0.5).float() == y).float().mean()
    assert 0.45 < right < 0.7


@pytest.mark.parametrize("deviation", [3, 10])
def test_noise_on_sums_is_found_out_and_beliefs_do_not_follow_it(deviation: float) -> None:
    told, y = made_up(400, 6, epochs=16, batch=20)
    g = torch.Generator().manual_seed(2)
    noisy = replace(told, sums=told.sums + deviation * torch.randn(told.sums.shape, generator=g))
    found = labels_of(noisy, *even(y), Stream(0, "checked"))
    believing = Regression(noisy, *even(y), none_of(noisy)).fit(1e-3, rounds=4, steps=20).state[..., 0]
    missed = (found - y).square().mean()
    assert missed < 0.25  # what not to look at sums at all would miss
    assert missed < 0.7 * (believing - y).square().mean()


def test_the_other_parties_part_is_followed_along_the_way_that_own_weights_went() -> None:
    """Logits that grow by a number of each row as weights move: taken for fixed, they are noise to the labels."""
    told, y = made_up(300, 6, epochs=20, batch=50)
    g = torch.Generator().manual_seed(3)
    told = replace(told, moves=torch.linspace(0, 1, len(told.sums)).unsqueeze(-1))
    truth = torch.stack([y, 8 * (torch.rand(300, 1, generator=g) - 0.5)], -1)
    told = replace(told, sums=-linearized(replace(told, sums=torch.zeros_like(told.sums)), truth)[1])
    followed, stiff = (
        (labels_of(t, *even(y), Stream(0, "checked")) - y).square().mean()
        for t in (told, replace(told, moves=told.moves[:, :0]))
    )
    assert followed < 0.05
    assert followed < stiff / 2


def test_sums_that_share_the_largest_size_were_clipped_to_it_and_others_were_not() -> None:
    told, _ = made_up(200, 6, epochs=2, batch=20)
    bound = float(told.lengths.median())
    (found,) = may_be_clipped(clipped(told, bound).lengths)
    assert torch.equal(found, told.lengths >= bound)
    nothing, everything = may_be_clipped(told.lengths)
    assert not nothing.any()
    assert everything.all()


@pytest.mark.parametrize("classes", [1, 3])
def test_labels_are_found_although_every_sum_is_clipped(classes: int) -> None:
    """Six columns leave five equations a batch, and eight epochs have twice as many of them as rows."""
    told, y = made_up(400, 6, epochs=8, batch=20, classes=classes)
    hidden = clipped(told, float(told.lengths.min()) / 2)
    found = labels_of(hidden, *even(y), Stream(0, "checked"))
    taken_for_whole = Regression(hidden, *even(y), none_of(hidden)).fit(1e-3, rounds=4, steps=20).state[..., 0]
    assert (named(found) == named(y)).float().mean() > 0.97
    assert (found - y).square().mean() < 0.25 * (taken_for_whole - y).square().mean()


def test_noise_beside_clipping_hides_the_bound_and_sizes_are_found_all_the_same() -> None:
    told, y = made_up(400, 6, epochs=16, batch=20)
    hidden, g = clipped(told, float(told.lengths.min()) / 2), torch.Generator().manual_seed(4)
    shares = 0.2 * hidden.sums.square().mean().sqrt() * torch.randn(told.sums.shape, generator=g)
    noisy = replace(hidden, sums=hidden.sums + shares, lengths=(hidden.sums + shares).norm(dim=1))
    found = labels_of(noisy, *even(y), Stream(0, "checked"))
    assert (named(found) == named(y)).float().mean() > 0.9


def test_each_partys_sums_are_clipped_by_themselves() -> None:
    """Parties that know together have a size each: one party's bound says nothing of the other's."""
    told, y = made_up(300, 8, epochs=8, batch=20)
    parts = torch.eye(2).repeat_interleave(torch.tensor([3, 5]), dim=1)
    told = replace(told, parts=parts, lengths=(told.sums.square().sum(-1) @ parts.mT).sqrt())
    hidden = clipped(told, float(told.lengths.min()) / 2)
    one = replace(hidden, parts=torch.ones(1, 8), lengths=torch.ones(len(told.sums), 1))
    apart, together = ((labels_of(t, *even(y), Stream(0, "checked")) - y).square().mean() for t in (hidden, one))
    assert apart < 0.05
    assert apart < together / 2


def test_a_size_is_the_likeliest_of_the_written_out_density() -> None:
    g = torch.Generator().manual_seed(0)
    x, variance = (of(1, 12, k, generator=g).double() for of, k in ((torch.randn, 4), (torch.rand, 1)))
    sums, mean = (torch.randn(1, 4, 1, generator=g).double() for _ in range(2))
    heard, parts = torch.ones(1, 4, 1).double(), torch.ones(1, 4).double()
    spread = Spread(x, variance, heard, parts)
    made = Sizes.of(sums, parts).likeliest(sums, torch.ones(1, 1, dtype=torch.bool), spread, mean, 0.5)
    covariance = x[0].T @ (variance[0] * x[0]) + 0.5 * torch.eye(4).double()
    factors = torch.linspace(0.01, 6, 60_000).double()
    missed = factors.unsqueeze(-1) * sums[0, :, 0] - mean[0, :, 0]
    density = 3 * factors.log() - (missed @ torch.linalg.inv(covariance) * missed).sum(-1) / 2
    assert made.factors.item() == pytest.approx(factors[density.argmax()].item(), abs=2e-4)
