"""What all rooms share: a home of its own for each test that asks, and the command line called in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from pathlib import Path

# What a person may have set for clusters and servers of theirs; no test may act on it.
OUTSIDE = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "MLFLOW_TRACKING_URI", "TUNE_VFL_DEBUG")


class Run(Protocol):
    """Call the command line: its exit code, what it printed, and what it said on stderr."""

    def __call__(self, *arguments: object) -> tuple[int, str, str]: ...


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that is not there yet, and no cluster or tracking server that the environment names."""
    monkeypatch.setenv("TUNE_VFL_HOME", str(tmp_path / "home"))
    for name in OUTSIDE:
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    from tune_vfl.cli.main import main

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return call
