"""docs/datasets.md: its table holds every named data set, and says of each what its loader says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.registered import own_names
from tune_vfl.data import load
from tune_vfl.data.base import DATASETS, Dataset
from tune_vfl.data.split import split
from tune_vfl.errors import DataError
from tune_vfl.spec import Named

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "datasets.md").read_text(encoding="utf-8")
FINDINGS = (DOCS / "findings.md").read_text(encoding="utf-8")
KINDS = {"official", "sample", "stand-in", "generated"}


def table(first: str) -> dict[str, dict[str, str]]:
    """Read the table whose header begins with some columns; its rows by the name in their first cell."""
    lines = iter(TEXT.splitlines())
    header = next(line for line in lines if line.startswith(f"| data set | {first} |"))
    names = [cell.strip() for cell in header.strip("|").split("|")]
    next(lines)
    found = {}
    for line in lines:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert len(cells) == len(names), line
        found[cells[0].strip("`")] = dict(zip(names, cells, strict=True))
    return found


SETS = table("rows (training / test)")
FILES = table("files, under the data root")
BUNDLED, OWN = {"breast_cancer", "digits", "wine"}, {"csv", "npz", "images"}


def test_the_table_holds_every_data_set_in_order() -> None:
    assert list(SETS) == own_names(DATASETS), (
        "docs/datasets.md: give each data set a row of the table that begins with `rows`"
    )
    assert {row["run here on"] for row in SETS.values()} == KINDS
    assert set(FILES) == set(SETS) - BUNDLED - OWN, "docs/datasets.md: say in the table of files where its files lie"


def loaded(name: str) -> Dataset | str:
    """The data set, or what is said where its files are not there."""
    try:
        return load(Named(name=name))
    except DataError as error:
        return str(error)


def places(name: str) -> set[str]:
    """Where the tables say its files are, or those of the data set that stands in for it."""
    cell = FILES[name]["files, under the data root"]
    stand_in = SETS[name]["run here on"] == "stand-in"
    others = [n for n in FILES if n != name and stand_in and n in cell]
    files = [quoted for quoted in cell.split("`")[1::2] if "/" in quoted or quoted.endswith(".tar.gz")]
    return {file.split("/")[0] for file in files}.union(*map(places, others))


@pytest.mark.public_data  # either way: what is said of missing files is held too
@pytest.mark.parametrize("name", [n for n in SETS if n not in OWN])
def test_a_row_says_what_is_loaded(name: str) -> None:
    row, data = SETS[name], loaded(name)
    if isinstance(data, str):
        assert any(f"/{place}" in data for place in places(name))
        assert "no such" in data
        return
    official, _, sample = row["default model"].partition(", of the sample ")
    assert data.recipe.model.name == (sample if sample and row["run here on"] == "sample" else official)
    assert row["metric"] == data.metric
    assert row["parties"].startswith(f"{len(data.passive) + 1}, ")
    assert ("labels alone" in row["parties"]) == (data.active is None)
    if row["run here on"] == "official":
        cut = split(data, 0)
        told = row["rows (training / test)"].removesuffix(", balanced")
        assert told == f"{len(cut.y_train):,} / {len(cut.y_test):,}"


def test_every_measured_row_is_of_a_data_set() -> None:
    part = FINDINGS.split("## Undefended models", 1)[1].split("\n## ")[0]
    measured = [line.split("`")[1] for line in part.splitlines() if line.startswith("| `")]
    assert set(measured) <= set(SETS)
    here = {name for name, row in SETS.items() if row["run here on"] in ("official", "sample")}
    missing = here - set(measured)
    assert not missing, f"docs/findings.md, Undefended models: run the command there for {missing}, and add the rows"
