"""README: its spec of several defenses is valid as it stands, on bundled data; it names every method."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.registered import own_names
from tune_vfl.attacks.base import ATTACKS
from tune_vfl.data.base import DATASETS
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.models.base import MODELS
from tune_vfl.samplers.base import SAMPLERS

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_the_spec_of_several_defenses_is_valid_without_public_data(
    home: Path, tmp_path: Path, run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNE_VFL_DATA", str(tmp_path / "nothing"))
    spec = tmp_path / "first.yaml"
    spec.write_text(re.findall(r"```yaml\n(study: first\n.*?)```", README, re.DOTALL)[0], encoding="utf-8")
    code, out, err = run("validate", spec)
    assert code == 0, err
    name = re.findall(r"^study: (\w+)$", spec.read_text(encoding="utf-8"), re.MULTILINE)[0]
    assert f"campaign {name}: 4 studies" in out
    assert f"tune-vfl search {name}.yaml" in README


METHODS = README.partition("## Methods")[2].partition("\n## ")[0]
LISTS = {"defenses": DEFENSES, "data sets": DATASETS, "models": MODELS, "samplers": SAMPLERS}
LISTED = [(row, name) for row, registry in LISTS.items() for name in own_names(registry)]


def told(row: str) -> set[str]:
    """The names in one row of the first table of Methods."""
    (line,) = [line for line in METHODS.splitlines() if line.startswith(f"| {row} |")]
    return {name for quoted in line.split("`")[1::2] for name in quoted.split() if name.islower()}


@pytest.mark.parametrize(("row", "name"), LISTED)
def test_every_method_is_named(row: str, name: str) -> None:
    assert name in told(row), f"README.md, Methods: write {name} into the row `{row}`"


@pytest.mark.parametrize("name", own_names(ATTACKS))
def test_every_attack_is_described(name: str) -> None:
    assert re.search(rf"^\|[^|]*`{name}`[^|]*\|", METHODS, re.MULTILINE), f"README.md, Methods: give {name} a row"


@pytest.mark.parametrize("row", LISTS)
def test_nothing_else_is_named(row: str) -> None:
    assert told(row) <= set(own_names(LISTS[row]))
