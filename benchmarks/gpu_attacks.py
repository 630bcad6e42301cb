"""Attacks on a GPU: what they hold is moved there by this benchmark, for the program runs all attacks on the CPU."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.gpu_cases import ATTACKED, CASES, OpenedCase, SizeName
from benchmarks.gpu_parts import CPU, GPU, NAMES, BenchmarkPart, Cell, Until, timed
from tune_vfl.attacks.base import Attack
from tune_vfl.evaluation.grants.base import view_of
from tune_vfl.evaluation.run import Run
from tune_vfl.evaluation.scoring import score_answer
from tune_vfl.models.base import VflNetwork
from tune_vfl.protocol.answers import Answer
from tune_vfl.protocol.view import View
from tune_vfl.seeds import Streams
from tune_vfl.spec import Strict

TURNS = 3
NOTE = (
    "The program runs attacks on the CPU, wherever it trains. Here what an attack holds is moved to the GPU, and its "
    "answer back; its random numbers are the device's, so that successes differ a little. An attack that cannot run "
    "there is named below."
)


def moved(value: Any, device: str) -> Any:
    """Return a grant or an answer with every tensor in it on a device; functions take and give what is there."""
    if isinstance(value, Tensor | nn.Module):
        return value.to(device)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: moved(getattr(value, f.name), device) for f in dataclasses.fields(value) if f.init}
        return dataclasses.replace(value, **fields)
    if isinstance(value, Mapping):
        return {name: moved(one, device) for name, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(moved(one, device) for one in value)
    if callable(value) and not isinstance(value, type):
        return partial(_called_on_cpu, value, device)
    return value


def _called_on_cpu(function: Callable[..., Any], device: str, *given: Any, **named: Any) -> Any:
    """Return on a device what a grant's function returns, which was made for the CPU."""
    with torch.device(CPU):
        result = function(*moved(given, CPU), **moved(named, CPU))
    return moved(result, device)


def view_on(attack: Attack[Strict], run: Run, device: str) -> View:
    """Return an attack's view with all that it holds on a device, where its random numbers are drawn too."""
    view = view_of(attack, run)
    streams = Streams(run.drawn.member_seeds, device, prefix=f"attack/{attack.draws_as or attack.name}/")
    return dataclasses.replace(view, streams=streams, held=moved(view.held, device))


def attacked(attack: Attack[Strict], run: Run, device: str) -> tuple[float, float, float]:
    """Return the seconds of an attack, of which moving to the device and back, and its success there.

    Where its code makes a tensor and names no device, torch's default device puts that on the GPU. On the CPU nothing
    is moved.
    """
    if device == CPU:
        whole, answers = timed(lambda: attack.run(view_of(attack, run)), CPU)
        return whole, 0.0, success_of(attack, answers, run)
    there, view = timed(partial(view_on, attack, run, device))
    with torch.device(device):
        within, found = timed(partial(attack.run, view))
    back, answers = timed(partial(moved, found, CPU))
    return there + within + back, there + back, success_of(attack, answers, run)


def success_of(attack: Attack[Strict], answers: Mapping[str, Any], run: Run) -> float:
    """Return the success of the variant that counts."""
    chosen = answers.get(attack.choice or "")
    counted = list(answers.values()) if chosen is None else [chosen]
    truth = run.y_train, run.y_test, run.task.dataset.num_classes, run.pack.seed_of_each
    return max(float(score_answer(a, *truth)["success"][0]) for a in counted if isinstance(a, Answer))


def attacks_part(size: SizeName, devices: list[str], until: Until) -> BenchmarkPart:
    """Run each attack of ``default`` on a training of LeNet, on the GPU and on the CPU in turns."""
    part = BenchmarkPart(
        "attacks",
        "Attacks on one training of LeNet with two classes",
        ("attack", "GPU, s", "of which moving, s", "CPU, s", "CPU over GPU", "success, GPU", "success, CPU"),
        notes=(NOTE,),
    )
    trained = OpenedCase(ATTACKED, size)
    run = part.attempt("training for the attacks", until.left / 2, partial(trained.train, devices[0]))
    if run is None:
        return part
    attacks = sorted(trained.task.watching, key=lambda attack: attack.dear)
    for i, attack in enumerate(attacks):
        part.rows.append(
            _row(part, attack, run, devices, until.share(len(attacks) - i), 1 if size == "quick" else TURNS)
        )
    return part


def _row(
    part: BenchmarkPart, attack: Attack[Strict], run: Run, devices: list[str], until: Until, turns: int
) -> tuple[Cell, ...]:
    found: dict[str, list[tuple[float, float, float]]] = {device: [] for device in devices}
    longest = 0.0  # of the wall, as the time that is left
    for turn in range(turns + 1):  # the first one only warms up
        for device in devices:
            if turn and (not found[device] or until.left < longest):
                continue  # it failed, or another would be too much
            left = until.left
            one = part.attempt(f"{attack.name} on {NAMES[device]}", left, partial(attacked, attack, run, device))
            longest = max(longest, left - until.left)
            if one is not None:
                found[device] = [one] if turn <= 1 else [*found[device], one]
    gpu, cpu = (_medians(found.get(device, [])) for device in (GPU, CPU))
    ratio = cpu[0] / gpu[0] if gpu[0] and cpu[0] else None
    return attack.name, gpu[0], gpu[1], cpu[0], ratio, gpu[2], cpu[2]


def _medians(found: list[tuple[float, float, float]]) -> tuple[float | None, float | None, float | None]:
    if not found:
        return None, None, None
    whole, moving, success = zip(*found, strict=True)
    return median(whole), median(moving), success[-1]


def moving_part(networks: Mapping[str, VflNetwork], devices: list[str], until: Until) -> BenchmarkPart:
    """Move networks to the GPU and back, as the program does once a training."""
    part = BenchmarkPart("moving", "Moving a network", ("net", "numbers", "to the GPU, ms", "back, ms"))
    for name, case in CASES.items():
        if name not in networks:
            part.left_out[case.title] = "it was not trained"
            continue
        count = sum(p.numel() for p in networks[name].parameters())
        there_and_back = partial(_there_and_back, networks[name])
        found = part.attempt(case.title, until.left, there_and_back) if GPU in devices else None
        part.rows.append((case.title, count, *(found or (None, None))))
    return part


def _there_and_back(network: nn.Module) -> tuple[float, float]:
    """Return the median milliseconds of both ways, of a copy."""
    samples = []
    for _ in range(TURNS):
        mine = copy.deepcopy(network)
        samples.append([1000 * timed(partial(mine.to, device))[0] for device in (GPU, CPU)])
    there, back = (median(column) for column in zip(*samples, strict=True))
    return there, back
