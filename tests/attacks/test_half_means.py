"""Means of visits over both halves of a training."""

import torch

from tests.helpers.visits import visits_of
from tune_vfl.attacks.parts.half_means import half_means
from tune_vfl.attacks.parts.visits_by_step import VisitsByStep


def halves_of(epochs: int, scale: float = 1.0):
    g = torch.Generator().manual_seed(epochs)
    received, sent = torch.randn(2, epochs, 50, 3, generator=g)
    visits = visits_of(scale * received, sent).batched()
    return received, sent, half_means(visits)


def test_each_half_is_the_mean_of_its_epochs_in_units_of_its_own_size():
    received, sent, found = halves_of(6)
    expected = torch.stack([received[:3].mean(0), received[3:].mean(0)])
    size = expected.square().mean((1, 2), keepdim=True).sqrt()
    torch.testing.assert_close(found["halves"].received[0], expected / size)
    torch.testing.assert_close(found["halves"].sent[0], torch.stack([sent[:3].mean(0), sent[3:].mean(0)]))


def test_the_middle_epoch_of_an_odd_number_is_in_both_and_one_epoch_is_both():
    received, _, found = halves_of(3)
    expected = torch.stack([received[:2].mean(0), received[1:].mean(0)])
    torch.testing.assert_close(found["halves"].received[0], expected / expected.square().mean((1, 2), True).sqrt())
    _, _, alone = halves_of(1)
    assert torch.equal(alone["halves"].received[:, 0], alone["halves"].received[:, 1])


def test_clipped_means_do_not_change_with_the_size_of_the_widest_entries():
    g = torch.Generator().manual_seed(0)
    received = torch.randn(1, 50, 3, generator=g)
    farther = torch.where(received.abs() > received.abs().quantile(0.8, dim=1, keepdim=True), 1e3 * received, received)
    a, b = (half_means(visits_of(x, x).batched())["clipped_halves"].received for x in (received, farther))
    torch.testing.assert_close(a, b)


def test_gradients_of_zeros_stay_zeros():
    for found in halves_of(4, scale=0.0)[2].values():
        assert not found.received.any()


def test_a_fit_sees_one_step_a_half_with_every_row_in_it():
    _, _, found = halves_of(5)
    steps = VisitsByStep.of(found["halves"], torch.arange(50)[None])
    assert steps.times.tolist() == [0.0, 0.5]
    assert steps.rows.shape[1] == 2
    assert all(sorted(step[step < 50].tolist()) == list(range(50)) for step in steps.rows[0])
