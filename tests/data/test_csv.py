"""A user's own tables and images: delimiters, joins, equality with the named sets."""

import gzip

import numpy as np
import pandas as pd
import pytest
import torch

from tune_vfl.data import data_root, load, written_out
from tune_vfl.data.split import split
from tune_vfl.spec import Named


def own(**options):
    return load(Named.model_validate({"name": "csv", **options}))


TABLE = [("age", "job", "city", "y"), *[(str(20 + k), "ab"[k % 2], "uvw"[k % 3], "01"[k % 4 == 0]) for k in range(24)]]


def write(path, rows=TABLE, delimiter=","):
    text = "\n".join(delimiter.join(row) for row in rows) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


@pytest.mark.parametrize(("name", "delimiter"), [("a.csv", ","), ("a.txt", ";"), ("a.tsv", "\t"), ("a.csv.gz", ",")])
def test_delimiters_and_gzip(tmp_path, name, delimiter):
    data = own(path=str(write(tmp_path / name, delimiter=delimiter)), label="y", split=0.67)
    assert data.passive[0].names == ("age", "job=a", "job=b")
    assert data.active is not None
    assert data.active.names == ("city=u", "city=v", "city=w")
    assert data.class_names == ("0", "1")
    assert data.y.tolist() == [int(k % 4 == 0) for k in range(24)]
    assert data.passive[0].x[:3].tolist() == [[20, 1, 0], [21, 0, 1], [22, 1, 0]]


def test_quotes_byte_order_mark_and_blanks(tmp_path):
    file = tmp_path / "a.csv"
    rows = "".join(f'"x, {k % 2}", {k} ,{k % 2}\r\n' for k in range(8))
    file.write_bytes(("\ufeffname, number,y\r\n" + rows).encode())
    data = own(path=str(file), label="y", parties={"passive": ["name"], "active": ["number"]})
    assert data.passive[0].names == ("name=x, 0", "name=x, 1")
    assert data.active is not None
    assert data.active.x.flatten().tolist() == list(range(8))


def test_explicit_parties_in_their_order_and_unused_columns_are_told(tmp_path):
    path = str(write(tmp_path / "a.csv"))
    data = own(path=path, label="y", parties={"shop": ["city"], "active": [], "app": "job"})
    assert [p.party for p in data.passive] == ["shop", "app"]
    assert data.active is None
    assert any("left out: age" in note for note in data.notes)


def test_an_id_is_no_feature(tmp_path):
    data = own(path=str(write(tmp_path / "a.csv")), label="y", id="age", split=1.0)
    assert all("age" not in name for name in data.passive[0].names)


def test_the_index_that_pandas_writes_is_no_feature(tmp_path):
    frame = pd.DataFrame({"a": [3, 1, 4, 1] * 3, "b": [2, 7, 1, 8] * 3, "y": [0, 1] * 6})
    frame.to_csv(tmp_path / "plain.csv", index=False)
    frame.to_csv(tmp_path / "indexed.csv")
    plain, indexed = (own(path=str(tmp_path / f"{n}.csv"), label="y") for n in ("plain", "indexed"))
    assert [c.names for c in indexed.passive] == [c.names for c in plain.passive] == [("a",)]
    assert torch.equal(indexed.passive[0].x, plain.passive[0].x)
    assert [n for n in indexed.notes if n not in plain.notes] == [
        "indexed.csv: the nameless first column only numbers the rows and is left out"
    ]


def test_path_under_the_data_root(tmp_path):
    write(tmp_path / "mine.csv")
    data = load(Named.model_validate({"name": "csv", "path": "mine.csv", "label": "y"}), root=tmp_path)
    assert len(data.y) == 24


