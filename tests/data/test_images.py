"""CIFAR-10, ISIC and pneumonia: npz files, their faults, and the real files where they are."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.helpers.refusals import refusal
from tune_vfl.data import load
from tune_vfl.data.base import Dataset
from tune_vfl.data.split import split
from tune_vfl.errors import DataError
from tune_vfl.spec import Named

FILES = {
    "cifar10": "cifar10/cifar10.npz",
    "isic": "isic/isic.npz",
    "pneumonia": "pneumoniamnist/pneumoniamnist.npz",
}


def images(n: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(n).integers(0, 256, (n, *shape), dtype=np.uint8)


def arrays_of(name: str) -> dict[str, Any]:
    if name == "cifar10":
        parts = {"train": 40, "test": 20}
        return {f"x_{p}": images(n, 32, 32, 3) for p, n in parts.items()} | {
            f"y_{p}": np.arange(n) % 10 for p, n in parts.items()
        }
    if name == "isic":
        return {"x": images(30, 64, 64, 1), "y": (np.arange(30) % 10 == 0).astype(np.uint8)}
    sizes = {"train": 12, "val": 6, "test": 8}
    return {f"{p}_images": images(n, 28, 28) for p, n in sizes.items()} | {
        f"{p}_labels": (np.arange(n) % 2).astype(np.uint8)[:, None] for p, n in sizes.items()
    }


def put(root: Path, name: str, arrays: dict[str, Any]) -> Path:
    path = root / FILES[name]
    path.parent.mkdir(exist_ok=True)
    np.savez_compressed(path, **arrays)
    return path


def read(root: Path, name: str, **options: object) -> Dataset:
    return load(Named.model_validate({"name": name, **options}), root=root)


def test_cifar10_keeps_pixels_channels_and_test_rows(tmp_path: Path) -> None:
    arrays = arrays_of("cifar10")
    put(tmp_path, "cifar10", arrays)
    data = read(tmp_path, "cifar10")
    assert data.active is not None
    assert data.passive[0].shape == data.active.shape == (3, 32, 16)
    whole = torch.cat([data.passive[0].x, data.active.x], 3).permute(0, 2, 3, 1).numpy()
    np.testing.assert_allclose(whole[:40], arrays["x_train"] / 255, rtol=1e-6)
    cut = split(data, 0)
    assert cut.test_rows.tolist() == list(range(40, 60))
    assert "40 + 20 of 50,000 + 10,000" in data.notes[0]
    assert data.class_names[3] == "cat"
    assert len(split(read(tmp_path, "cifar10", rows=20), 0).y_train) == 20


def test_isic_is_whole_at_the_passive_party(tmp_path: Path) -> None:
    put(tmp_path, "isic", arrays_of("isic"))
    data = read(tmp_path, "isic")
    assert (data.active, data.passive[0].shape, data.metric) == (None, (1, 64, 64), "auc")
    assert data.y.tolist() == [int(k % 10 == 0) for k in range(30)]
    assert len(split(data, 0).y_test) == 6


def test_pneumonia_trains_on_the_validation_rows_too(tmp_path: Path) -> None:
    arrays = arrays_of("pneumonia")
    put(tmp_path, "pneumonia", arrays)
    cut = split(read(tmp_path, "pneumonia"), 0)
    assert (len(cut.y_train), len(cut.y_test)) == (18, 8)
    np.testing.assert_allclose(cut.passive_train[0][12:, 0].numpy(), arrays["val_images"][:, :, :14] / 255, rtol=1e-6)


def without(name: str, key: str) -> dict[str, Any]:
    return {k: v for k, v in arrays_of(name).items() if k != key}


FAULTS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "array missing": ("cifar10", without("cifar10", "y_test"), ["expected arrays x_train, y_train", "it has: x_train"]),
    "other pixels": (
        "cifar10",
        arrays_of("cifar10") | {"x_test": images(20, 28, 28, 3)},
        ["'x_test'", "(N, 32, 32, 3)"],
    ),
    "labels lost": ("cifar10", arrays_of("cifar10") | {"y_train": np.arange(39) % 10}, ["'y_train'", "(39,)"]),
    "bad label": (
        "cifar10",
        arrays_of("cifar10") | {"y_test": np.array([0] * 19 + [10])},
        ["'y_test' holds 10 in row 20", "0 to 9"],
    ),
    "floats": ("isic", arrays_of("isic") | {"x": np.zeros((30, 64, 64, 1))}, ["float64", "expected uint8"]),
    "half a label": ("isic", arrays_of("isic") | {"y": np.full(30, 0.5)}, ["'y' holds 0.5 in row 1"]),
    "objects": ("isic", arrays_of("isic") | {"y": np.array([None] * 30)}, ["'y' cannot be read"]),
    "one class": ("isic", arrays_of("isic") | {"y": np.zeros(30, np.uint8)}, ["class 'melanoma' has 0 rows"]),
    "no images": ("pneumonia", arrays_of("pneumonia") | {"val_images": images(0, 28, 28), "val_labels": []}, ["empty"]),
    "a label a pixel": (
        "pneumonia",
        arrays_of("pneumonia") | {"val_labels": np.zeros((6, 28))},
        ["'val_labels' has shape (6, 28)"],
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_file_is_named(tmp_path: Path, fault: str) -> None:
    name, arrays, words = FAULTS[fault]
    path = put(tmp_path, name, arrays)
    with refusal(path, *words):
        read(tmp_path, name)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_cut_off_is_named(tmp_path: Path, name: str) -> None:
    path = put(tmp_path, name, arrays_of(name))
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(DataError, match=rf"{path.name}: is not an npz file, or is cut off"):
        read(tmp_path, name)


def test_official_batches_that_are_not_as_published_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    with pytest.raises(DataError, match=r"data_batch_1: no such file"):
        read(tmp_path, "cifar10")
    (folder / "data_batch_1").write_bytes(b"junk")
    with pytest.raises(DataError, match=r"data_batch_1: is corrupt or cut off: its MD5 is .*c99cafc152.*fetch"):
        read(tmp_path, "cifar10")


@pytest.mark.parametrize(
    ("name", "train", "test"),
    [
        pytest.param("cifar10", [1200] * 10, [300] * 10, marks=pytest.mark.public_data(FILES["cifar10"])),
        pytest.param("isic", [4766, 530], [1192, 132], marks=pytest.mark.public_data(FILES["isic"])),
        pytest.param(
            "pneumonia",
            [1349, 3883],
            [234, 390],
            marks=pytest.mark.public_data(FILES["pneumonia"]),
        ),
    ],
)
def test_the_real_files_have_their_rows(name: str, train: list[int], test: list[int]) -> None:
    data = load(Named(name=name))
    cut = split(data, 0)
    assert torch.bincount(cut.y_train).tolist() == train
    assert torch.bincount(cut.y_test).tolist() == test
    assert name != "cifar10" or data.recipe.auxiliary_per_class == 4
    assert 0 <= float(data.passive[0].x.min()) < float(data.passive[0].x.max()) <= 1


@pytest.mark.parametrize("classes", [2, 3])
def test_a_test_part_that_lacks_a_class_is_said_before_any_training(tmp_path: Path, classes: int) -> None:
    y = np.arange(60) % classes
    test = (np.arange(20) % (classes - 1)).astype(int)
    np.savez(tmp_path / "a.npz", x_train=images(60, 4, 4), y_train=y, x_test=images(20, 4, 4), y_test=test)
    if classes == 2:
        with pytest.raises(
            DataError, match=r"a\.npz.*: the test part has no row of class '1' \(20 of '0'\), and scores"
        ):
            read(tmp_path, "npz", path=str(tmp_path / "a.npz"))
        return
    said = "the test part has no row of class '2' (10 of '0', 10 of '1'): no score says anything about that class"
    assert said in read(tmp_path, "npz", path=str(tmp_path / "a.npz")).notes
