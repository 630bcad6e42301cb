"""``tune-vfl attack``: files in, a table or JSON out, refusals that say what was expected."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A recording whose gradients are the class, and its labels as words."""
    y = np.arange(120) % 2
    ids = np.concatenate([np.random.default_rng(epoch).permutation(120) for epoch in range(3)])
    gradients = (y[ids] - 0.5)[:, None] * np.ones((1, 3)) + np.random.default_rng(9).normal(0, 0.01, (360, 3))
    np.savez(tmp_path / "recording.npz", ids=ids, steps=np.arange(360) // 30, gradients=gradients)
    (tmp_path / "labels.csv").write_text("paid\n" + "\n".join("yes" if one else "no" for one in y))
    return tmp_path / "recording.npz", tmp_path / "labels.csv"


def test_a_recording_that_gives_all_away_is_said_to(run: Any, files: tuple[Path, Path]) -> None:
    recording, labels = files
    code, out, _ = run("attack", str(recording), "--labels", str(labels))
    assert code == 0
    assert "leakage: 1.000" in out
    assert "pmc was not run: it reads embeddings, which were not recorded" in out
    code, out, _ = run("attack", str(recording), "--labels", str(labels), "--json")
    answer = json.loads(out)
    assert answer["schema"] == "tune-vfl/recording/1"
    assert answer["attacks"]["grad_cluster"]["success"] == 1.0
    assert "pmc" in answer["not_run"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("paid\n" + "\n".join(["yes"] * 120), "expected classes"),
        ("paid\nyes\n\n" + "\n".join(["no"] * 119), "expected"),
        ("a,b\n1,2\n", "one named column of labels"),
        (None, "one named column of labels"),
    ],
)
def test_labels_that_are_none_are_refused(run: Any, files: tuple[Path, Path], text: str | None, said: str) -> None:
    recording, labels = files
    labels.unlink()
    if text is not None:
        labels.write_text(text)
    code, out, err = run("attack", str(recording), "--labels", str(labels))
    assert (code, out) == (2, "")
    assert said in err
