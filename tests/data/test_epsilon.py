"""Epsilon: LIBSVM's format with 2,000 columns a line, of which a few are read."""

import bz2
from pathlib import Path

import numpy as np
import pytest

from tune_vfl.data import load
from tune_vfl.data.base import Dataset
from tune_vfl.data.sets.epsilon import drawn, read_columns
from tune_vfl.data.split import split
from tune_vfl.errors import DataError
from tune_vfl.spec import Named

COLUMNS = 2000


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of these tests goes to, or pushes anything out of, the user's own cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def table(rows: int, seed: int = 0) -> tuple[np.ndarray, list[int]]:
    rng = np.random.default_rng(seed)
    return rng.normal(0, 0.02, (rows, COLUMNS)).round(6), [1 if k % 3 == 0 else -1 for k in range(rows)]


def lines(x: np.ndarray, y: list[int]) -> list[bytes]:
    """As the official file has them: a blank at the end of each line, numbers in whatever notation."""
    return [
        (" ".join([str(label), *(f"{k}:{v:g}" for k, v in enumerate(row, start=1))]) + " \n").encode()
        for label, row in zip(y, x.tolist(), strict=True)
    ]


def put(root: Path, content: bytes, part: str = "", *, packed: bool = True) -> Path:
    path = root / f"epsilon/epsilon_normalized{part}{'.bz2' if packed else ''}"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bz2.compress(content) if packed else content)
    return path


def read(root: Path, **options: object) -> Dataset:
    return load(Named.model_validate({"name": "epsilon", **options}), root=root)


@pytest.mark.parametrize("packed", [True, False])
def test_fifty_columns_are_read_and_shared_out(tmp_path: Path, packed: bool) -> None:
    (x, y), (x_test, y_test) = table(30), table(12, seed=1)
    put(tmp_path, b"".join(lines(x, y)), packed=packed)
    put(tmp_path, b"".join(lines(x_test, y_test)), ".t", packed=packed)
    data = read(tmp_path)
    assert data.active is not None
    assert (data.passive[0].shape, data.active.shape) == ((23,), (27,))
    used = [int(name[1:]) for name in (*data.passive[0].names, *data.active.names)]
    assert used == drawn(50)
    assert len(set(used)) == 50
    whole = np.concatenate([data.passive[0].x.numpy(), data.active.x.numpy()], 1)
    naive = np.concatenate([x, x_test])[:, [k - 1 for k in used]]
    np.testing.assert_allclose(whole, naive, rtol=1e-5, atol=1e-9)
    assert data.y.tolist() == [int(v == 1) for v in (*y, *y_test)]
    assert (data.class_names, data.metric) == (("-1", "1"), "auc")
    assert split(data, 5).test_rows.tolist() == list(range(30, 42))
    assert data.notes == ("the files hold 30 + 12 of 400,000 + 100,000 rows",)


def test_the_same_reader_as_scikit_learns(tmp_path: Path) -> None:
    from sklearn.datasets import load_svmlight_file

    path = put(tmp_path, b"".join(lines(*table(9))), packed=False)
    ours, labels = read_columns(path, [2000, 1, 7])
    theirs, y = load_svmlight_file(str(path), n_features=COLUMNS)
    np.testing.assert_allclose(ours, theirs.toarray()[:, [1999, 0, 6]], rtol=1e-5)
    assert labels.tolist() == [int(v == 1) for v in y]


def test_more_columns_begin_with_fewer(tmp_path: Path) -> None:
    assert drawn(200)[:50] == drawn(50)
    assert sorted(drawn(COLUMNS)) == [*range(1, COLUMNS + 1)]
    put(tmp_path, b"".join(lines(*table(20))))
    put(tmp_path, b"".join(lines(*table(10))), ".t")
    data = read(tmp_path, columns=10, split=0.5, passive_parties=2, rows=12)
    assert [p.shape for p in data.passive] == [(3,), (2,)]
    assert len(split(data, 0).y_train) == 12


GOOD = lines(*table(3))
FAULTS = {
    "a line cut off": (b"".join(GOOD)[:-9000], "line 3 has [0-9,]+ columns, expected 2,000"),
    "a blank line": (GOOD[0] + b"\n" + GOOD[1], "line 2 has 0 columns"),
    "another label": (GOOD[0] + b"2" + GOOD[1][2:], "line 2 begins with '2', expected the label -1 or 1"),
    "columns in another order": (
        b"1 " + b" ".join(b"%d:1" % k for k in range(COLUMNS, 0, -1)),
        "in the place of column [0-9]+, expected",
    ),
    "no number": (GOOD[0].replace(b":", b":x"), "line 1 holds '[0-9]+:x"),
    "not finite": (b"1 " + b" ".join(b"%d:nan" % k for k in range(1, COLUMNS + 1)), "holds '[0-9]+:nan'"),
    "empty": (b"", "is empty"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_file_is_named(tmp_path: Path, fault: str) -> None:
    content, words = FAULTS[fault]
    put(tmp_path, b"".join(GOOD))
    path = put(tmp_path, content, ".t")
    with pytest.raises(DataError, match=f"{path}: .*{words}.*fetch"):
        read(tmp_path)


def test_archives_that_are_cut_off_or_missing_are_named(tmp_path: Path) -> None:
    path = put(tmp_path, b"".join(GOOD))
    with pytest.raises(DataError, match=r"epsilon_normalized\.t\.bz2: no such file; put .*libsvmtools"):
        read(tmp_path)
    put(tmp_path, b"".join(GOOD), ".t")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match=rf"{path}: is corrupt or cut off .*fetch"):
        read(tmp_path)
    path.write_bytes(b"no archive")
    with pytest.raises(DataError, match=rf"{path}: is corrupt or cut off .*fetch"):
        read(tmp_path)
