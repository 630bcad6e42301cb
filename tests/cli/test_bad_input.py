"""Broken files and specs through the command line: a message of the file, the place and the mend, nothing left."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image

from tune_vfl.cli.main import main

Files = dict[str, bytes]


def table(label: Callable[[int], object] = lambda k: k % 2, n: int = 40, **cells: Callable[[int], object]) -> bytes:
    """A csv with columns a, b and y; ``cells`` replaces or adds columns."""
    made: dict[str, Callable[[int], object]] = {
        "a": lambda k: k * 7 % 5,
        "b": lambda k: k * k % 11,
        **cells,
        "y": label,
    }
    lines = [",".join(made), *(",".join(str(cell(k)) for cell in made.values()) for k in range(n))]
    return "\n".join([*lines, ""]).encode()


def npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def png(height: int, width: int, seed: int) -> bytes:
    buffer = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width), dtype=np.uint8)
    Image.fromarray(pixels).save(buffer, "png")
    return buffer.getvalue()


def parquet() -> bytes:
    buffer = io.BytesIO()
    pd.read_csv(io.BytesIO(table())).to_parquet(buffer)
    return buffer.getvalue()


def csv(**options: Any) -> dict[str, Any]:
    return {"name": "csv", "path": "a.csv", "label": "y", **options}


def two_files(**options: Any) -> dict[str, Any]:
    parties = {"shop": {"path": "shop.csv"}, "bank": {"path": "bank.csv"}}
    return {"name": "csv", "id": "user", "label": "y", "parties": parties, **options}


def of_shop(first: int = 0, **options: Any) -> bytes:
    return pd.DataFrame({"user": range(first, first + 30), "spent": range(30), **options}).to_csv(index=False).encode()


BANK = (
    pd.DataFrame({"user": range(30), "income": range(30), "y": [k % 2 for k in range(30)]}).to_csv(index=False).encode()
)
PETS = {f"pets/{name}/{k}.png": png(6, 8, seed=k) for name in ("cat", "dog") for k in range(5)}
X, Y = np.random.default_rng(0).random((40, 4, 4)), np.arange(40) % 2
HOLED = np.where(np.arange(640).reshape(40, 4, 4) == 77, np.nan, X)

# name: (files, the spec's dataset, the file, the place and the mend as the message must hold them)
DATA: dict[str, tuple[Files, dict[str, Any], list[str]]] = {
    "missing file": ({}, csv(), ["a.csv: no such file", "give the path of an existing file"]),
    "folder in place of a file": ({"a.csv/x": b""}, csv(), ["a.csv: is a folder", "give the path of an existing file"]),
    "empty file": ({"a.csv": b""}, csv(), ["a.csv: is empty", "expected a csv with a header and rows"]),
    "header only": ({"a.csv": b"a,b,y\n"}, csv(), ["a.csv: holds a header and no rows", "needs rows"]),
    "wrong delimiter": (
        {"a.csv": table().replace(b",", b"|")},
        csv(),
        ["a.csv", "no column 'y'", "it has: a|b|y", "separate columns by , ; or tab"],
    ),
    "binary blob": ({"a.csv": bytes(range(256)) * 4}, csv(), ["a.csv", "save", "as csv in UTF-8"]),
    "another encoding": (
        {"a.csv": table(b=lambda k: "käse").decode().encode("latin-1")},
        csv(),
        ["a.csv: is not UTF-8 text", "save it as csv in UTF-8"],
    ),
    "row too short": (
        {"a.csv": table() + b"1\n"},
        csv(),
        ["a.csv: line 42 has 1 fields where 3", "check its separators"],
    ),
    "column twice in the header": (
        {"a.csv": table().replace(b"a,b", b"a,a")},
        csv(),
        ["a.csv: the header names column 'a' 2 times", "rename"],
    ),
    "label column absent": (
        {"a.csv": table()},
        csv(label="Y"),
        ["a.csv", "no column 'Y', the label", "did you mean 'y'?"],
    ),
    "label of one class": (
        {"a.csv": table(lambda k: 1)},
        csv(),
        ["a.csv: label column 'y': is constant ('1'", "needs at least two classes"],
    ),
    "label missing in rows": (
        {"a.csv": table(lambda k: "" if k == 4 else k % 2)},
        csv(),
        ["a.csv: label column 'y': is missing in 1 of 40 rows (first in row 5)", "remove these rows or fill in"],
    ),
    "continuous label": (
        {"a.csv": table(lambda k: k / 7)},
        csv(),
        ["a.csv: label column 'y': is continuous", "cut the numbers into ranges"],
    ),
    "class of one row": (
        {"a.csv": table(lambda k: k // 39)},
        csv(),
        ["a.csv: label column 'y': class '1' has 1 row", "add rows or remove the class"],
    ),
    "no such positive class": (
        {"a.csv": table()},
        csv(positive="yes"),
        ["a.csv: label column 'y': has no class 'yes'", "its classes are '0' and '1'"],
    ),
    "column of two parties": (
        {"a.csv": table()},
        csv(parties={"shop": ["a", "b"], "active": ["b"]}),
        ["a.csv: column 'b' is given to two parties, 'shop' and 'active'", "give it to one"],
    ),
    "unknown column": (
        {"a.csv": table()},
        csv(parties={"shop": ["a", "c"]}),
        ["a.csv", "no column 'c' of party 'shop'", "it has: a, b, y"],
    ),
    "label as a feature": (
        {"a.csv": table()},
        csv(parties={"shop": ["a", "y"]}),
        ["a.csv: column 'y' is the label", "party 'shop'", "take it off the list"],
    ),
    "more parties than columns": (
        {"a.csv": table()},
        csv(passive_parties=4),
        ["a.csv: columns: ", "raise split or lower passive_parties"],
    ),
    "text in a numeric column": (
        {"a.csv": table(a=lambda k: "many" if k == 7 else k)},
        csv(numeric=["a"]),
        ["a.csv: column 'a' is declared numeric, but holds 'many' in row 8", "correct it"],
    ),
    "infinite number": (
        {"a.csv": table(a=lambda k: "inf" if k == 3 else k)},
        csv(),
        ["a.csv: column 'a' holds inf in row 4", "correct it or leave the field empty"],
    ),
    "id repeats": (
        {"shop.csv": of_shop() + b"3,9\n", "bank.csv": BANK},
        two_files(),
        ["shop.csv: column 'user' repeats 1 ids (such as '3' in row 31)", "an id must name one row"],
    ),
    "no common ids": (
        {"shop.csv": of_shop(first=100), "bank.csv": BANK},
        two_files(),
        ["bank.csv: no id of column 'user' is in every party's file", "shop.csv has 100"],
    ),
    "no id column": (
        {"shop.csv": of_shop().replace(b"user", b"users"), "bank.csv": BANK},
        two_files(),
        ["shop.csv: the header has no column 'user', the id", "did you mean 'users'?"],
    ),
    "label at two parties": (
        {"shop.csv": of_shop(y=[0, 1] * 15), "bank.csv": BANK},
        two_files(),
        ["shop.csv and ", "bank.csv: both hold the label column 'y'", "remove it from all files but one"],
    ),
    "truncated Parquet": (
        {"a.csv": parquet()[:-20]},
        csv(),
        ["a.csv: is corrupt or cut off", "fetch or write the file again"],
    ),
    "csv called Parquet": (
        {"a.parquet": table()},
        csv(path="a.parquet"),
        ["a.parquet: is not a Parquet file", "name a csv so that it ends in .csv"],
    ),
    "truncated npz": (
        {"a.npz": npz(x=X, y=Y)[:-40]},
        {"name": "npz", "path": "a.npz"},
        ["a.npz: is not an npz file, or is cut off", "write it with numpy.savez"],
    ),
    "npz of objects": (
        {"a.npz": npz(x=X, y=np.array([{}] * 40, dtype=object))},
        {"name": "npz", "path": "a.npz"},
        ["a.npz: array 'y' cannot be read", "give plain numbers or text, not objects"],
    ),
    "npz with NaN": (
        {"a.npz": npz(x=HOLED, y=Y)},
        {"name": "npz", "path": "a.npz"},
        ["a.npz: the images hold numbers that are not finite", "correct or remove these rows"],
    ),
    "npz without labels": (
        {"a.npz": npz(x=X, labels=Y)},
        {"name": "npz", "path": "a.npz"},
        ["a.npz: expected arrays x and y", "it has: x, labels"],
    ),
    "truncated png": (
        PETS | {"pets/dog/5.png": png(6, 8, seed=9)[:-30]},
        {"name": "images", "path": "pets"},
        ["pets/dog/5.png: is no image that can be read, or is cut off", "replace or remove it"],
    ),
    "image of another size": (
        PETS | {"pets/dog/5.png": png(8, 8, seed=9)},
        {"name": "images", "path": "pets"},
        ["pets/dog/5.png: is 8 x 8 pixels", "size: [6, 8]"],
    ),
    "no class folders": (
        {"pets/1.png": png(6, 8, seed=0)},
        {"name": "images", "path": "pets"},
        ["pets: has no sub-folders", "put the images of each class into a sub-folder"],
    ),
}

SPEC = {
    "study": "bad",
    "dataset": csv(),
    "defense": "laplace",
    "attacks": ["norm"],
    "training": {"epochs": 1},
    "budget": {"trials": 2, "seeds": 1},
}
# name: (what differs from a good spec, or the whole file; the place and the mend)
SPECS: dict[str, tuple[dict[str, Any] | bytes, list[str]]] = {
    "not YAML": (b"study: [1, 2\ndataset: x\n", ["is not valid YAML", "line 2"]),
    "not text": (b"\x00\xff\xfe\x93NUMPY", ["spec.yaml"]),
    "a list": (b"- a\n- b\n", ["expected a mapping with study, dataset, defense and attacks"]),
    "empty spec": (b"", ["expected a mapping"]),
    "unknown field": ({"buget": {"trials": 3}}, ["buget: no such field", "Did you mean 'budget'?"]),
    "a budget at the top": ({"seeds": 3}, ["seeds: no such field. budget.seeds is meant?"]),
    "a training at the top": ({"epochs": 3}, ["epochs: no such field. training.epochs is meant?"]),
    "a constraint at the top": ({"utility_loss": 0.1}, ["constraints.utility_loss is meant?"]),
    "unknown option of the data": ({"dataset": csv(lable="y")}, ["lable: no such field", "'label'"]),
    "no label": ({"dataset": {"name": "csv", "path": "a.csv"}}, ["dataset 'csv'", "label: is required and missing"]),
    "dataset is a number": ({"dataset": 3}, ["dataset", "got 3"]),
    "epochs in words": ({"training": {"epochs": "lots"}}, ["training.epochs", "valid integer", "got 'lots'"]),
    "negative trials": ({"budget": {"trials": -5}}, ["budget.trials", "greater than", "got -5"]),
    "negative minutes": ({"budget": {"minutes": -1}}, ["budget.minutes", "greater than", "got -1"]),
    "no seeds": ({"budget": {"trials": 2, "seeds": 0}}, ["budget.seeds", "greater than", "got 0"]),
    "negative learning rate": ({"training": {"lr": -0.1}}, ["training.lr", "greater than", "got -0.1"]),
    "no attacks": ({"attacks": []}, ["attacks"]),
    "unknown data set": ({"dataset": "wein"}, ["unknown dataset 'wein'", "Did you mean 'wine'?"]),
    "unknown defense": ({"defense": "laplas"}, ["unknown defense 'laplas'", "Did you mean 'laplace'?"]),
    "unknown attack": ({"attacks": ["nrom"]}, ["unknown attack 'nrom'", "Did you mean 'norm'?"]),
    "unknown model": ({"model": {"name": "mpl"}}, ["unknown model 'mpl'", "Did you mean 'mlp'?"]),
    "unknown parameter": (
        {"defense": {"name": "laplace", "params": {"scal": 1}}},
        ["scal: no such field", "Did you mean 'scale'?"],
    ),
    "range upside down": (
        {"defense": {"name": "laplace", "space": {"scale": {"float": [0.1, 0.001]}}}},
        ["scale", "0.1"],
    ),
    "columns and files by party": (
        {"dataset": csv(parties={"shop": {"path": "a.csv"}, "active": ["b"]})},
        ["parties mixes files and lists", "give every party a file, or path and lists"],
    ),
    "files without an id": (
        {"dataset": {k: v for k, v in two_files().items() if k != "id"}},
        ["id is missing", "name the column that joins"],
    ),
    "a share above one": ({"dataset": csv(split=1.5)}, ["split", "less than or equal to 1", "got 1.5"]),
    "a column of two kinds": (
        {"dataset": csv(numeric=["a"], categorical=["a"])},
        ["column 'a' is listed as numeric and as categorical", "list it once"],
    ),
    "unknown metric": ({"dataset": csv(metric="aucc")}, ["metric", "'auc'", "got 'aucc'"]),
    "attack for another mode": ({"attacks": ["direct"]}, ["'direct'", "model.top=none makes it nosplit"]),
    "a race": ({"allocation": "race"}, ["allocation: expected even", "leave the line out", "got 'race'"]),
    "study with a path for a name": ({"study": "../x"}, ["study", "got '../x'"]),
}


@pytest.fixture
def place(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def put(files: Files) -> None:
    for name, content in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(content)


def refused(place: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a verb that must refuse, and return what it said."""
    before = sorted(place.rglob("*"))
    code = main(list(arguments))
    out, err = capsys.readouterr()
    assert code == 2, err
    assert out == ""
    assert "Traceback" not in err
    assert "unexpected" not in err
    assert sorted(place.rglob("*")) == before
    return err


