"""An exported setting gives, in somebody else's loop, the cut gradients of the search."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.machine.test_plain_json import REFUSED
from tune_vfl import load_config
from tune_vfl.attacks.base import ATTACKS
from tune_vfl.config import Measured, export_config, save_config
from tune_vfl.data.split import split
from tune_vfl.defenses.base import Defense
from tune_vfl.errors import ConfigError, SpecError
from tune_vfl.evaluation.grants.gradients import ReceivedGradients
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import parse
from tune_vfl.spec.cell import Cell
from tune_vfl.spec.study import Threat

MEASURED = Measured(metric="auc", utility=0.9, utility_std=0.01, leakage=0.2, leakage_std=0.02, attacks={"norm": 0.6})


def cell_of(defense: str | dict[str, Any]) -> Cell:
    plain = {"study": "s", "dataset": "breast_cancer", "attacks": ["norm"], "budget": {"trials": 1, "seeds": 1}}
    return resolve(parse({**plain, "defense": defense, "training": {"epochs": 3}}))


def exported(tmp_path: Path, defense: str, params: dict[str, Any]) -> Path:
    config = export_config(cell_of(defense), study="s", trial=3, select="knee", params=params, measured=MEASURED)
    return save_config(config, tmp_path / "best.json")


PLAIN_LOOP = """
import json, sys
import torch
from torch import nn
from tune_vfl import load_config
from tune_vfl.protocol.members import Batch

class Lookup:
    def take(self, ids):
        return [x[ids], x_own[ids]]

given = torch.load(sys.argv[2], weights_only=True)
cfg = load_config(sys.argv[1])
defense = cfg.build_defense(num_classes=2, embedding_dims=[10])
x, x_own, y = given["x"], given["own"], given["y"]
ids = torch.arange(len(y))
x, x_own = defense.extend([x, x_own], seed=0, part="train")
defense.setup(y, ids, active_features=x_own, seed=0)

def mlp(sizes, name):
    layers = []
    for i in range(len(sizes) - 1):
        if i:
            layers.append(nn.ReLU())
        linear = nn.Linear(sizes[i], sizes[i + 1])
        with torch.no_grad():
            linear.weight.copy_(given[f"{name}.{i}.weight"])
            linear.bias.copy_(given[f"{name}.{i}.bias"])
        layers.append(linear)
    return nn.Sequential(*layers)

bottom = defense.wrap_bottom(mlp(given["sizes"]["bottom"], "bottom"))
own = mlp(given["sizes"]["own"], "own")
top = defense.wrap_top(mlp(given["sizes"]["top"], "top"))
steps = torch.optim.Adam([*bottom.parameters(), *own.parameters(), *top.parameters()], lr=cfg.training.lr)
sent = []
for epoch in range(cfg.training.epochs):
    order = given["orders"][epoch]
    sent = []
    for start in range(0, len(y), cfg.training.batch_size):
        rows = order[start : start + cfg.training.batch_size]
        batch = Batch(passive=[x[rows]], own=x_own[rows], y=y[rows], ids=ids[rows])
        batch = defense.inputs(batch, Lookup(), epoch=epoch)
        embedding = defense.send_embedding(bottom(batch.passive[0]), party=0)
        received = embedding.detach().requires_grad_()
        logits = top(torch.cat([received, own(batch.own)], dim=-1))
        targets = defense.labels(y[rows], ids[rows])
        steps.zero_grad()
        defense.loss(logits, targets, [received]).backward()
        leaves = defense.cut_gradient(received.grad, y=y[rows], context=None, party=0)
        embedding.backward(leaves)
        steps.step()
        sent.append(leaves)
scores = defense.decode(logits)
assert scores.shape == (len(rows), 2)
assert not {"ray", "mlflow", "optuna"} & set(sys.modules), "the service was imported"
torch.save({"sent": torch.cat(sent)}, sys.argv[3])
"""


# Runs the script for each line of tab-separated arguments: importing torch takes most of a process's time.
ONE_AFTER_THE_OTHER = """
import sys

with open(sys.argv[1]) as script:
    code = compile(script.read(), sys.argv[1], "exec")
for line in sys.stdin:
    sys.argv[1:] = line.rstrip("\\n").split("\\t")
    exec(code, {"__name__": "__main__"})
    print("sent", flush=True)