def test_no_column_of_another_party_in_the_split(tmp_path):
    """Independent columns: each one of a party correlates with the file's column of its name alone."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 6))
    frame = pd.DataFrame(x, columns=list("abcdef")).assign(y=np.arange(60) % 2)
    frame.to_csv(tmp_path / "a.csv", index=False)
    data = own(path=str(tmp_path / "a.csv"), label="y", parties={"p": ["f", "a"], "q": ["c"], "active": ["b"]})
    cut = split(data, 0)
    for held, columns in [(cut.passive_train[0], "fa"), (cut.passive_train[1], "c"), (cut.active_train, "b")]:
        assert held is not None
        correlation = np.corrcoef(held.numpy().T, x[cut.train_rows.numpy()].T)[: len(columns), len(columns) :]
        assert ["abcdef"[k] for k in np.abs(correlation).argmax(1)] == list(columns)
        np.testing.assert_allclose(np.abs(correlation).max(1), 1, atol=1e-6)


def test_csv_of_wine_equals_wine(tmp_path):
    from sklearn.datasets import load_wine

    bunch = load_wine(as_frame=True)
    bunch.frame.to_csv(tmp_path / "wine.csv", index=False)
    ours, named = own(path=str(tmp_path / "wine.csv"), label="target"), load(Named(name="wine"))
    assert ours.passive[0].x.equal(named.passive[0].x)
    assert ours.passive[0].names == named.passive[0].names
    a, b = split(ours, 5), split(named, 5)
    assert a.passive_train[0].equal(b.passive_train[0])
    assert a.active_test is not None
    assert a.active_test.equal(b.active_test)
    assert a.y_test.equal(b.y_test)


BANK = "bank/bank-additional-full.csv.gz"


@pytest.mark.public_data(BANK)
def test_csv_of_bank_equals_bank():
    ours = own(path=str(data_root() / BANK), label="y", codes="ordinal")
    named = load(Named.model_validate({"name": "bank", "balance": False}))
    assert ours.fingerprint == named.fingerprint


def write_parties(tmp_path):
    rng = np.random.default_rng(1)
    ids = [f"u{k}" for k in range(30)]
    shop = pd.DataFrame({"user": ids, "spent": np.arange(30), "kind": ["a", "b"] * 15})
    bank = pd.DataFrame({"user": ids, "income": np.arange(30) * 10, "default": [k % 3 == 0 for k in range(30)]})
    shop = shop.iloc[rng.permutation(30)].iloc[:28]
    bank = bank.iloc[rng.permutation(30)].iloc[:27]
    shop.to_csv(tmp_path / "shop.csv", index=False)
    bank.to_csv(tmp_path / "bank.csv", sep=";", index=False)
    return shop, bank


def test_files_are_joined_on_the_id(tmp_path):
    shop, bank = write_parties(tmp_path)
    parties = {"shop": {"path": str(tmp_path / "shop.csv")}, "bank": {"path": str(tmp_path / "bank.csv")}}
    data = own(id="user", label="default", parties=parties)
    both = bank.merge(shop, on="user")  # keeps the order of the label party's file
    assert data.active is not None
    assert [p.party for p in data.passive] + [data.active.party] == ["shop", "bank"]
    assert data.passive[0].names == ("spent", "kind=a", "kind=b")
    assert data.passive[0].x[:, 0].tolist() == both["spent"].tolist()
    assert data.active.x.flatten().tolist() == both["income"].tolist()
    assert data.class_names == ("False", "True")
    assert data.y.tolist() == both["default"].astype(int).tolist()
    dropped = [f"{len(shop) - len(both)} of 28 rows", f"{len(bank) - len(both)} of 27 rows"]
    assert [words in note for words, note in zip(dropped, data.notes, strict=True)] == [True, True]


def test_written_out_files_load_the_same(tmp_path, monkeypatch):
    write_parties(tmp_path)
    monkeypatch.chdir(tmp_path)
    parties = {"shop": {"path": "shop.csv"}, "bank": {"path": "bank.csv", "columns": ["income"]}}
    asked = Named.model_validate({"name": "csv", "id": "user", "label": "default", "parties": parties})
    full = written_out(asked)
    assert full.options["parties"]["bank"] == {"path": str(tmp_path.resolve() / "bank.csv"), "columns": ["income"]}
    assert load(full).fingerprint == load(asked).fingerprint


def test_a_label_party_with_labels_alone(tmp_path):
    write_parties(tmp_path)
    parties = {
        "bank": {"path": str(tmp_path / "bank.csv"), "columns": []},
        "shop": {"path": str(tmp_path / "shop.csv")},
    }
    data = own(id="user", label="default", parties=parties)
    assert data.active is None
    assert [p.party for p in data.passive] == ["shop"]


def test_rows_without_an_id_have_no_partner(tmp_path):
    (tmp_path / "a.csv").write_text("i,a\n" + "".join(f"{k},{k}\n" for k in range(10)) + ",99\n,98\n")
    (tmp_path / "b.csv").write_text("i,y\n" + "".join(f"{k},{k % 2}\n" for k in range(10)) + ",1\n")
    data = own(
        id="i", label="y", parties={"p": {"path": str(tmp_path / "a.csv")}, "q": {"path": str(tmp_path / "b.csv")}}
    )
    assert data.passive[0].x.flatten().tolist() == list(range(10))
    assert "a.csv: 2 of 12 rows" in data.notes[0]


@pytest.mark.parametrize("shape", [(40, 6, 8), (40, 6, 8, 3), (40, 6, 8, 1)])
@pytest.mark.parametrize("kind", ["bytes", "floats"])
def test_npz_images(tmp_path, shape, kind):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, shape, dtype=np.uint8)
    np.savez(tmp_path / "a.npz", x=x if kind == "bytes" else (x / 255).astype(np.float32), y=np.arange(40) % 4)
    data = load(Named.model_validate({"name": "npz", "path": str(tmp_path / "a.npz")}))
    assert data.active is not None
    whole = torch.cat([data.passive[0].x, data.active.x], dim=3)
    expected = x.reshape(*shape[:3], -1).transpose(0, 3, 1, 2) / 255
    np.testing.assert_allclose(whole.numpy(), expected, atol=1e-7)
    assert data.passive[0].shape == (expected.shape[1], 6, 4)
    assert data.modality == "image"


def test_npz_with_its_own_test_rows(tmp_path):
    x, y = np.random.default_rng(0).random((30, 4, 4)), np.array(["cat", "dog"] * 15)
    np.savez(tmp_path / "a.npz", x_train=x[:20], y_train=y[:20], x_test=x[20:], y_test=y[20:, None])
    data = load(Named.model_validate({"name": "npz", "path": str(tmp_path / "a.npz")}))
    assert data.class_names == ("cat", "dog")
    assert split(data, 7).test_rows.tolist() == list(range(20, 30))
    assert split(data, 7).y_test.tolist() == [0, 1] * 5


def test_that_nobody_said_who_holds_what_is_told(tmp_path):
    table = write(tmp_path / "a.csv")
    label = TABLE[0][-1]
    said = "who holds which column is not said"
    assert any(note.startswith(said) for note in own(path=str(table), label=label).notes)
    assert not any(note.startswith(said) for note in own(path=str(table), label=label, split=0.5).notes)
