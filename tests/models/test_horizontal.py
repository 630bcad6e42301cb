"""Nets as the clients of a horizontal federation train them: a round, norms averaged, last batches of one row."""

from typing import Any

import pytest
import torch
from torch import nn

from tune_vfl.data.assemble import assemble
from tune_vfl.data.base import Columns, Dataset, Recipe
from tune_vfl.errors import SpecError
from tune_vfl.evaluation.clients import Clients
from tune_vfl.evaluation.resolving import open_task
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack
from tune_vfl.models.base import MODELS, Architecture
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Named, Strict, Training, parse

CIFAR = (3, 32, 32)
# As FedAdOb's horizontal federation cuts its nets, tables II and IX, and DLG's net.
CUT: list[tuple[str, dict[str, Any]]] = [
    ("lenet", {"cut": 1, "channels": [6, 16, 32]}),
    ("lenet", {"cut": 1, "activation": "sigmoid"}),
    ("lenet_dlg", {}),
    ("alexnet", {"cut": 1}),
    ("resnet18", {"cut": 1, "top_hidden": []}),
]
HORIZONTAL = [name for name in MODELS.names() if "horizontal" in MODELS[name].federations]
# These take up to half a minute, and the others of CUT go their way.
BY_HAND = dict.fromkeys(("alexnet", "resnet18", "resnet50"), pytest.mark.slow)


def rows_of(shape: tuple[int, ...], count: int) -> Dataset:
    """Rows of two classes, one of them brighter, with all columns at one party."""
    x, y = torch.rand(count, *shape, generator=torch.Generator().manual_seed(0)) * 0.5, torch.arange(count) % 2
    x[y == 1] += 0.5
    recipe = Recipe(model=Named(name="mlp"), training=Training(epochs=1, batch_size=5, lr=1e-3))
    return assemble("digits", ((Columns("passive", x),), None), y, ("no", "yes"), metric="auto", recipe=recipe)


def task_of(model: str, options: dict[str, Any], shape: tuple[int, ...], count: int = 32, **federation: Any) -> Task:
    # Of 32 rows 22 are trained on, 11 a client, in batches of five: the last batch is a single row.
    spec = {
        "study": "models",
        "dataset": "digits",
        "model": {"name": model, **options},
        "defense": "none",
        "attacks": ["wmi"],
        "federation": {"name": "horizontal", "clients": 2, "rounds": 1, **federation},
    }
    return open_task(parse(spec), dataset=rows_of(shape, count))


@pytest.mark.parametrize("model", [pytest.param(name, marks=BY_HAND.get(name, ())) for name in HORIZONTAL])
def test_every_net_trains_a_round(model: str) -> None:
    task = task_of(model, {}, (1, 8, 8) if "image" in MODELS[model].modalities else (6,))
    run = train_pack(task, [Strict()], Pack((0,), None))
    assert run.table["lost",] == [""]
    assert 0 <= run.table["utility",][0] <= 1


@pytest.mark.parametrize(("model", "options"), CUT)
def test_nets_cut_as_published_train_an_epoch_on_images_of_cifars_size(model: str, options: dict[str, Any]) -> None:
    task = task_of(model, options, CIFAR, count=10)
    run = train_pack(task, [Strict()], Pack((0,), None))
    assert run.table["lost",] == [""]
    assert all(t.isfinite().all() for t in run.network.state_dict().values())


def test_a_net_that_reads_texts_is_not_for_it_as_no_attack_on_texts_is() -> None:
    nets = {name for name in MODELS.names() if issubclass(MODELS[name], Architecture)}
    assert {name for name in nets if MODELS[name].modalities == {"text"}} == nets - {*HORIZONTAL, "logistic"}
    with pytest.raises(SpecError, match="model 'bert' is not for a horizontal federation"):
        task_of("bert", {}, (6,))


def test_lenet_learns_in_a_few_rounds_on_either_side_of_the_cut() -> None:
    task = task_of("lenet", {"cut": 1}, (1, 8, 8), count=120, rounds=8)
    start = Clients(task, Pack((0,), None)).cohort([0], [Strict()], "cpu").network.state_dict()
    start = {name: value.clone() for name, value in start.items()}
    run = train_pack(task, [Strict()], Pack((0,), None))
    assert run.table["utility",][0] > 0.95
    assert all(not torch.equal(value, start[name]) for name, value in run.network.state_dict().items())


def test_running_statistics_of_norms_are_averaged_and_stay_finite() -> None:
    task = task_of("resnet20", {"cut": 1}, (1, 4, 4), shards={"dirichlet": 1.0})
    clients = Clients(task, Pack((0,), None))
    alone = [clients.cohort([c], [Strict()], "cpu") for c in (0, 1)]
    for cohort in alone:
        for _ in cohort.train(0, 1, None, torch.ones(1, 1, dtype=torch.bool)):
            pass
    first, second = (cohort.statistics()[0, 0] for cohort in alone)
    assert not torch.equal(first, second)
    share = clients.counts[0] / clients.counts.sum()
    cohorts, rounds = clients.begin([Strict()])
    rounds.run()
    norms = [m for m in cohorts[0].network.modules() if isinstance(m, nn.BatchNorm2d)]
    assert first.numel() == sum(2 * norm.num_features for norm in norms) > 0
    for cohort in cohorts:
        torch.testing.assert_close(cohort.statistics()[0, 0], share[0] * first + share[1] * second)
        assert all(b.isfinite().all() for b in cohort.network.buffers())
    assert all((norm.running_var > 0).all() for norm in norms)  # type: ignore[operator]
