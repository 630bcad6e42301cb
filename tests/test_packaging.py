"""A wheel holds what the source holds: other machines install from it."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_file_of_the_packages_is_shipped():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    shipped = [*project["tool"]["setuptools"]["package-data"]["*"], "*.py"]
    packages = ("tune_vfl", "trainables", "reports", "search_spaces")
    files = [p for name in packages for p in (ROOT / name).rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    assert len(files) > 100
    assert [str(p.relative_to(ROOT)) for p in files if not any(fnmatch(p.name, s) for s in shipped)] == []
