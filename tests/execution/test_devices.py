"""Where networks are trained: on a GPU that was asked for, and on the CPU beside any number of others."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import ray
import torch

from tests.helpers.cells import cells
from trainables.cell import CellTrainable
from tune_vfl.errors import SpecError
from tune_vfl.evaluation import adaptive, answer, cost, packs
from tune_vfl.evaluation.answer import evaluate
from tune_vfl.machine.runtime import device_for
from tune_vfl.spec.cell import References

WORKERS = """
import functools, json, os, ray, torch
from ray import tune
from trainables.cell import worker_device
from tune_vfl.execution import ray_session

def seen():
    torch.cuda.is_available = lambda: True  # as beside two GPUs
    return os.environ.get("CUDA_VISIBLE_DEVICES"), worker_device()

class Pack(tune.Trainable):
    def step(self):
        return {"seen": seen(), "done": True}

if __name__ == "__main__":
    ray.init = functools.partial(ray.init, num_gpus=2)
    found = {}
    with ray_session.quiet_tune():
        ray_session.connect()
        for gpu in (0, 0.25):
            found[f"task {gpu}"] = ray.get(ray.remote(num_cpus=1, num_gpus=gpu)(seen).remote())
            pack = tune.with_resources(Pack, {"cpu": 1, "gpu": gpu})
            (result,) = tune.Tuner(pack, run_config=tune.RunConfig(verbose=0, storage_path=os.getcwd())).fit()
            found[f"pack {gpu}"] = result.metrics["seen"]
    print(json.dumps(found))
"""


@pytest.mark.slow  # a Ray of its own with two pretended GPUs, and four workers
def test_a_real_worker_trains_on_the_gpu_that_it_was_given_and_on_the_cpu_without(tmp_path: Any) -> None:
    """A search's packs run in Tune's workers, a confirmation's trainings in tasks; two GPUs are pretended."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "CUDA_"))}
    command = [sys.executable, "-c", WORKERS]
    done = subprocess.run(command, env=clean, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["task 0"][1] == found["pack 0"][1] == "cpu"
    assert found["task 0.25"][1] == found["pack 0.25"][1] == "cuda"
    assert {found["task 0.25"][0], found["pack 0.25"][0]} <= {"0", "1"}


@pytest.mark.parametrize("gpu", [0.25, 1, 2])
def test_a_gpu_is_used_where_it_is_asked_for_alone(gpu: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert (device_for(0), device_for(gpu)) == ("cpu", "cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_for(0) == "cpu"
    with pytest.raises(SpecError, match=r"resources\.gpu: asks for a GPU, torch sees none here"):
        device_for(gpu)


class AskedError(Exception):
    """Says which device something was to be trained on."""


def asks(*_: object, device: str, **__: object) -> Any:
    raise AskedError(device)


def searched() -> None:
    CellTrainable.evaluate(cells()("norm"), [{}], References(), {})


def tuned() -> None:
    CellTrainable.tuned(cells()("norm"), {}, 1.0, {})


def cost_measured() -> None:
    CellTrainable.cost(cells()("norm"), {}, cells()("norm"), {})


@pytest.mark.parametrize("work", [searched, tuned, cost_measured])
def test_a_worker_trains_by_what_ray_gave_it_whatever_it_sees(
    work: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    for module, name in ((packs, "evaluate_task"), (adaptive, "tuned_attack"), (cost, "training_cost")):
        monkeypatch.setattr(module, name, asks)
    for given, device in (([], "cpu"), ([1], "cuda")):
        monkeypatch.setattr(ray, "get_gpu_ids", lambda given=given: given)
        with pytest.raises(AskedError, match=device):
            work()


def test_a_worker_whose_gpu_torch_does_not_see_ends_the_search_before_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """Till now it trained on the CPU and kept the GPU from others."""
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "get_gpu_ids", lambda: [0])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SpecError, match="torch sees none here"):
        CellTrainable.measure(cells()("norm"), {})


def test_without_a_search_the_same_rule_goes_by_the_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def heard(_task: object, some: list[object], *, device: str) -> Any:
        seen.append(device)
        raise SpecError("enough")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(answer, "evaluate_task", heard)
    for settings in ((), ("resources.gpu=0.5",)):
        assert evaluate("breast_cancer", attacks=["norm"], settings=settings)["outcome"] == "error"
    assert seen == ["cpu", "cuda"]
