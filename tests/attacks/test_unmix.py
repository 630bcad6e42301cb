"""Unmixing: what comes back of rows that were mixed, by hand, by LSQR, and out of a training that mixes."""

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import lsqr

from tests.helpers.cells import cells
from tune_vfl.attacks.unmix import RIDGE, Unmix, unmixed
from tune_vfl.defenses.base import Defense, defense_params
from tune_vfl.evaluation.grants.base import keepers_for, view_of
from tune_vfl.evaluation.grants.mixtures import ReceivedForMixtures, spans_of
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack, untrained
from tune_vfl.protocol.granted import MixedGradients, Mixtures
from tune_vfl.protocol.members import Pack

ROWS, WIDTH = 40, 3
cell_of = cells("training.epochs=5", dataset="wine", attacks=["unmix"])


def noise(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def drawn(seed, mix):
    g = torch.Generator().manual_seed(seed)
    partners = [torch.arange(ROWS), *(torch.randperm(ROWS, generator=g) for _ in range(mix - 1))]
    return Mixtures(torch.stack(partners, -1), torch.rand(ROWS, mix, generator=g).softmax(-1))


def dense(mixtures):
    """The shares of all epochs as one matrix ``(E N, N)``, entry by entry."""
    whole = torch.zeros(len(mixtures) * ROWS, ROWS, dtype=torch.float64)
    for e, mixed in enumerate(mixtures):
        for n in range(ROWS):
            for row, share in zip(mixed.partners[n].tolist(), mixed.shares[n].tolist(), strict=True):
                whole[e * ROWS + n, row] += share
    return whole


def received(mixtures, noisy):
    """Rows' gradients, what comes back for mixtures of them, and the sums that are kept of it."""
    truth, shares = noise(7, ROWS, WIDTH), dense(mixtures)
    heard = shares @ truth.double() + noisy * noise(8, len(shares), WIDTH)
    return truth, heard, MixedGradients(mixtures, (shares.T @ heard).float())


@pytest.mark.parametrize("mix", [1, 2, 4])
def test_mixtures_that_determine_the_rows_give_them_back(mix):
    truth, _, mixed = received([drawn(seed, mix) for seed in range(6)], noisy=0.0)
    torch.testing.assert_close(unmixed(mixed, ridge=1e-9), truth, atol=1e-4, rtol=0)


def test_it_is_what_lsqr_finds_of_everything_that_was_received():
    mixtures = [drawn(seed, 2) for seed in range(4)]
    _, heard, mixed = received(mixtures, noisy=0.3)
    damp = (RIDGE * len(mixtures)) ** 0.5
    twin = [lsqr(dense(mixtures).numpy(), column.numpy(), damp, atol=1e-12, btol=1e-12)[0] for column in heard.T]
    torch.testing.assert_close(unmixed(mixed).T.double(), torch.from_numpy(np.stack(twin)), atol=1e-4, rtol=0)


def test_more_epochs_say_more_of_each_row_unless_they_repeat_themselves():
    def error(mixtures):
        truth, _, mixed = received(mixtures, noisy=0.3)
        return float((unmixed(mixed) - truth).square().mean())

    fresh, again = error([drawn(seed, 2) for seed in range(20)]), error([drawn(0, 2)] * 20)
    assert fresh < 0.05 < again < error([drawn(0, 2)])


def test_rows_that_no_mixture_tells_apart_share_what_came_back():
    halves = Mixtures(torch.arange(ROWS).view(-1, 2).flip(-1).repeat_interleave(2, 0), torch.full((ROWS, 2), 0.5))
    truth, _, mixed = received([halves], noisy=0.0)
    both = truth.view(-1, 2, WIDTH).mean(1, keepdim=True).expand(-1, 2, -1).reshape(truth.shape)
    torch.testing.assert_close(unmixed(mixed, ridge=1e-6), both, atol=1e-4, rtol=0)


def test_a_member_whose_gradients_are_lost_harms_no_other():
    mixtures = [drawn(seed, 2) for seed in range(3)]
    _, _, mixed = received(mixtures, noisy=0.1)
    both = [Mixtures(*(torch.stack([x, x]) for x in (m.partners, m.shares))) for m in mixtures]
    totals = torch.stack([mixed.totals, torch.full_like(mixed.totals, torch.nan)])
    found = unmixed(MixedGradients(both, totals))
    torch.testing.assert_close(found[0], unmixed(mixed))
    assert torch.isfinite(found).all()


class Everything(ReceivedForMixtures):
    """Keeps beside the sums all that was received, and the mixtures as they were when it came."""

    def begin(self, loop):
        super().begin(loop)
        self.hooked = next(h for h in loop.hooks if isinstance(h, Defense))
        self.heard, self.mixed = {}, {}

    def gradient_received(self, gradient, *, party, ids, epoch, step):
        super().gradient_received(gradient, party=party, ids=ids, epoch=epoch, step=step)
        rows = self.heard.setdefault(epoch, torch.zeros(*ids.shape[:-1], self.rows, gradient.shape[-1]))
        rows.scatter_(-2, ids.unsqueeze(-1).expand(gradient.shape), gradient * ids.shape[-1])
        self.mixed.setdefault(epoch, self.hooked.mixtures(epoch))


def trained(monkeypatch, pack, keeper, **params):
    monkeypatch.setattr("tune_vfl.evaluation.grants.mixtures.RowMixtures.keeps", (keeper,))
    task = Task.open(cell_of(defense="mixup"))
    setting = defense_params("mixup", params, num_classes=3)
    attack = Unmix()
    return attack, train_pack(task, [setting], pack, [attack])


@pytest.mark.parametrize("remix", ["epoch", "once"])
def test_what_is_kept_of_a_training_is_what_was_received_for_mixtures(monkeypatch, remix):
    _, run = trained(monkeypatch, Pack((0, 1), 1), Everything, mix=3, remix=remix)
    kept = run.kept(Everything)
    spans = kept.of((0,))
    assert {span: len(mixed.mixtures) for span, mixed in spans.items()} == {
        "epoch0": 1,
        "early": 1,
        "late": 1,
        "mean": 5,
    }
    assert len({id(m) for m in spans["mean"].mixtures}) == (5 if remix == "epoch" else 1)
    for span, epochs in spans_of(5).items():
        expected = torch.zeros_like(spans[span].totals)
        for e, known in zip(epochs, spans[span].mixtures, strict=True):
            assert torch.equal(known.partners, kept.mixed[e].partners)
            assert torch.equal(known.shares, kept.mixed[e].shares)
            for member in range(2):
                for j in range(3):
                    parts = kept.heard[e][member] * known.shares[member, :, j, None]
                    expected[member].index_add_(0, known.partners[member, :, j], parts)
        torch.testing.assert_close(spans[span].totals, expected, atol=1e-5, rtol=1e-4)


def test_a_training_alone_and_in_a_pack_give_the_same_answer():
    task, pack, attack = Task.open(cell_of(defense="mixup")), Pack((0, 1), 1), Unmix()
    setting = defense_params("mixup", {}, num_classes=3)
    together = train_pack(task, [setting], pack, [attack])
    whole = attack.run(view_of(attack, together))["unmix"]
    for index in range(2):
        one = attack.run(view_of(attack, together.member(index)))["unmix"]
        torch.testing.assert_close(one.scores, whole.scores[index], atol=2e-3, rtol=0)


def test_without_a_training_each_row_gets_noise_of_its_own():
    task, attack = Task.open(cell_of(defense="mixup")), Unmix()
    (kind,) = keepers_for([attack])
    spans = untrained(task, Pack((3,), None), [attack]).kept(kind).of((0,))
    found = {span: unmixed(mixed) for span, mixed in spans.items()}
    for gradients in found.values():
        assert float(gradients.std()) == pytest.approx(1 / (1 + RIDGE), abs=0.1)
    assert not torch.allclose(found["epoch0"], found["early"])


def test_mixtures_of_an_epoch_are_drawn_again_as_they_were():
    from tune_vfl.defenses.base import DEFENSES
    from tune_vfl.defenses.parts.mixing import MixingParams

    mixing = DEFENSES["mixup"](MixingParams(), num_classes=2, embedding_dims=[1])
    mixing.setup(torch.zeros(ROWS, dtype=torch.int64), torch.arange(ROWS), seed=5)
    first = mixing.mixtures(0)
    mixing._draw(3)
    assert torch.equal(mixing.mixtures(0).partners, first.partners)
    assert torch.equal(mixing.mixtures(0).shares, first.shares)
    assert not torch.equal(mixing.mixtures(3).partners, first.partners)