@pytest.mark.parametrize("verb", ["validate", "search", "data check"])
@pytest.mark.parametrize("case", DATA)
def test_broken_data(place: Path, capsys: pytest.CaptureFixture[str], verb: str, case: str) -> None:
    files, dataset, words = DATA[case]
    put(files | {"spec.yaml": yaml.safe_dump({**SPEC, "dataset": dataset}, sort_keys=False).encode()})
    told = refused(place, capsys, *verb.split(), "spec.yaml")
    assert str(Path.cwd()) in told or words[0].startswith("a.csv: no such file")
    for word in words:
        assert word in told


@pytest.mark.parametrize("verb", ["validate", "search"])
@pytest.mark.parametrize("case", SPECS)
def test_broken_specs(place: Path, capsys: pytest.CaptureFixture[str], verb: str, case: str) -> None:
    changes, words = SPECS[case]
    whole = changes if isinstance(changes, bytes) else yaml.safe_dump({**SPEC, **changes}, sort_keys=False).encode()
    put({"a.csv": table(), "spec.yaml": whole})
    told = refused(place, capsys, verb, "spec.yaml")
    for word in ("spec.yaml", *words):
        assert word in told


def test_the_good_spec_is_good(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put({"a.csv": table(), "spec.yaml": yaml.safe_dump(SPEC).encode()})
    assert main(["validate", "spec.yaml"]) == 0
    put(
        {
            "shop.csv": of_shop(),
            "bank.csv": BANK,
            "spec.yaml": yaml.safe_dump({**SPEC, "dataset": two_files()}).encode(),
        }
    )
    assert main(["validate", "spec.yaml"]) == 0
    put(PETS | {"spec.yaml": yaml.safe_dump({**SPEC, "dataset": {"name": "images", "path": "pets"}}).encode()})
    assert main(["validate", "spec.yaml"]) == 0


def test_there_are_enough_of_them() -> None:
    assert len(DATA) + len(SPECS) >= 25
