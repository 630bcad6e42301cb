"""Broken files and specs through the command line: a message of the file, the place and the mend, nothing left."""

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

# name: (files, the spec's dataset, the file, the place and the mend as the message must hold them); all other cases of
# each kind of file are in tests/data.
DATA: dict[str, tuple[Files, dict[str, Any], list[str]]] = {
    "missing file": ({}, csv(), ["a.csv: no such file", "give the path of an existing file"]),
    "folder in place of a file": ({"a.csv/x": b""}, csv(), ["a.csv: is a folder", "give the path of an existing file"]),
    "a blank before a path": ({}, csv(path=" a.csv"), ["' a.csv': no such file"]),
    "the label party in capitals": (
        {"a.csv": table()},
        csv(parties={"p": ["a"], "Active": ["b"]}),
        ["a.csv: party 'Active' would be a passive one", "write 'active' for the label party"],
    ),
    "a column of no file": (
        {"a.csv": table()},
        csv(parties={"p": ["aa"]}),
        ["a.csv: the header has no column 'aa' of party 'p'. Did you mean 'a'?"],
    ),
    "wrong delimiter": (
        {"a.csv": table().replace(b",", b"|")},
        csv(),
        ["a.csv", "no column 'y'", "it has: a|b|y", "separate columns by , ; or tab"],
    ),
    "class of one row": (
        {"a.csv": table(lambda k: k // 39)},
        csv(),
        ["a.csv: label column 'y': class '1' has 1 row", "add rows or remove the class"],
    ),
    "no common ids": (
        {"shop.csv": of_shop(first=100), "bank.csv": BANK},
        two_files(),
        ["bank.csv: no id of column 'user' is in every party's file", "shop.csv has 100"],
    ),
    "truncated Parquet": (
        {"a.csv": parquet()[:-20]},
        csv(),
        ["a.csv: is corrupt or cut off", "fetch or write the file again"],
    ),
    "truncated npz": (
        {"a.npz": npz(x=X, y=Y)[:-40]},
        {"name": "npz", "path": "a.npz"},
        ["a.npz: is not an npz file, or is cut off", "write it with numpy.savez"],
    ),
    "truncated png": (
        PETS | {"pets/dog/5.png": png(6, 8, seed=9)[:-30]},
        {"name": "images", "path": "pets"},
        ["pets/dog/5.png: is no image that can be read, or is cut off", "replace or remove it"],
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
    "text": (b"just text", ["expected a mapping"]),
    "a table": (table(), ["expected a mapping", "which names a table: dataset: {name: csv, path: TABLE"]),
    "a Parquet file": (parquet(), ["cannot be read", "which names a table: dataset: {name: csv, path: TABLE"]),
    "half a spec": (b"study: x\n", ["dataset"]),
    "code": (b"a: !!python/object/apply:os.getcwd []\n", ["is not valid YAML"]),
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
    "more seeds than anybody trains": ({"budget": {"seeds": 10**200}}, ["budget.seeds", "less than or equal to 10000"]),
    "more trials than a ledger counts": ({"budget": {"trials": 2**31}}, ["budget.trials", "less than 2147483648"]),
    "a learning rate without end": (b"study: x\ntraining: {lr: .inf}\n", ["training.lr", "finite number"]),
    "all processors there are": (b"study: x\nresources: {cpu: .inf}\n", ["resources.cpu", "finite number"]),
    "half of a character": (b'dataset: {name: csv, path: "\\udc80"}\n', ["line 1", "half of a character"]),
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
    "an option of a party's file": (
        {"dataset": two_files(parties={"shop": {"path": "a.csv", "colums": ["a"]}, "bank": {"path": "a.csv"}})},
        ["dataset 'csv': parties.shop.colums: no such field. Did you mean 'columns'? Known: separator, "],
    ),
    "a party without columns": ({"dataset": csv(parties={"p": None})}, ["parties.p: expected a list, got None"]),
    "parties in a list": ({"dataset": csv(parties=["a"])}, ["parties: expected a mapping, got ['a']"]),
    "half a label": ({"dataset": csv(label={"column": "b"})}, ["dataset 'csv': label.above: is required and missing"]),
    "a share above one": (
        {"dataset": csv(split=1.5)},
        ["dataset 'csv': split: expected", "less than or equal to 1", "got 1.5"],
    ),
    "a column of two kinds": (
        {"dataset": csv(numeric=["a"], categorical=["a"])},
        ["column 'a' is listed as numeric and as categorical", "list it once"],
    ),
    "unknown metric": ({"dataset": csv(metric="aucc")}, ["metric", "'auc'", "got 'aucc'"]),
    "attack for another mode": ({"attacks": ["direct"]}, ["'direct'", "model.top=none makes it nosplit"]),
    "a race": ({"allocation": "race"}, ["allocation: input should be 'even'", "got 'race'"]),
    "study with a path for a name": (
        {"study": "../x"},
        ["study: expected a name of at most 120 letters", "write x", "got '../x'"],
    ),
    "study with a space": ({"study": "my study"}, ["write my-study", "got 'my study'"]),
    "study in other letters": ({"study": "café"}, ["write cafe", "got 'café'"]),
    "campaign with a space": ({"study": "a b", "defense": ["laplace"]}, ["write a-b-csv-laplace"]),
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


FILES = [case for case, (changes, _) in SPECS.items() if isinstance(changes, bytes) and b"study: x" not in changes]


@pytest.mark.parametrize(
    ("verb", "case"),
    [*((verb, case) for verb in ("validate", "search") for case in SPECS), *(("submit", c) for c in FILES)],
)
def test_broken_specs(place: Path, capsys: pytest.CaptureFixture[str], verb: str, case: str) -> None:
    changes, words = SPECS[case]
    whole = changes if isinstance(changes, bytes) else yaml.safe_dump({**SPEC, **changes}, sort_keys=False).encode()
    put({"a.csv": table(), "spec.yaml": whole})
    told = refused(place, capsys, verb, "spec.yaml")
    for word in ("spec.yaml", *words):
        assert word in told


def test_a_table_is_not_downloaded(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    address = "https://me:secret@host/a.csv?key=1"
    told = refused(place, capsys, "data", "check", "--dataset", "csv", "--set", f"dataset={csv(path=address)}")
    assert told == (
        "tune-vfl: https://me@host/a.csv: is an address, and nothing is downloaded; fetch the file, and give its path\n"
        "  see docs/errors.md#data\n"
    )


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
