"""docs/own-loop.md: its lines on attacks run as they stand, and it names every call of the loops."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tune_vfl.config import ExportedConfig
from tune_vfl.evaluation.own_loop import OwnLoop
from tune_vfl.evaluation.own_rounds import Client, OwnRounds
from tune_vfl.evaluation.recorded import RecordedTraining

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "own-loop.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs" / "api-tune_vfl.md").read_text(encoding="utf-8")
REFERRED = [of for of in (OwnLoop, OwnRounds, Client) if f".{of.__name__}\n   :members:" in REFERENCE]


def test_attacks_are_run_on_what_a_loop_of_ones_own_received(capsys: pytest.CaptureFixture[str]) -> None:
    _, lines = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    torch.manual_seed(0)
    exec(lines, {})  # noqa: S102 - the page's own lines
    by_norm, by_completion = map(float, capsys.readouterr().out.split())
    assert by_norm > 0.95
    assert by_completion > 0.95


def test_what_the_page_records_is_a_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, _ = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    page: dict[str, Any] = {}
    exec(lines, page)  # noqa: S102 - the page's own lines
    monkeypatch.chdir(tmp_path)
    for step in range(4):
        ids = np.arange(3) + 3 * (step % 2)
        page["record"](step, ids, np.ones((3, 2)), np.full((3, 2), step))
    page["save"](np.zeros((6, 4)))
    held = RecordedTraining.read(tmp_path / "recording.npz")
    assert (held.rows, held.epochs) == (6, 2)
    assert held.recording("last").gradients[:, 0].tolist() == [2, 2, 2, 3, 3, 3]


@pytest.mark.parametrize("loop", ["own_loop_split", "own_loop_label_only", "own_loop_fedavg"])
def test_the_page_and_the_reference_name_what_the_loops_call(loop: str) -> None:
    code = (ROOT / "examples" / f"{loop}.py").read_text(encoding="utf-8")
    assert f"examples/{loop}.py" in TEXT
    called = set(re.findall(r"\b(?:defense|cfg)\.\w+", code))
    assert {c for c in called if c not in TEXT} - {"cfg.seeds", "cfg.measured", "cfg.mode", "cfg.federation"} == set()
    for name in re.findall(r"\b(?:run|client)\.(\w+)", code):
        members = [vars(of)[name] for of in REFERRED if name in vars(of)]
        told = [of for of in REFERRED if re.search(rf"\b{name}\b", of.__doc__ or "")]
        assert told or any(member.__doc__ for member in members), name


def test_what_the_page_names_is_there() -> None:
    """Attributes of the config and of a run; those of a defense are held by the loops."""
    for name in re.findall(r"\bcfg\.(\w+)", TEXT):
        assert name in ExportedConfig.model_fields or hasattr(ExportedConfig, name)
    runs = "".join(f"{of.__doc__} {dir(of)}" for of in (OwnLoop, OwnRounds))
    assert [name for name in re.findall(r"\brun\.(\w+)", TEXT) if name not in runs] == []
    clients = f"{Client.__doc__} {dir(Client)} models"
    assert [name for name in re.findall(r"\bclient\.(\w+)", TEXT) if name not in clients] == []
