"""Means of gradients over epochs: against a naive twin, what is left of fresh noise, and what attacks make of them."""

import pytest
import torch

from tests.helpers.cells import cells
from tests.helpers.problems import made_up_split, train
from tune_vfl.attacks.base import ATTACKS
from tune_vfl.data.base import Split
from tune_vfl.evaluation import evaluate_pack
from tune_vfl.evaluation.packs import trials_that_fit
from tune_vfl.evaluation.task import Task
from tune_vfl.metrics.leakage import leak_auc
from tune_vfl.protocol import recorder as recorder_module
from tune_vfl.protocol.hooks import Hooks
from tune_vfl.protocol.members import Pack
from tune_vfl.protocol.recorder import GradientRecorder, recording_bytes
from tune_vfl.protocol.view import Average, Recording
from tune_vfl.spec import Training
from tune_vfl.spec.cell import Cell
from tune_vfl.testing.views import make_world

EPOCHS, ROWS, BATCH = 5, 70, 32


class Diary(Hooks):
    """Writes down everything: ``(epoch, ids, gradient)`` of each batch."""

    def __init__(self) -> None:
        self.pages: list[tuple[int, torch.Tensor, torch.Tensor]] = []

    def gradient_received(self, gradient, *, party, ids, epoch, step):
        if party == 0:
            self.pages.append((epoch, ids.clone(), gradient.clone()))

    def mean(self, epochs: int, member: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Row by row, in the order of the last epoch; the gradient of a row's own loss over its last batch's rows."""
        sums, last, order = {}, {}, []
        for epoch, ids, gradient in self.pages:
            if epoch < EPOCHS - epochs:
                continue
            mine, rows = (ids, gradient) if member is None else (ids[member], gradient[member])
            for row, received in zip(mine.tolist(), rows, strict=True):
                sums[row] = sums.get(row, 0.0) + received * len(mine)
                last[row] = len(mine)
            order += mine.tolist() if epoch == EPOCHS - 1 else []
        over = min(epochs, EPOCHS)
        return torch.tensor(order), torch.stack([sums[r] / (last[r] * over) for r in order])


def recorded(pack: Pack, *epochs: int) -> tuple[dict, Diary]:
    split = made_up_split(0) if pack.trials is None else Split.stack([made_up_split(s) for s in pack.seeds])
    recorder, diary = GradientRecorder({Average(r) for r in epochs}, rows=ROWS, epochs=EPOCHS), Diary()
    training = Training(epochs=EPOCHS, batch_size=BATCH, lr=0.01)
    train(split, pack, training, [recorder, diary])
    return recorder.recordings(), diary


@pytest.mark.parametrize("epochs", [1, 3, 5, 9])
def test_means_are_those_of_a_diary(epochs):
    kept, diary = recorded(Pack((0,), None), epochs)
    ids, gradients = diary.mean(epochs)
    assert torch.equal(kept[Average(epochs)].ids, ids)
    assert torch.equal(kept[Average(epochs)].gradients, gradients)
    assert kept[Average(epochs)].batches == ((0, 32), (32, 64), (64, 70))


def test_each_member_of_a_pack_has_its_own_mean(monkeypatch):
    in_memory, diary = recorded(Pack((0, 1), 2), 2, 3)
    monkeypatch.setattr(recorder_module, "IN_MEMORY_BYTES", 0)
    on_disk, _ = recorded(Pack((0, 1), 2), 2, 3)
    for epochs in (2, 3):
        for member in range(4):
            ids, gradients = diary.mean(epochs, member)
            mean = in_memory[Average(epochs)].of_members(member)
            assert torch.equal(mean.ids, ids)
            assert torch.equal(mean.gradients, gradients)
        assert torch.equal(on_disk[Average(epochs)].gradients, in_memory[Average(epochs)].gradients)


def test_a_mean_over_one_epoch_is_that_epoch():
    pack = Pack((0,), None)
    split = made_up_split(0)
    recorder = GradientRecorder({"last", Average(1)}, rows=ROWS, epochs=2)
    training = Training(epochs=2, batch_size=BATCH)
    train(split, pack, training, [recorder])
    last, mean = recorder.recordings()["last"], recorder.recordings()[Average(1)]
    assert torch.equal(last.ids, mean.ids)
    torch.testing.assert_close(last.gradients, mean.gradients)


def test_an_unfinished_mean_is_not_handed_out():
    recorder = GradientRecorder({Average(2)}, rows=4, epochs=2)
    for epoch, ids in ((0, [2, 3]), (0, [0, 1]), (1, [0, 2])):
        recorder.gradient_received(torch.ones(2, 3), party=0, ids=torch.tensor(ids), epoch=epoch, step=0)
        assert recorder.recordings() == {}
    with pytest.raises(ValueError, match="1 epoch or more"):
        Average(0)


def noisy_means(epochs: int, sigma: float) -> tuple[Recording, torch.Tensor, torch.Tensor]:
    """Record gradients that stay as they are from epoch to epoch, under noise drawn anew; return signal and labels."""
    world, g = make_world(0, rows=2000), torch.Generator().manual_seed(epochs)
    signal = world.recordings["last"]
    recorder = GradientRecorder({Average(epochs)}, rows=2000, epochs=epochs)
    for epoch in range(epochs):
        for start, stop in signal.batches:
            sent = signal.gradients[start:stop] + sigma * torch.randn(stop - start, 4, generator=g)
            recorder.gradient_received(sent, party=0, ids=signal.ids[start:stop], epoch=epoch, step=start + epoch)
    return recorder.recordings()[Average(epochs)], signal.gradients, world.y_train


@pytest.mark.parametrize("epochs", [1, 4, 25])
def test_of_fresh_noise_a_mean_keeps_its_variance_over_the_epochs(epochs):
    mean, signal, _ = noisy_means(epochs, sigma=0.1)
    assert (mean.gradients - signal).square().mean().item() == pytest.approx(0.01 / epochs, rel=0.05)


def test_the_longer_the_mean_the_less_noise_protects():
    def leak(epochs: int, sigma: float) -> float:
        mean, _, y = noisy_means(epochs, sigma)
        world = make_world(0, rows=2000)
        world.recordings["last"] = mean
        cls = ATTACKS["direction"]
        answer = cls(cls.Params(moments=("last",))).run(world.view("direction"))["direction"]
        keep = answer.counted
        return leak_auc(answer.scores[keep].numpy(), y[answer.ids][keep].numpy(), flip=False)

    undefended = leak(1, 0.0)
    leaks = [leak(r, 0.06) for r in (1, 8, 64, 512)]
    assert undefended > 0.95
    assert leaks[0] < 0.62
    assert leaks == sorted(leaks)
    assert leaks[-1] == pytest.approx(undefended, abs=0.02)


def averaged(average: int) -> Cell:
    asked = {"average": average, "moments": ["last"]}
    attacks = [{"name": n, **asked} for n in ("norm", "direction", "mean")]
    median = {"name": "median", "rule": "both", **asked}
    return cells("training.epochs=6", defense="gaussian")(*attacks, median)


def test_means_are_attacked_beside_the_last_epoch():
    settings = [{"sigma": s} for s in (1e-4, 0.05)]
    plain, beside = evaluate_pack(averaged(0), settings), evaluate_pack(averaged(5), settings)
    for without, both in zip(plain, beside, strict=True):
        for name, score in both.attacks.items():
            before = without.attacks[name].variants
            assert {v for v in score.variants if "@" not in v} == set(before)
            assert {v for v in score.variants if "@" in v} == {f"{v}@averaged" for v in before}
            assert all(score.variants[v] == before[v] for v in before)
    median = beside[1].attacks["median"]
    assert set(median.variants) == {"class_median", "pooled", "class_median@averaged", "pooled@averaged"}
    (alone,) = evaluate_pack(averaged(5), settings[1:])
    for name, score in beside[1].attacks.items():
        for variant, values in score.variants.items():
            assert alone.attacks[name].variants[variant]["values"] == pytest.approx(values["values"], abs=5e-3)


def test_only_true_class_medians_are_an_oracle():
    cls = ATTACKS["median"]
    built = cls(cls.Params(average=3))
    assert [built.is_upper_bound(f"{v}@averaged") for v in ("class_median", "pooled")] == [True, False]


def test_a_mean_takes_the_room_of_an_epoch():
    def room(cell):
        return trials_that_fit(Task.open(cell))

    assert recording_bytes(2, 100, 10, {"last", Average(7)}) == 2 * recording_bytes(2, 100, 10, {"last"})
    assert room(averaged(5)) == pytest.approx(room(averaged(0)) / 2, abs=1)
