"""The one training loop: equal to training in one piece, equal alone or in a pack, hooks in their order."""

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.helpers.problems import made_up_split, network_for, train
from tune_vfl.data.base import Split
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.evaluation.training import extended, wrap
from tune_vfl.models.layers import select_member
from tune_vfl.protocol import recorder as recorder_module
from tune_vfl.protocol.hooks import Context, Hooks, RowsById
from tune_vfl.protocol.loop import SplitTraining, learning_rate, overriding
from tune_vfl.protocol.losses import class_probabilities, task_gradient, task_loss
from tune_vfl.protocol.members import Batch, Pack, Rows
from tune_vfl.protocol.recorder import GradientRecorder
from tune_vfl.spec import Training

ALONE = Pack((0,), None)


def train_in_one_piece(split: Split, training: Training, *, classes: int, **options: object) -> nn.Module:
    """The naive twin: the same network, one backward through everything, the same order of rows."""
    network = network_for(split, ALONE, classes=classes, **options)
    optimizer: torch.optim.Optimizer
    if training.optimizer == "adam":
        optimizer = torch.optim.Adam(network.parameters(), lr=training.lr)
    else:
        optimizer = torch.optim.SGD(network.parameters(), lr=training.lr, momentum=training.momentum, weight_decay=5e-4)
    rows = Rows(split, ALONE)
    for _ in range(training.epochs):
        for batch in rows.batches(training.batch_size):
            loss = nn.functional.cross_entropy(network(batch.passive, batch.own), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return network


CASES: list[dict[str, Any]] = [
    {"classes": 2, "parties": 1, "own": True},
    {"classes": 3, "parties": 3, "own": True, "aggregation": "mean"},
    {"classes": 3, "parties": 2, "own": False},
    {"classes": 4, "parties": 1, "own": True, "aggregation": "sum", "top": "none"},
]


@pytest.mark.parametrize("case", CASES, ids=["split", "mean", "label_only", "nosplit"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_undefended_split_training_is_training_in_one_piece(case: dict[str, Any], optimizer: str) -> None:
    case = dict(case)
    classes = case.pop("classes")
    split = made_up_split(1, classes=classes, parties=case.pop("parties"), own=case.pop("own"))
    decay = {"weight_decay": 5e-4, "momentum": 0.9} if optimizer == "sgd" else {}
    training = Training(epochs=4, batch_size=16, lr=0.01, optimizer=optimizer, **decay)  # type: ignore[arg-type]
    ours = train(split, ALONE, training, [], classes=classes, **case)
    twin = train_in_one_piece(split, training, classes=classes, **case)
    for a, b in zip(ours.network.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def train_under(
    name: str, params: Sequence[dict[str, Any]], pack: Pack, split: Split, training: Training
) -> SplitTraining:
    """Train on two classes under a defense, with the columns, layers and head that it asks for."""
    cls = DEFENSES[name]
    built = [cls.Params(**p) for p in params]
    defense = cls(
        built[0] if pack.trials is None else [b for b in built for _ in pack.seeds],
        num_classes=2,
        embedding_dims=[5],
        mode="split" if "split" in cls.capabilities.modes else "label_only",
    )
    split = extended(split, defense, pack)
    y = pack.spread(split.y_train)
    own = None if split.active_train is None else pack.spread(split.active_train)
    defense.setup(y, torch.arange(y.shape[-1]).expand(y.shape), active_features=own, seed=pack.member_seeds)
    network = network_for(split, pack, head=cls.capabilities.head)
    wrap(network, defense)
    return SplitTraining(network, Rows(split, pack), training, [defense], pack.lead).run()


@pytest.mark.parametrize("name", [n for n in DEFENSES if DEFENSES[n].capabilities.stackable])
def test_a_pack_trains_what_each_member_trains_alone(name: str) -> None:
    """After 50 steps, with members of different settings and two seeds: max abs difference <= 1e-5."""
    settings: list[dict[str, Any]] = {
        "laplace": [{"scale": 1e-3}, {"scale": 1e-2}],
        "gradient_compression": [{"keep": 0.5}, {"keep": 0.25}],
        "marvell": [{"budget": 0.5}, {"budget": 4.0}],
        "kdk": [{"k": 2, "epsilon": 0.2, "teacher_epochs": 2}, {"k": 2, "epsilon": 0.4, "teacher_epochs": 2}],
        "label_dp": [{"epsilon": 0.5}, {"epsilon": 4.0}],
    }.get(name, [{}, {}])
    training = Training(epochs=10, batch_size=14, lr=0.01)
    seeds = (0, 1)
    splits = [made_up_split(s, own="split" in DEFENSES[name].capabilities.modes) for s in seeds]
    together = train_under(name, settings, Pack(seeds, len(settings)), Split.stack(splits), training)
    for member, (setting, seed) in enumerate((p, s) for p in settings for s in seeds):
        single = train_under(name, [setting], Pack((seed,), None), splits[seed], training)
        picked = select_member(together.network, member)
        for a, b in zip(single.network.parameters(), picked.parameters(), strict=True):
            assert (a - b).abs().max() <= 1e-5


def test_a_diverging_member_harms_no_other() -> None:
    split = Split.stack([made_up_split(0)])
    pack = Pack((0,), 3)
    training = Training(epochs=3, batch_size=14, lr=0.01)
    settings = [{"scale": 1e-3}, {"scale": 1e38}, {"scale": 1e-2}]
    trained = train_under("laplace", settings, pack, split, training)
    assert trained.diverged.tolist() == [False, True, False]
    calm = [{"scale": 1e-3}, {"scale": 1e-3}, {"scale": 1e-2}]
    without = train_under("laplace", calm, pack, split, training)
    for a, b in zip(trained.network.parameters(), without.network.parameters(), strict=True):
        assert torch.equal(a[0], b[0])
        assert torch.equal(a[2], b[2])


def test_training_stops_when_every_member_has_diverged() -> None:
    split = made_up_split(0)
    training = Training(epochs=50, batch_size=14, lr=1e30, optimizer="sgd")
    trained = train(split, ALONE, training, [])
    assert bool(trained.diverged)
    assert trained.epochs < 50


class Journal(Hooks):
    """Writes down which hook was called."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.context: Context | None = None

    def inputs(self, batch: Batch, rows: RowsById, *, epoch: int) -> Batch:
        self.calls.append("H2")
        own = rows.take(batch.ids)
        assert all(torch.equal(a, b) for a, b in zip(batch.features, own, strict=True))
        return batch

    def labels(self, y: Tensor, ids: Tensor) -> Tensor:
        self.calls.append("H1")
        return y

    def send_embedding(self, embedding: Tensor, *, party: int) -> Tensor:
        self.calls.append(f"H3/{party}")
        return embedding

    def loss(self, logits: Tensor, targets: Tensor, embeddings: Sequence[Tensor]) -> Tensor:
        self.calls.append("H5")
        return task_loss(logits, targets)

    def cut_gradient(self, grad: Tensor, *, y: Tensor, context: Context | None = None, party: int = 0) -> Tensor:
        self.calls.append(f"H7/{party}")
        self.context = context
        assert context is not None
        by_class = torch.stack([context.per_class_gradient(c) for c in range(3)])
        chosen = by_class.gather(0, y.view(1, -1, 1).expand(1, *grad.shape)).squeeze(0)
        # The gradient is linear in the one-hot label: row i is the gradient for its own class.
        torch.testing.assert_close(chosen, grad, atol=1e-6, rtol=1e-4)
        return grad

    def screen(self, gradients: list[Tensor]) -> list[Tensor]:
        self.calls.append("H7b")
        return gradients

    def gradient_received(self, gradient: Tensor, *, party: int, ids: Tensor, epoch: int, step: int) -> None:
        self.calls.append(f"H8/{party}")


@pytest.mark.parametrize("scale", ["batch_mean", "per_sample"])
def test_hooks_come_in_their_order_and_see_the_step(scale: Any) -> None:
    split = made_up_split(0, classes=3, parties=2)
    journal = Journal()
    train(split, ALONE, Training(epochs=1, batch_size=70, grad_scale=scale), [journal], classes=3)
    assert journal.calls == ["H2", "H1", "H3/0", "H3/1", "H5", "H7/0", "H7/1", "H7b", "H8/0", "H8/1"]
    assert journal.context is not None
    assert journal.context.logits.shape == (70, 3)
    assert [tuple(e.shape) for e in journal.context.embeddings] == [(70, 5), (70, 5)]


def test_hooks_that_nobody_overrides_are_not_called() -> None:
    assert overriding([Hooks(), Journal()], "top_step") == []
    assert len(overriding([Hooks(), Journal()], "labels")) == 1


class Doubling(Hooks):
    """Sends twice the gradient, and remembers how large it was when it came."""

    def __init__(self) -> None:
        self.seen: list[float] = []
        self.parties: set[int] = set()

    def cut_gradient(self, grad: Tensor, *, y: Tensor, context: Context | None = None, party: int = 0) -> Tensor:
        self.seen.append(float(grad.abs().sum()))
        self.parties.add(party)
        return grad * 2


def test_the_attacker_receives_exactly_what_was_sent() -> None:
    split = made_up_split(0)
    plain, doubled = (
        GradientRecorder({"first_batch"}, rows=70, epochs=1),
        GradientRecorder({"first_batch"}, rows=70, epochs=1),
    )
    train(split, ALONE, Training(epochs=1, batch_size=20), [plain])
    train(split, ALONE, Training(epochs=1, batch_size=20), [Doubling(), doubled])
    a, b = plain.recordings()["first_batch"], doubled.recordings()["first_batch"]
    torch.testing.assert_close(b.gradients, 2 * a.gradients)
    assert torch.equal(a.ids, b.ids)  # switching a defense on moves neither order nor weights


def test_gradient_scale_per_sample_multiplies_before_and_divides_after() -> None:
    split = made_up_split(0)
    small, large = Doubling(), Doubling()
    base = Training(epochs=1, batch_size=70)
    train(split, ALONE, base, [small])
    train(split, ALONE, base.model_copy(update={"grad_scale": "per_sample"}), [large])
    assert large.seen[0] == pytest.approx(70 * small.seen[0], rel=1e-5)


def test_protect_own_bottom_extends_the_defense_to_the_label_party() -> None:
    split = made_up_split(0)
    without, with_own = Doubling(), Doubling()
    train(split, ALONE, Training(epochs=1, batch_size=70), [without])
    train(split, ALONE, Training(epochs=1, batch_size=70, protect_own_bottom=True), [with_own])
    assert without.parties == {0}
    assert with_own.parties == {0, 1}


def test_recorder_keeps_each_moment_once_and_every_row() -> None:
    split = Split.stack([made_up_split(0), made_up_split(1)])
    pack = Pack((0, 1), 2)
    recorder = GradientRecorder({"first_batch", "epoch0", "last"}, rows=70, epochs=3)
    train(split, pack, Training(epochs=3, batch_size=32), [recorder])
    kept = recorder.recordings()
    assert kept["first_batch"].gradients.shape == (4, 32, 5)
    for moment in ("epoch0", "last"):
        assert kept[moment].batches == ((0, 32), (32, 64), (64, 70))  # type: ignore[index]
        assert kept[moment].ids.sort(-1).values.equal(torch.arange(70).expand(4, 70))  # type: ignore[index]
    assert torch.equal(kept["first_batch"].gradients, kept["epoch0"].gradients[:, :32])
    assert not torch.equal(kept["last"].gradients, kept["epoch0"].gradients)


def test_a_recording_over_the_limit_goes_to_disk_and_says_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    split = Split.stack([made_up_split(0), made_up_split(1)])

    def recorded(parties: int = 1) -> GradientRecorder:
        recorder = GradientRecorder({"epoch0", "last"}, rows=70, epochs=2, parties=parties)
        train(split, Pack((0, 1), 2), Training(epochs=2, batch_size=32), [recorder])
        return recorder

    in_memory = recorded().recordings()
    files: list[str] = []

    def noticing(name: str, *args: Any, **kwargs: Any) -> torch.Tensor:
        files.append(name)
        return from_file(name, *args, **kwargs)

    from_file = torch.from_file
    monkeypatch.setattr(torch, "from_file", noticing)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    # Four members, 70 rows, five floats and an id: 7,840 bytes a moment. Together the two are over the limit.
    monkeypatch.setattr(recorder_module, "IN_MEMORY_BYTES", 15_000)
    on_disk = recorded().recordings()
    assert len(files) == 4
    assert not list(tmp_path.iterdir())
    for moment in ("epoch0", "last"):
        assert torch.equal(on_disk[moment].gradients, in_memory[moment].gradients)  # type: ignore[index]
        assert torch.equal(on_disk[moment].ids, in_memory[moment].ids)  # type: ignore[index]
    monkeypatch.setattr(recorder_module, "IN_MEMORY_BYTES", 16_000)
    recorded()
    assert len(files) == 4  # within the limit nothing touches the disk
    recorded(parties=2)
    assert len(files) == 8  # the recordings of another party are over it


@pytest.mark.parametrize("size", [7, 16, 64])
def test_batches_are_the_same_however_many_are_gathered_at_once(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    split, pack = Split.stack([made_up_split(0), made_up_split(1)]), Pack((0, 1), 2)
    found = []
    for together in (1, 2000, 2**20):
        monkeypatch.setattr("tune_vfl.protocol.members._GATHERED_BYTES", together)
        found.append(list(Rows(split, pack).batches(size)))
    for batch, *others in zip(*found, strict=True):
        for other in others:
            assert batch.ids.equal(other.ids)
            assert batch.y.equal(other.y)
            assert all(x.equal(y) for x, y in zip(batch.features, other.features, strict=True))
    assert sum(batch.ids.shape[-1] for batch in found[0]) == split.y_train.shape[-1]


def test_members_with_one_seed_see_the_same_batches() -> None:
    split = Split.stack([made_up_split(0), made_up_split(1)])
    batch = next(Rows(split, Pack((0, 1), 2)).batches(16))
    assert torch.equal(batch.ids[0], batch.ids[2])
    assert not torch.equal(batch.ids[0], batch.ids[1])
    assert torch.equal(batch.y[1], split.y_train[1][batch.ids[1]])
    assert torch.equal(batch.passive[0][1], split.passive_train[0][1][batch.ids[1]])


def test_learning_rate_schedules() -> None:
    assert learning_rate(Training(lr=0.1), 9) == 0.1
    assert learning_rate(Training(lr=0.1, lr_schedule="inverse_sqrt"), 3) == pytest.approx(0.05)
    steps = Training(lr=0.1, lr_schedule="multistep", milestones=(2, 4), lr_decay=0.1)
    assert [learning_rate(steps, e) for e in (0, 2, 4)] == pytest.approx([0.1, 0.01, 0.001])


def test_sure_positives_of_one_logit_stay_apart() -> None:
    sure = class_probabilities(torch.tensor([[20.0], [30.0], [-20.0]])).double()
    margin = sure[:, 1] - sure[:, 0]
    assert margin[1] > margin[0] > margin[2]
    torch.testing.assert_close(sure.sum(-1), torch.ones(3, dtype=torch.float64))


@pytest.mark.parametrize("lead", [(), (3,)], ids=["alone", "pack"])
@pytest.mark.parametrize("columns", [1, 2, 5])
@pytest.mark.parametrize("soft", [False, True])
def test_the_gradient_of_the_task_loss_is_the_one_of_autograd(lead: tuple[int, ...], columns: int, soft: bool) -> None:
    g = torch.Generator().manual_seed(0)
    logits = (torch.randn(*lead, 7, columns, generator=g) * 4).requires_grad_()
    classes = max(columns, 2)
    hard = torch.randint(classes, (*lead, 7), generator=g)
    targets = torch.rand(*lead, 7, classes, generator=g) * 2 if soft else hard  # not summing to 1, as codecs make them
    task_loss(logits, targets).sum().backward()
    torch.testing.assert_close(task_gradient(logits.detach(), targets), logits.grad, atol=1e-7, rtol=1e-5)


def test_task_loss_closed_forms() -> None:
    assert float(task_loss(torch.zeros(4, 3), torch.tensor([0, 1, 2, 0]))) == pytest.approx(math.log(3))
    assert float(task_loss(torch.zeros(4, 1), torch.tensor([0, 1, 1, 0]))) == pytest.approx(math.log(2))
    soft = torch.tensor([[0.25, 0.75]])
    logits = torch.tensor([[0.0, 1.0]])
    one_logit = torch.tensor([[1.0]])
    # A two-logit and a one-logit net with the same probabilities have the same loss.
    assert float(task_loss(logits, soft)) == pytest.approx(float(task_loss(one_logit, soft)), rel=1e-6)
    torch.testing.assert_close(class_probabilities(logits), class_probabilities(one_logit))
