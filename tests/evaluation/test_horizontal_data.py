"""Data sets in a horizontal federation: all columns at every client, rows by a column of a table, samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tune_vfl import evaluate
from tune_vfl.data.base import DATASETS
from tune_vfl.errors import SpecError
from tune_vfl.evaluation.clients import Clients
from tune_vfl.evaluation.resolving import open_task
from tune_vfl.evaluation.task import Task
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Strict, parse

HOSPITALS = {"north": 80, "east": 50, "south": 30}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of patients in three hospitals, whose label follows from two of its columns."""
    rng, file = np.random.default_rng(0), tmp_path_factory.mktemp("own") / "patients.csv"
    names = rng.permutation([name for name, rows in HOSPITALS.items() for _ in range(rows)])
    lines = ["hospital,age,pressure,sex,sick"]
    for name in names:
        sick = rng.integers(2)
        lines.append(f"{name},{50 + 10 * sick + rng.normal():.2f},{rng.normal():.2f},{rng.choice(['m', 'f'])},{sick}")
    file.write_text("\n".join(lines) + "\n")
    return file


def task_of(dataset: dict[str, Any] | str, **federation: Any) -> Task:
    spec = {"study": "rows", "dataset": dataset, "defense": "none", "attacks": ["wmi"]}
    return open_task(parse({**spec, "federation": {"name": "horizontal", "clients": 4, **federation}}))


def by_hospital(path: Path, column: str = "hospital", **options: Any) -> Task:
    spec = {
        "study": "rows",
        "dataset": {"name": "csv", "path": str(path), "label": "sick", **options.pop("dataset", {})},
        "defense": "none",
        "attacks": ["wmi"],
        "federation": "horizontal",
        "shards": {"column": column},
        **options,
    }
    return open_task(parse(spec))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("digits", (1, 8, 8)),
        ("breast_cancer", (30,)),
        ("wine", (13,)),
        pytest.param("mnist", (1, 28, 28), marks=pytest.mark.public_data("MNIST")),
        pytest.param("cifar10", (3, 32, 32), marks=pytest.mark.public_data("cifar10")),
        pytest.param("cifar100", (3, 32, 32), marks=pytest.mark.public_data("cifar-100-python")),
    ],
)
def test_every_client_holds_all_columns(name: str, shape: tuple[int, ...]) -> None:
    task = task_of(name)
    assert task.cell.mode == "label_only"
    assert [p.shape for p in task.dataset.parties] == [shape]
    held = Clients(task, Pack((0,), None)).splits[0]
    assert len({int(row) for split in held for row in split.train_rows}) == sum(len(s.train_rows) for s in held)


@pytest.mark.public_data("MNIST")
def test_a_sample_of_mnist_is_shared_out_over_ten_clients() -> None:
    task = task_of({"name": "mnist", "rows": 6000}, clients=10)
    assert Clients(task, Pack((0,), None)).counts.tolist() == [[600.0] * 10]


@pytest.mark.parametrize(
    ("dataset", "says"),
    [
        ({"name": "digits", "split": 0.5}, "here they lie at 2 parties; leave out split and parties"),
        ({"name": "digits", "passive_parties": 2}, "here they lie at 2 parties"),
        ({"name": "wine", "split": {"importance": 0.3}}, "here they lie at 2 parties"),
    ],
)
def test_columns_at_several_parties_are_refused(dataset: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        task_of(dataset)


def test_a_mapping_of_parties_is_refused_by_its_own_name_unless_it_names_one(path: Path) -> None:
    table = {"name": "csv", "path": str(path), "label": "sick"}
    with pytest.raises(SpecError, match="lie at 2 parties; leave out split and parties"):
        task_of({**table, "parties": {"shop": ["age"], "active": ["sex"]}})
    chosen = task_of({**table, "parties": {"all": ["age", "sex"]}}).dataset
    assert [source.name for columns in chosen.parties for source in columns.sources] == ["age", "sex"]


def test_rows_by_a_column_make_each_of_its_values_a_client(path: Path) -> None:
    task = by_hospital(path)
    assert task.cell.federation.clients == 3
    assert task.cell.dataset.options["client"] == "hospital"
    assert not task.stacks(Strict())
    holders = task.dataset.holders
    assert holders is not None
    clients = Clients(task, Pack((0, 1), 1))
    for seed in clients.splits:
        assert [{holders.names[int(k)] for k in holders.of[s.train_rows]} for s in seed] == [
            {name} for name in sorted(HOSPITALS)
        ]
        assert all(torch.equal(s.test_rows, seed[0].test_rows) for s in seed)
    assert clients.counts.sum(-1).tolist() == [112.0, 112.0]
    reopened = Task.open(task.cell)
    assert Clients(reopened, Pack((0, 1), 1)).counts.equal(clients.counts)


def test_a_number_may_name_the_column(tmp_path: Path) -> None:
    file = tmp_path / "numbered.csv"
    file.write_text("1,age,sick\n" + "".join(f"{k % 2},{k},{k // 2 % 2}\n" for k in range(40)))
    assert by_hospital(file, column=1).cell.federation.clients == 2  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"clients": 4}, "column 'hospital' has 3 values, and each is a client, got 4; leave clients out"),
        ({"dataset": {"client": "sex"}}, "federation.shards.column is 'hospital', dataset.client 'sex'; leave one out"),
        ({"dataset": {"client": "hospital"}, "shards": "iid"}, "federation.shards shares them out iid"),
        ({"shards": {"name": "column"}}, "write {column: NAME} for rows by a column"),
    ],
)
def test_what_rows_by_a_column_do_not_go_with(path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        by_hospital(path, **changes)
    assert by_hospital(path, clients=3).cell.federation.clients == 3


def test_data_sets_without_such_a_column_say_which_have_one() -> None:
    with pytest.raises(SpecError, match="rows by a column are for dataset csv, not 'digits'"):
        task_of("digits", shards={"column": "hospital"})
    assert [n for n in DATASETS if "client" in DATASETS[n].Options.model_fields] == ["csv"]


def test_a_client_without_rows_to_train_on_is_named(tmp_path: Path) -> None:
    file = tmp_path / "few.csv"
    rows = [("big", k, k % 2) for k in range(40)] + [("tiny", 1, 0)]
    file.write_text("hospital,age,sick\n" + "".join(f"{h},{age},{sick}\n" for h, age, sick in rows))
    with pytest.raises(SpecError, match="client 'tiny' of column 'hospital' has"):
        by_hospital(file)


def test_a_whole_evaluation_of_hospitals(path: Path) -> None:
    answer = evaluate(
        {"name": "csv", "path": str(path), "label": "sick"},
        attacks=[{"name": "wmi", "iterations": 20, "rows": 8, "tv": 0.0, "l2": 0.1}],
        seeds=2,
        settings=["federation=horizontal", "federation.shards={column: hospital}", "federation.rounds=3"],
    )
    assert answer["outcome"] == "ok", answer
    assert answer["utility"]["mean"] > 0.9
