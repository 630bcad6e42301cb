"""MNIST: the idx format on tiny files, its faults, and the official files where they are."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.helpers.refusals import refusal
from tune_vfl.data import load
from tune_vfl.data.base import Dataset
from tune_vfl.data.reading.idx import read_idx
from tune_vfl.data.split import split
from tune_vfl.errors import DataError
from tune_vfl.spec import Named

RAW = "MNIST/raw"


def idx(array: np.ndarray) -> bytes:
    """Write what :func:`read_idx` reads, byte by byte."""
    header = bytes([0, 0, 8, array.ndim]) + b"".join(int(n).to_bytes(4, "big") for n in array.shape)
    return header + bytes(array.astype(np.uint8).ravel().tolist())


def tiny(root: Path, *, train: int = 40, test: int = 20, zipped: bool = True) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    arrays = {}
    for part, n in (("train", train), ("t10k", test)):
        arrays[f"{part}-images-idx3-ubyte"] = rng.integers(0, 256, (n, 28, 28))
        arrays[f"{part}-labels-idx1-ubyte"] = np.arange(n) % 10
    for name, array in arrays.items():
        put(root, name, idx(array), zipped=zipped)
    return arrays


def put(root: Path, name: str, content: bytes, *, zipped: bool = True) -> Path:
    path = root / RAW / (f"{name}.gz" if zipped else name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if zipped else content)
    return path


def mnist(root: Path, **options: object) -> Dataset:
    return load(Named.model_validate({"name": "mnist", **options}), root=root)


@pytest.mark.parametrize("zipped", [True, False])
def test_rows_halves_and_official_test_rows(tmp_path: Path, zipped: bool) -> None:
    arrays = tiny(tmp_path, zipped=zipped)
    data = mnist(tmp_path)
    assert data.active is not None
    whole = torch.cat([data.passive[0].x, data.active.x], dim=3)
    expected = np.concatenate([arrays["train-images-idx3-ubyte"], arrays["t10k-images-idx3-ubyte"]]) / 255
    np.testing.assert_allclose(whole[:, 0].numpy(), expected, rtol=1e-6)
    assert data.passive[0].shape == data.active.shape == (1, 28, 14)
    cut = split(data, 5)
    assert cut.test_rows.tolist() == list(range(40, 60))
    assert cut.y_train.tolist() == [k % 10 for k in range(40)]
    assert (data.metric, data.num_classes, data.modality) == ("accuracy", 10, "image")


def test_a_sample_of_the_training_rows_is_stratified_fixed_and_recorded(tmp_path: Path) -> None:
    tiny(tmp_path)
    data, whole = mnist(tmp_path, rows=20), mnist(tmp_path)
    cut = split(data, 0)
    assert torch.bincount(cut.y_train).tolist() == [2] * 10
    assert torch.equal(cut.y_test, split(whole, 0).y_test)
    assert torch.equal(cut.passive_test[0], split(whole, 0).passive_test[0])
    assert "20 of 40" in data.notes[0]
    assert data.fingerprint != whole.fingerprint
    assert mnist(tmp_path, rows=40).fingerprint == whole.fingerprint
    assert not whole.notes
    for rows in (5, 41):
        with pytest.raises(DataError, match=rf"mnist: rows asks for {rows} of 40 rows; give 10"):
            mnist(tmp_path, rows=rows)


def labels_of(values: list[int]) -> bytes:
    return idx(np.array(values))


# the file that is broken, its new content from the old one, words of the message
FAULTS: dict[str, tuple[str, Callable[[bytes], bytes], list[str]]] = {
    "cut off": ("train-images-idx3-ubyte", lambda b: b[:-100], ["cut off", "31,276", "31,376", "40 x 28 x 28"]),
    "too long": ("t10k-labels-idx1-ubyte", lambda b: b + b"\0", ["holds 29 bytes", "says 28"]),
    "header cut off": ("t10k-labels-idx1-ubyte", lambda b: b[:6], ["holds 6 bytes", "cut off"]),
    "empty": ("train-labels-idx1-ubyte", lambda _: b"", ["not an idx file", "begins with nothing"]),
    "another format": ("train-labels-idx1-ubyte", lambda _: b"label\n1\n", ["not an idx file", "00000801"]),
    "images for labels": ("train-labels-idx1-ubyte", lambda _: idx(np.zeros((2, 28, 28))), ["3 axes where 1"]),
    "other pixels": ("train-images-idx3-ubyte", lambda _: idx(np.zeros((40, 32, 32))), ["40 x 32 x 32", "28 x 28"]),
    "labels lost": ("train-labels-idx1-ubyte", lambda _: labels_of([1] * 39), ["39 labels for the 40 images"]),
    "bad label": ("t10k-labels-idx1-ubyte", lambda _: labels_of([3] * 19 + [10]), ["label 20 is 10", "0 to 9"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_file_is_named(tmp_path: Path, fault: str) -> None:
    name, change, words = FAULTS[fault]
    path = put(tmp_path, name, change(idx(tiny(tmp_path)[name])))
    with refusal(path, *words, *(["fetch"] if fault != "images for labels" else [])):
        mnist(tmp_path)


def test_the_published_hash_of_a_broken_file_is_told(tmp_path: Path) -> None:
    tiny(tmp_path)
    put(tmp_path, "t10k-labels-idx1-ubyte", b"junk")
    with pytest.raises(DataError, match=r"t10k-labels-idx1-ubyte\.gz has the MD5 ec29112dd5afa0611ce80d1b7f02629c"):
        mnist(tmp_path)


@pytest.mark.parametrize(
    "zipped",
    [b"\x1f\x8b\x08\x00broken", gzip.compress(b"x" * 1000, 0)[:500], b"no gzip"],
    ids=["broken", "cut off", "no gzip"],
)
def test_a_broken_archive_is_named(tmp_path: Path, zipped: bytes) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(zipped)
    with pytest.raises(DataError, match=r"a\.gz: is corrupt or cut off .*fetch the file again"):
        read_idx(path, 1)


def test_a_class_without_training_rows_is_refused(tmp_path: Path) -> None:
    tiny(tmp_path)
    put(tmp_path, "train-labels-idx1-ubyte", labels_of([k % 9 for k in range(40)]))
    with pytest.raises(DataError, match=r"MNIST/raw: labels: class '9' has 0 rows"):
        mnist(tmp_path)


@pytest.mark.public_data(f"{RAW}/train-images-idx3-ubyte.gz")
def test_the_official_files_are_as_published() -> None:
    data = load(Named(name="mnist"))
    cut = split(data, 0)
    assert data.recipe.auxiliary_per_class == 4
    assert (len(cut.y_train), len(cut.y_test)) == (60_000, 10_000)
    assert torch.bincount(cut.y_train).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert torch.bincount(cut.y_test).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert cut.y_train[:5].tolist() == [5, 0, 4, 1, 9]
    assert data.active is not None
    images = torch.cat([data.passive[0].x, data.active.x], 3)[:60_000]
    # The mean that everybody normalizes with.
    assert float(images.mean()) == pytest.approx(0.1307, abs=1e-4)
