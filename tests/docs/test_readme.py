"""README: its first spec is valid as it stands, on data that come with the package."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_the_first_spec_is_valid_without_public_data(
    home: Path, tmp_path: Path, run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNE_VFL_DATA", str(tmp_path / "nothing"))
    spec = tmp_path / "first.yaml"
    spec.write_text(re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)[0], encoding="utf-8")
    code, out, err = run("validate", spec)
    assert code == 0, err
    name = re.findall(r"^study: (\w+)$", spec.read_text(encoding="utf-8"), re.MULTILINE)[0]
    assert f"campaign {name}: 4 studies" in out
    assert f"tune-vfl search {name}.yaml" in README
