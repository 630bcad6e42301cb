"""What a defense costs: whole trainings from a part of their steps, by a clock that ticks with the work."""

from types import SimpleNamespace

import pytest

from tests.helpers.cells import cells
from tune_vfl.defenses.base import defense_params
from tune_vfl.defenses.parts import teachers
from tune_vfl.evaluation import cost, pace
from tune_vfl.evaluation.cost import FEWEST_STEPS, training_cost
from tune_vfl.evaluation.federations import vertical
from tune_vfl.evaluation.pace import seconds_per_epoch
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.timed import TimedTraining
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.members import Pack

cell_of = cells("training.epochs=20", "training.batch_size=100")
STEPS = 4
"""Of an epoch: 398 training rows, a hundred at a time."""
UNDEFENDED = cell_of("norm", defense="none")


class Ticks:
    """A clock that goes on with work alone: a step without a defense takes 1, one with it what is said."""

    def __init__(self, monkeypatch, *, step=2, first_epoch=2, setup=0, enough=1e9):
        self.now, self.steps = 0.0, 0
        train, prepare = SplitTraining._train_batch, vertical.build_defense

        def trained(loop, batch, epoch):
            defended = type(loop.hooks[0]).__name__ == "Laplace"
            self.now += (first_epoch if epoch == 0 else step) if defended else 1
            self.steps += 1
            return train(loop, batch, epoch)

        def prepared(task, *arguments, **named):
            self.now += setup if task.cell.defense == "laplace" else 0
            return prepare(task, *arguments, **named)

        monkeypatch.setattr(SplitTraining, "_train_batch", trained)
        monkeypatch.setattr(vertical, "build_defense", prepared)
        monkeypatch.setattr(cost, "ENOUGH_SECONDS", enough)
        monkeypatch.setattr(cost, "_clock", lambda _device: lambda: self.now)
        monkeypatch.setattr(pace, "time", SimpleNamespace(perf_counter=lambda: self.now))


@pytest.mark.parametrize("ticks", [50, 10_000], ids=["some steps", "all steps"])
def test_twice_the_work_costs_two_and_what_comes_before_it_counts_once(monkeypatch, ticks):
    monkeypatch.setattr(cost, "SECONDS", ticks)
    clock = Ticks(monkeypatch, setup=80)
    whole = 20 * STEPS
    assert training_cost(cell_of("norm"), {"scale": 0.1}, UNDEFENDED) == pytest.approx((80 + 2 * whole) / whole)
    assert (clock.steps < 2 * whole) == (ticks == 50)


def test_a_first_epoch_that_is_another_counts_as_one_epoch(monkeypatch):
    monkeypatch.setattr(cost, "SECONDS", 100)
    Ticks(monkeypatch, first_epoch=9)
    assert training_cost(cell_of("norm"), {"scale": 0.1}, UNDEFENDED) == pytest.approx((9 + 19 * 2) / 20)


def test_a_few_steps_are_taken_of_each_however_long_they_take(monkeypatch):
    monkeypatch.setattr(cost, "SECONDS", 5)
    clock = Ticks(monkeypatch, setup=80)
    assert training_cost(cell_of("norm"), {"scale": 0.1}, UNDEFENDED) == pytest.approx(3.0)
    assert clock.steps == 2 * FEWEST_STEPS


def test_of_a_very_long_training_one_step_says_enough(monkeypatch):
    monkeypatch.setattr(cost, "SECONDS", 5)
    clock = Ticks(monkeypatch, setup=80, enough=50)
    assert training_cost(cell_of("norm"), {"scale": 0.1}, UNDEFENDED) == pytest.approx(3.0)
    assert clock.steps == 2


def test_what_grows_dearer_as_the_model_learns_is_seen_growing(monkeypatch):
    monkeypatch.setattr(cost, "SECONDS", 10_000)
    Ticks(monkeypatch, first_epoch=1, step=3)
    assert training_cost(cell_of("norm"), {"scale": 0.1}, UNDEFENDED) == pytest.approx((1 + 19 * 3) / 20)


def test_by_the_processs_own_clock_an_undefended_training_costs_one(monkeypatch):
    monkeypatch.setattr(cost, "SECONDS", 0.05)
    assert training_cost(UNDEFENDED, {}, UNDEFENDED) == pytest.approx(1.0, abs=0.3)


def test_on_a_gpu_all_work_is_over_before_the_clock_is_read(monkeypatch):
    told = []
    monkeypatch.setattr(cost.torch.cuda, "synchronize", lambda: told.append("over"))
    monkeypatch.setattr(cost, "time", SimpleNamespace(perf_counter=lambda: told.append("read") or 1.0))
    assert cost._clock("cuda")() == 1.0
    assert told == ["over", "read"]


def test_a_teacher_is_trained_anew_although_the_process_has_trained_it_before(monkeypatch):
    trained, train = [], teachers.train_teacher
    monkeypatch.setattr(cost, "SECONDS", 0.0)
    monkeypatch.setattr(teachers, "train_teacher", lambda *a, **k: trained.append(a) or train(*a, **k))
    quick = {"teacher_epochs": 1, "k": 2}
    for defense in ("kdk", "ladsg"):
        assert training_cost(cell_of("norm", defense=defense), quick, UNDEFENDED) > 0
    assert len(trained) == 2


def test_a_training_that_is_timed_ends_with_its_last_step():
    task = Task.open(UNDEFENDED)
    params = [defense_params("none", {}, num_classes=2)]
    watched = TimedTraining(task, params, Pack((0,), None), clock=lambda: 0.0)
    while watched.step():
        pass
    assert len(watched.steps) == watched.total == 20 * STEPS


def test_an_epoch_of_a_pack_is_shared_by_its_trials(monkeypatch):
    clock = Ticks(monkeypatch)
    assert seconds_per_epoch(cell_of("norm"), 3) == pytest.approx(STEPS / 3)
    assert clock.steps == STEPS + 1, "an epoch, and what sets up the first step"
