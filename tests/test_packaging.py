"""A wheel holds what the source holds: other machines install from it."""

import subprocess
import sys
import tomllib
import zipfile
from fnmatch import fnmatch

import pytest
import yaml
from packaging.requirements import Requirement

from tests.helpers.source import PACKAGES, ROOT, copied_to
from tune_vfl.machine.version import VERSION


def files_of_the_packages():
    return [p for name in PACKAGES for p in (ROOT / name).rglob("*") if p.is_file() and "__pycache__" not in p.parts]


def test_every_file_of_the_packages_is_shipped():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    shipped = [*project["tool"]["setuptools"]["package-data"]["*"], "*.py"]
    files = files_of_the_packages()
    assert len(files) > 100
    assert [str(p.relative_to(ROOT)) for p in files if not any(fnmatch(p.name, s) for s in shipped)] == []


def test_the_versions_that_are_tested_lie_in_the_ranges_that_are_installed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [text for texts in project["optional-dependencies"].values() for text in texts]
    needed = [Requirement(text) for text in [*project["dependencies"], *extras]]
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    tested = {name: version for name, _, version in (line.partition("==") for line in lines if line[0] != "#")}
    assert tested.keys() == {need.name.lower() for need in needed} - {project["name"]}
    ours = [need for need in needed if need.name != project["name"]]
    assert [str(need) for need in ours if not need.specifier.contains(tested[need.name.lower()])] == []


@pytest.mark.slow  # builds a wheel
def test_a_wheel_holds_every_file_and_the_version(tmp_path):
    source = copied_to(tmp_path / "source")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    wheel = tmp_path / f"tune_vfl-{VERSION}-py3-none-any.whl"
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == {str(p.relative_to(ROOT)) for p in files_of_the_packages()}


def test_what_one_cites_is_this_version():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == VERSION
    assert f"## [{VERSION}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
