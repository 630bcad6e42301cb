"""The GPU benchmark runs to its end without a GPU and reports each part; attacks' grants are moved as a whole."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import gpu, gpu_attacks
from benchmarks.gpu import main
from benchmarks.gpu_attacks import attacked, moved, success_of, view_on
from benchmarks.gpu_cases import ATTACKED, CASES, OpenedCase
from benchmarks.gpu_packs import held_bytes, together
from benchmarks.gpu_parts import BenchmarkPart, Until
from tune_vfl.evaluation.run import Run

TITLES = [case.title for case in CASES.values()]


@pytest.fixture(scope="module")
def trained() -> OpenedCase:
    return OpenedCase(ATTACKED, "quick")


@pytest.fixture(scope="module")
def run(trained: OpenedCase) -> Run:
    return trained.train("cpu")


@pytest.mark.slow  # beside other tests on two cores a net may take longer than its part has
def test_every_part_is_reported_on_the_cpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    main(["--quick", "--minutes", "60", "-o", str(tmp_path / "gpu.json")])
    told = capsys.readouterr().out
    assert told.startswith("torch sees no GPU here")
    record = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    assert not record["gpu"]
    rows = {name: record[name]["rows"] for name in ("training", "moving", "attacks", "at_once", "memory")}
    assert all(record[name]["title"] in told for name in rows)
    assert [row["net"] for row in rows["training"]] == [row["net"] for row in rows["moving"]] == TITLES
    assert all(row["GPU, s"] is None and row["CPU, s"] > 0 for row in (*rows["training"], *rows["attacks"]))
    assert {row["attack"] for row in rows["attacks"]} >= {"norm", "pmc", "matched_filter"}
    assert rows["at_once"][0]["2, trainings a minute"] > 0
    assert 0 < rows["memory"][0]["recordings"] <= rows["memory"][0]["by estimate"]
    assert {name: list(record[name]["left_out"]) for name in rows if record[name]["left_out"]} == {
        "at_once": [title for title in TITLES if not title.startswith("LeNet")]
    }


def test_two_devices_take_turns_and_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    other = "cpu:0"  # another name of the same device stands in for a GPU
    for module in (gpu, gpu_attacks):
        monkeypatch.setattr(module, "GPU", other)
        monkeypatch.setattr(module, "CASES", {"lenet": CASES["lenet"]})
        monkeypatch.setitem(module.NAMES, other, "the GPU")
    part, networks = gpu.training_part("quick", [other, "cpu"], Until.after(600))
    rows: Any = part.rows
    ((net, members, steps, *seconds, turns),) = rows
    assert (net, members, steps, turns) == ("LeNet, 28x28", 1, 2, 1)
    assert seconds[2] == pytest.approx(seconds[1] / seconds[0])
    rows = gpu_attacks.moving_part(networks, [other, "cpu"], Until.after(600)).rows
    ((_, count, there, back),) = rows
    assert count > 1000
    assert there >= 0 <= back
    attacks = gpu_attacks.attacks_part("quick", [other, "cpu"], Until.after(600))
    assert attacks.left_out == {}
    rows = attacks.rows
    for _, on_gpu, moving, on_cpu, ratio, *successes in rows:
        assert 0 < moving < on_gpu
        assert ratio == pytest.approx(on_cpu / on_gpu)
        assert successes[0] == pytest.approx(successes[1])


def test_without_time_every_part_says_so_and_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--quick", "--minutes", "0"])
    told = capsys.readouterr().out
    assert all(f"Left out: {title}" in told for title in TITLES)
    assert "Left out: training for the attacks: no time was left." in told
    assert "Left out: LeNet, 28x28, 2 packs: one by itself did not end." in told


def test_what_an_attack_holds_is_moved_as_a_whole(trained: OpenedCase, run: Run) -> None:
    for attack in trained.task.watching:
        there = view_on(attack, run, "meta")
        assert tensors(there.held)
        assert all(one.device.type == "meta" for one in tensors(there.held))
        if "bottom" in there.held:
            assert all(p.device.type == "meta" for p in there.bottom().parameters())


def test_an_attack_on_what_was_moved_answers_as_on_what_was_not(trained: OpenedCase, run: Run) -> None:
    for attack in trained.task.watching:
        answers = attack.run(view_on(attack, run, "cpu"))
        assert success_of(attack, moved(answers, "cpu"), run) == pytest.approx(attacked(attack, run, "cpu")[2])


def test_what_fails_or_takes_too_long_is_left_out_with_the_reason() -> None:
    part = BenchmarkPart("part", "Part", ("net", "s"))
    assert part.attempt("slow", 1.0, lambda: time.sleep(20)) is None
    assert part.attempt("broken", 5.0, lambda: 1 / 0) is None
    assert part.attempt("late", Until.after(-1).left, lambda: 1) is None
    part.rows.append(("x", None))
    said = "\n".join(part.lines())
    assert "Left out: slow: not done within 1 s." in said
    assert "Left out: broken: failed, ZeroDivisionError: division by zero." in said
    assert "Left out: late: no time was left." in said
    assert "| x | - |" in said


def test_a_process_that_ends_early_says_why() -> None:
    with pytest.raises(RuntimeError, match=r"ended early: .*KeyError: 'nothing'"):
        together(1, "nothing", "quick", "cpu")


def test_a_storage_counts_once() -> None:
    x = torch.zeros(100)
    assert held_bytes({"x": x, "same": [x[:50], x]}) == 400


def test_a_net_that_takes_one_trial_trains_one() -> None:
    case = CASES["lenet"]
    assert OpenedCase(replace(case, trials=24), "quick").members == 1
    assert OpenedCase(CASES["mlp"], "quick").members == 6


def tensors(value: Any) -> list[torch.Tensor]:
    """All tensors in mappings, sequences and dataclasses."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [one for each in value.values() for one in tensors(each)]
    if isinstance(value, list | tuple):
        return [one for each in value for one in tensors(each)]
    if callable(value):
        return []
    return [one for each in vars(value).values() for one in tensors(each)] if hasattr(value, "__dict__") else []
