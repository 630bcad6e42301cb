"""Models that noise has moved: as far as a training moves them, by nothing that says anything of a label."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.helpers.cells import cells
from tune_vfl.evaluation import drifting
from tune_vfl.evaluation.drifting import drifted
from tune_vfl.evaluation.grants.base import view_of
from tune_vfl.evaluation.run import Run
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import split_of, train_pack
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Strict

SEEDS = (0, 1)
cell_of = cells("training.epochs=2", defense="none")
PACK = Pack(SEEDS, 1)


def weights(run: Run) -> Tensor:
    """Return each member's weights of the bottom model."""
    return torch.cat([p.detach().flatten(1) for p in run.network.bottoms.parameters()], -1)


def test_no_label_reaches_a_bottom_model_that_noise_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels of other rows change the size of the noise alone, which Adam does not see."""
    task = Task.open(cell_of("pmc"))
    one = weights(drifted(task, PACK, []))
    split = split_of(task, PACK)
    monkeypatch.setattr(drifting, "split_of", lambda *_: replace(split, y_train=split.y_train.roll(50, -1)))
    torch.testing.assert_close(weights(drifted(task, PACK, [])), one, atol=2e-4, rtol=0)


OPTIMIZERS = [
    {"optimizer": "adam"},
    {"optimizer": "sgd", "lr": 0.05},
    {"optimizer": "sgd", "lr": 0.02, "momentum": 0.9},
]


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=["adam", "sgd", "momentum"])
def test_noise_moves_a_model_about_as_far_as_a_training_does(optimizer: dict[str, object]) -> None:
    def moved(model: Callable[[Task], Run]) -> Tensor:
        task = Task.open(cell_of("pmc", training={"epochs": 10, **optimizer}))
        still = task.cell.training.model_copy(update={"lr": 1e-12})
        start = replace(task, cell=task.cell.model_copy(update={"training": still}))
        return (weights(model(task)) - weights(model(start))).norm(dim=-1)

    by_noise = moved(lambda task: drifted(task, PACK, []))
    by_training = moved(lambda task: train_pack(task, [Strict()], PACK, []))
    assert ((by_noise > by_training / 5) & (by_noise < 5 * by_training)).all(), (by_noise, by_training)


def test_attackers_see_the_embeddings_as_sent_and_noise_for_gradients() -> None:
    task = Task.open(cell_of("matched_filter"))
    (attack,) = task.attacks

    def most_apart(run: Run) -> float:
        """Return by how many deviations of a mean the classes' mean gradients differ at most."""
        worst = 0.0
        for of_member, y in zip(view_of(attack, run).granted("visits").received.mean(1), run.y_train, strict=True):
            one, other = (of_member[y == k] for k in (0, 1))
            deviation = (one.var(0) / len(one) + other.var(0) / len(other)).sqrt()
            worst = max(worst, float(((one.mean(0) - other.mean(0)) / deviation).abs().max()))
        return worst

    run = drifted(task, PACK, [attack])
    assert most_apart(run) < 4.5
    assert most_apart(train_pack(task, [Strict()], PACK, [attack])) > 20
    view = view_of(attack, run)
    with torch.no_grad():
        last = view.bottom()(view.features.train)
    sent = view.granted("visits").sent
    assert (sent[:, -1] - last).norm() < (sent[:, 0] - last).norm() / 2, "the last epoch's are nearly the last model's"


def test_each_start_has_its_own_weights_and_noise_and_each_party_its_own() -> None:
    task = Task.open(cell_of("pmc"))
    one, again, other = (weights(drifted(task, PACK, [], start)) for start in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.allclose(one, other, atol=1e-3)
    alone = drifted(task, Pack((1,), None), [])
    flat = torch.cat([p.detach().flatten() for p in alone.network.bottoms.parameters()])
    torch.testing.assert_close(flat, one[1], atol=1e-3, rtol=0)


def test_what_is_kept_of_one_network_is_what_is_kept_of_it_in_a_pack() -> None:
    task = Task.open(cell_of("matched_filter"))
    (attack,) = task.attacks
    alone = view_of(attack, drifted(task, Pack((1,), None), [attack])).granted("visits")
    together = view_of(attack, drifted(task, PACK, [attack])).granted("visits").of_members(1)
    assert torch.equal(alone.places, together.places)
    torch.testing.assert_close(alone.sent, together.sent, atol=1e-3, rtol=0)