"""


@pytest.fixture(scope="module")
def plain_loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., None]]:
    """A process that knows nothing of the tests, and runs the plain loop on the files that it is given."""
    script = tmp_path_factory.mktemp("plain") / "loop.py"
    script.write_text(PLAIN_LOOP)
    command = [sys.executable, "-c", ONE_AFTER_THE_OTHER, str(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def run(*paths: Path) -> None:
            stdin.write("\t".join(map(str, paths)) + "\n")
            stdin.flush()
            assert stdout.readline() == "sent\n", "the plain loop failed; what it said is on stderr"

        yield run
        stdin.close()


@pytest.mark.parametrize(
    ("defense", "params"),
    [
        ("laplace", {"scale": 0.01}),
        ("kdk", {"k": 2, "epsilon": 0.3, "teacher_epochs": 3}),
        ("fedpass", {"mean_range": 5.0, "where": "both"}),
        ("instahide", {"mix": 3}),
        ("labobf", {"bins": 3}),
        ("gaussian", {"sigma": 1.0, "where": "embeddings"}),
    ],
)
def test_plain_loop_in_a_fresh_process_sends_the_gradients_of_the_search(
    plain_loop: Callable[..., None], tmp_path: Path, defense: str, params: dict[str, Any]
) -> None:
    path = exported(tmp_path, defense, params)
    config = load_config(path)
    cell = cell_of({"name": defense, "params": params})
    setting = type(config.build_defense(embedding_dims=[10])).Params(**config.defense.params)
    run = train_pack(Task.open(cell), [setting], Pack((0,), 1), [ATTACKS["norm"]()])
    searched = run.kept(ReceivedGradients).recordings()["last"].gradients[0]

    torch.save(starting_point(cell, config.build_defense(embedding_dims=[10])), tmp_path / "given.pt")
    plain_loop(path, tmp_path / "given.pt", tmp_path / "sent.pt")
    plain = torch.load(tmp_path / "sent.pt", weights_only=True)["sent"]
    torch.testing.assert_close(plain, searched, atol=1e-6, rtol=1e-3)


def starting_point(cell: Any, defense: Defense) -> dict[str, Any]:
    """Rows, orders of rows and starting weights of seed 0, as plain tensors for a loop that knows nothing of ours.

    The rows are as the data set has them; the weights are for those that the defense extends.
    """
    from tune_vfl.evaluation.task import Task
    from tune_vfl.evaluation.training import build_network, extended
    from tune_vfl.protocol.members import Pack
    from tune_vfl.seeds import Stream, Streams

    task, pack = Task.open(cell), Pack((0,), None)
    rows = split(task.dataset, 0)
    wide = extended(rows, defense, pack)
    network = build_network(task, wide, pack, Streams(0))
    order = Stream(0, "order")
    given: dict[str, Any] = {
        "x": rows.passive_train[0],
        "own": rows.active_train,
        "y": rows.y_train,
        "orders": [order.permutation(len(rows.y_train)) for _ in range(cell.training.epochs)],
        "sizes": {},
    }
    for name, net in (("bottom", network.bottoms[0]), ("own", network.own_bottom), ("top", network.top)):
        layers = [m for m in net.modules() if hasattr(m, "weight")]  # type: ignore[union-attr]
        given["sizes"][name] = [layers[0].weight.shape[1], *(m.weight.shape[0] for m in layers)]
        for i, layer in enumerate(layers):
            given[f"{name}.{i}.weight"], given[f"{name}.{i}.bias"] = layer.weight.detach(), layer.bias.detach()
    return given


def test_round_trip_and_every_parameter_is_written_out(tmp_path: Path) -> None:
    config = load_config(exported(tmp_path, "laplace", {}))
    assert config.defense.params == {"scale": 1e-3, "clip": None}
    assert config.dataset.name == "breast_cancer"
    assert config.measured == MEASURED
    assert (config.study, config.trial, config.select) == ("s", 3, "knee")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("not json", "cannot be read as JSON"),
        ("[]", "expected schema"),
        ('{"schema": "tune-vfl/config/99"}', "export it again"),
        ('{"schema": "tune-vfl/config/1", "study": "s"}', "required"),
    ],
)
def test_broken_files_are_refused(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "best.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=said):
        load_config(path)


@pytest.mark.parametrize("case", REFUSED)
def test_a_number_that_is_no_plain_json_is_refused_by_its_file(tmp_path: Path, case: str) -> None:
    path = exported(tmp_path, "laplace", {})
    path.write_text(path.read_text().replace('"trial": 3', f'"trial": {REFUSED[case][0]}'))
    with pytest.raises(ConfigError, match=r"best\.json: cannot be read as JSON \(.*; give a file"):
        load_config(path)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.json"):
        load_config(tmp_path / "nowhere.json")


def test_a_device_without_an_end_is_no_setting() -> None:
    with pytest.raises(ConfigError, match=r"/dev/zero: cannot be read .*at most 64 MiB of text, got more"):
        load_config("/dev/zero")


def test_a_byte_order_mark_is_no_part_of_a_setting(tmp_path: Path) -> None:
    path = exported(tmp_path, "laplace", {})
    path.write_text(path.read_text(), encoding="utf-8-sig")
    assert load_config(path).study == "s"


def test_marvell_on_ten_classes_is_refused_when_built(tmp_path: Path) -> None:
    config = load_config(exported(tmp_path, "marvell", {}))
    with pytest.raises(SpecError, match="two classes"):
        config.build_defense(num_classes=10, embedding_dims=[10])


def test_nothing_half_made_is_left_behind(tmp_path: Path) -> None:
    path = exported(tmp_path, "laplace", {})
    assert [p.name for p in tmp_path.iterdir()] == ["best.json"]
    assert json.loads(path.read_text())["schema"] == "tune-vfl/config/1"


def test_what_attackers_know_and_which_rows_were_used_are_written_where_they_are_not_the_usual(tmp_path: Path) -> None:
    usual = load_config(exported(tmp_path, "laplace", {}))
    assert not {"threat", "rows"} & set(json.loads((tmp_path / "best.json").read_text()))
    told = usual.model_copy(update={"rows": "selection", "threat": Threat(labels_per_class=40)})
    again = load_config(save_config(told, tmp_path / "told.json"))
    assert (again.cell.rows, again.cell.threat.labels_per_class) == ("selection", 40)
