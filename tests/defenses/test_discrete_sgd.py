"""DiscreteSGD: the levels of each mode, and outliers."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.problems import made_up_split, train
from tune_vfl.defenses.discrete_sgd import DiscreteSgd, DiscreteSgdParams
from tune_vfl.errors import UsageError
from tune_vfl.protocol.hooks import Hooks
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Training
from tune_vfl.testing.defenses import build, run
from tune_vfl.testing.gradients import CASES, MadeUpRows, make_rows

MODES, OUTLIERS = ("fixed_bound", "first_epoch", "first_batch"), ("clamp", "round", "zero")


def made(rows=0, **params):
    defense = DiscreteSgd(DiscreteSgdParams(**params), num_classes=10, embedding_dims=[10])
    if rows:
        defense.setup(torch.zeros(rows, dtype=torch.int64), torch.arange(rows))
    return defense


def send(defense, grad, party=0):
    return defense.cut_gradient(grad, y=torch.zeros(len(grad)), party=party)


def normal(rows, seed=0, scale=1.0):
    return torch.randn(rows, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale


@given(bins=st.integers(2, 48), bound=st.floats(1e-3, 1), outliers=st.sampled_from(OUTLIERS), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_fixed_bound_is_the_nearest_multiple_one_entry_at_a_time(bins, bound, outliers, seed):
    grad = normal(8, seed, 0.5)
    width = 2 * bound / bins
    # numpy's round is half to even too.
    steps = [int(np.round(g / width)) for g in grad.flatten().tolist()]
    last = bins // 2
    naive = []
    for g, step in zip(grad.flatten().tolist(), steps, strict=True):
        if outliers == "zero" and abs(g) > bound:
            naive.append(0.0)
        else:
            naive.append(width * (step if outliers == "round" else min(max(step, -last), last)))
    sent = send(made(bins=bins, bound=bound, outliers=outliers), grad)
    torch.testing.assert_close(sent.flatten(), torch.tensor(naive, dtype=torch.float64), rtol=1e-12, atol=1e-12)
    assert outliers == "round" or sent.abs().max().item() <= bound * (1 + 1e-12)


@pytest.mark.parametrize("bins", [4, 5])
def test_first_epoch_is_sent_raw_and_gives_the_interval(bins):
    defense, first = made(rows=50, mode="first_epoch", bins=bins), normal(50) + 3
    assert torch.equal(send(defense, first[:30]), first[:30])
    assert torch.equal(send(defense, first[30:]), first[30:])
    low, high = first.mean() - 2 * first.std(correction=0), first.mean() + 2 * first.std(correction=0)
    ends = torch.linspace(low, high, bins + 1, dtype=torch.float64)
    later = normal(40, 1, 3.0) + 3
    naive = ends[(later.unsqueeze(-1) - ends).abs().argmin(-1)]  # the nearest end also clamps
    torch.testing.assert_close(send(defense, later), naive)
    torch.testing.assert_close(send(defense, later, party=1), later)  # that party's first epoch


def test_first_epoch_outliers():
    first, later = normal(50), torch.tensor([[100.0, -100, 0, 0, 0]], dtype=torch.float64)
    sent = {}
    for rule in OUTLIERS:
        defense = made(rows=50, mode="first_epoch", bins=4, outliers=rule)
        send(defense, first)
        sent[rule] = send(defense, later)[0, :2]
    assert (sent["zero"] == 0).all()
    spread = first.std(correction=0)
    torch.testing.assert_close(sent["clamp"], first.mean() + 2 * spread * torch.tensor([1.0, -1], dtype=torch.float64))
    assert ((sent["round"] - later[0, :2]).abs() <= spread / 2).all()


def test_first_epoch_wants_to_know_the_rows():
    with pytest.raises(UsageError, match="setup"):
        send(made(mode="first_epoch"), normal(4))
    assert made(mode="first_epoch").notes()
    assert not made().notes()


@pytest.mark.parametrize(("bins", "parts"), [(6, 3), (7, 4)])
def test_first_batch_sets_the_width_for_good(bins, parts):
    defense, first = made(mode="first_batch", bins=bins, outliers="round"), normal(64)
    width = 2 * first.std(correction=0) / parts
    for grad in (first, normal(20, 1, 7.0)):
        torch.testing.assert_close(send(defense, grad), (grad / width).round() * width)
    clamped = send(made(mode="first_batch", bins=bins), first)
    assert clamped.abs().max().item() == pytest.approx(2 * first.std(correction=0).item())


def test_a_first_batch_without_spread_is_not_the_measure():
    defense, grad = made(mode="first_batch"), normal(64)
    assert not send(defense, torch.full((8, 5), 0.25, dtype=torch.float64)).any()
    torch.testing.assert_close(send(defense, grad), send(made(mode="first_batch"), grad))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@pytest.mark.parametrize(("mode", "outliers"), list(itertools.product(MODES, OUTLIERS)))
def test_a_pack_is_its_members_in_every_mode(case, mode, outliers):
    seeds, alone = [0, 1, 0], make_rows(case, [0, 1, 0])
    params = [DiscreteSgdParams(bins=b, bound=0.01 * b, mode=mode, outliers=outliers) for b in (4, 7, 24)]

    def twice(rows, given, seed):  # the second pass is the second epoch
        defense = build(DiscreteSgd, given, case, rows, seed)
        return [run(defense, rows), run(defense, rows)]

    together = twice(MadeUpRows.stack(alone), params, seeds)
    for member, rows in enumerate(alone):
        for both, single in zip(together, twice(rows, params[member], seeds[member]), strict=True):
            for name, value in single.items():
                if name.startswith("gradient"):
                    torch.testing.assert_close(both[name][member], value, rtol=0, atol=1e-7)


class Received(Hooks):
    """Keeps what a passive party receives, by epoch."""

    def __init__(self):
        self.by_epoch = {}

    def gradient_received(self, gradient, *, party, ids, epoch, step):
        self.by_epoch.setdefault(epoch, []).append(gradient.flatten())


@pytest.mark.parametrize("mode", MODES)
def test_in_a_training_only_first_epoch_sends_more_than_a_few_numbers_and_only_then(mode):
    split, pack, bins = made_up_split(0, rows=70), Pack((0,), None), 6
    defense = DiscreteSgd(DiscreteSgdParams(mode=mode, bins=bins), num_classes=2, embedding_dims=[5])
    defense.setup(split.y_train, torch.arange(70))
    received = Received()
    train(split, pack, Training(epochs=3, batch_size=32, lr=0.01), [defense, received])
    counts = [len(torch.cat(received.by_epoch[epoch]).unique()) for epoch in range(3)]
    assert counts[0] > 100 if mode == "first_epoch" else counts[0] <= bins + 1
    assert max(counts[1:]) <= bins + 1
