"""A wheel holds what the source holds: other machines install from it."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatch
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]


def test_every_file_of_the_packages_is_shipped():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    shipped = [*project["tool"]["setuptools"]["package-data"]["*"], "*.py"]
    packages = ("tune_vfl", "trainables", "reports", "search_spaces")
    files = [p for name in packages for p in (ROOT / name).rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    assert len(files) > 100
    assert [str(p.relative_to(ROOT)) for p in files if not any(fnmatch(p.name, s) for s in shipped)] == []


def test_the_versions_that_are_tested_lie_in_the_ranges_that_are_installed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [text for texts in project["optional-dependencies"].values() for text in texts]
    needed = {r.name.lower(): r for r in map(Requirement, [*project["dependencies"], *extras])}
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    tested = {name: version for name, _, version in (line.partition("==") for line in lines if line[0] != "#")}
    assert tested.keys() == needed.keys() - {project["name"]}
    assert [name for name, version in tested.items() if not needed[name].specifier.contains(version)] == []
