"""A GPU beside the CPU: trainings and attacks on GPU and CPU in turns, four packs at once on one card, memory.

    python -m benchmarks.gpu [--minutes 8] [--quick] [-o gpu.json]

Made-up rows, nothing is downloaded. Wall seconds on the GPU; on the CPU, CPU seconds of one thread, as a worker has it.
Each part has a share of the minutes, and what does not fit is left out and named. Where torch sees no GPU, all runs on
the CPU, with less data.
"""

from __future__ import annotations

import argparse
import json
import platform
from functools import partial
from pathlib import Path
from statistics import median

import torch

from benchmarks.gpu_attacks import attacks_part, moving_part
from benchmarks.gpu_cases import CASES, OpenedCase, SizeName
from benchmarks.gpu_packs import packs_at_once
from benchmarks.gpu_parts import CPU, GPU, NAMES, BenchmarkPart, Until, timed
from tune_vfl.machine.runtime import prepare_process
from tune_vfl.models.base import VflNetwork

TURNS: dict[SizeName, int] = {"full": 5, "small": 3, "quick": 1}
# By part: the share of the minutes after which it ends. What one leaves, the next ones have.
ENDS = {"training": 0.45, "attacks": 0.6, "at once": 0.95}


def training_part(size: SizeName, devices: list[str], until: Until) -> tuple[BenchmarkPart, dict[str, VflNetwork]]:
    """Train each case on every device in turns; return the table and a trained network of each."""
    part = BenchmarkPart(
        "training",
        "Seconds a training",
        ("net", "members a pack", "steps", "GPU, s", "CPU, s", "CPU over GPU", "turns"),
        notes=(
            "Trainings under `laplace`, recorded for the attacks of `default`; preparing and testing are included.",
        ),
    )
    networks: dict[str, VflNetwork] = {}
    for i, (name, case) in enumerate(CASES.items()):
        end = until.share(len(CASES) - i)
        trained = part.attempt(case.title, end.left, partial(OpenedCase, case, size))
        if trained is None:
            continue
        seconds, network = in_turns(part, name, trained, size, devices, end)
        if network is not None:
            networks[name] = network
        gpu, cpu = (median(found) if (found := seconds.get(device)) else None for device in (GPU, CPU))
        ratio = cpu / gpu if gpu and cpu else None
        turns = max(map(len, seconds.values()))
        part.rows.append((case.title, trained.members, trained.steps, gpu, cpu, ratio, turns))
    return part, networks


def in_turns(
    part: BenchmarkPart, name: str, trained: OpenedCase, size: SizeName, devices: list[str], end: Until
) -> tuple[dict[str, list[float]], VflNetwork | None]:
    """Train on each device in turns while there is time; where there is a GPU, after a tiny training there.

    Returns:
        The seconds on each device, and a trained network.
    """
    title, network = CASES[name].title, None
    seconds: dict[str, list[float]] = {device: [] for device in devices}
    if size == "full":
        tiny = OpenedCase(CASES[name], "quick")
        for device in devices:
            part.attempt(f"{title}, a first tiny training on {NAMES[device]}", end.left, partial(tiny.train, device))
    longest = 0.0  # of the wall, as the time that is left
    for turn in range(TURNS[size]):
        for device, spent in seconds.items():
            if turn and (not spent or end.left < longest):
                continue  # it failed, or another would be too much
            left = end.left
            found = part.attempt(
                f"{title} on {NAMES[device]}", left, partial(timed, partial(trained.train, device), device)
            )
            longest = max(longest, left - end.left)
            if found is not None:
                spent.append(found[0])
                network = found[1].network
    return seconds, network


def conditions(size: SizeName, devices: list[str]) -> str:
    """Return the line above all tables."""
    if GPU in devices:
        card = torch.cuda.get_device_name()
        room = torch.cuda.get_device_properties(0).total_memory / 2**30
        where = f"{card}, {room:.0f} GiB, beside one thread of {platform.machine()}"
    else:
        where = f"torch sees no GPU here: all on the CPU ({platform.machine()}), with less data, and nothing of a GPU"
    return f"{where}; torch {torch.__version__}; sizes: {size}."


def main(arguments: list[str] | None = None) -> None:
    """Print the tables, and write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=8.0, help="for all parts together")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: whether it runs, not how fast")
    parser.add_argument("-o", "--output", type=Path, help="JSON file with all rows, written after each part")
    given = parser.parse_args(arguments)
    prepare_process()
    has_gpu = torch.cuda.is_available()
    devices = [GPU, CPU] if has_gpu else [CPU]
    size: SizeName = "quick" if given.quick else "full" if has_gpu else "small"
    whole, begun = given.minutes * 60, Until.after(0)
    ends = {name: Until(begun.moment + share * whole) for name, share in ENDS.items()}
    said = conditions(size, devices)
    print(f"{said}\n", flush=True)
    record: dict[str, object] = {"conditions": said, "gpu": has_gpu, "size": size, "minutes": given.minutes}

    def show(part: BenchmarkPart) -> None:
        print("\n".join(part.lines()), flush=True)
        record[part.name] = part.record()
        if given.output:
            given.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    part, networks = training_part(size, devices, ends["training"])
    show(part)
    show(moving_part(networks, devices, ends["attacks"]))
    show(attacks_part(size, devices, ends["attacks"]))
    for part in packs_at_once(size, devices[0], ends["at once"]):
        show(part)
    print(f"{-begun.left:.0f} s in all.")


if __name__ == "__main__":
    main()
