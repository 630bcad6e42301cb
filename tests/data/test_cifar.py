"""CIFAR's python batches and the folders of CINIC-10: what is read, what is refused."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.helpers.official import noise, picture, put_pickle
from tune_vfl.data import load
from tune_vfl.data.base import Dataset
from tune_vfl.data.sets import cifar
from tune_vfl.data.split import split
from tune_vfl.errors import DataError
from tune_vfl.spec import Named

HUNDRED = [f"thing_{k}" for k in range(100)]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of these tests goes to, or pushes anything out of, the user's own cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def read(root: Path, name: str, **options: object) -> Dataset:
    return load(Named.model_validate({"name": name, **options}), root=root)


def batch(n: int, classes: int, key: str, seed: int = 0) -> dict[str, object]:
    """A batch as the archives have it: red, green and blue planes of each image in one row."""
    names = [f"image_{k}.png" for k in range(n)]
    return {"batch_label": "a batch", key: [k % classes for k in range(n)], "data": noise(n, 3072, seed=seed),
            "filenames": names}  # fmt: skip


def planes(data: object) -> np.ndarray:
    return np.asarray(data).reshape(-1, 3, 32, 32)


def cifar100_files(root: Path, monkeypatch: pytest.MonkeyPatch, **replaced: object) -> dict[str, object]:
    content: dict[str, object] = {
        "train": {**batch(200, 100, "fine_labels"), "coarse_labels": [k % 20 for k in range(200)]},
        "test": batch(100, 100, "fine_labels", seed=1),
        "meta": {"fine_label_names": HUNDRED, "coarse_label_names": ["group"] * 20},
        **replaced,
    }
    for name, value in content.items():
        monkeypatch.setitem(cifar.MD5_100, name, put_pickle(root / "cifar-100-python" / name, value))
    return content


def whole(data: Dataset) -> np.ndarray:
    assert data.active is not None
    return torch.cat([data.passive[0].x, data.active.x], 3).numpy()


def test_cifar100_keeps_pixels_fine_labels_and_test_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = cifar100_files(tmp_path, monkeypatch)
    data = read(tmp_path, "cifar100")
    train, test = content["train"], content["test"]
    assert isinstance(train, dict)
    assert isinstance(test, dict)
    assert data.passive[0].shape == (3, 32, 16)
    np.testing.assert_allclose(
        whole(data), np.concatenate([planes(train["data"]), planes(test["data"])]) / 255, rtol=1e-6
    )
    assert data.y.tolist() == [*train["fine_labels"], *test["fine_labels"]]
    assert (data.metric, data.class_names) == ("top5", tuple(HUNDRED))
    assert split(data, 3).test_rows.tolist() == list(range(200, 300))
    assert len(split(read(tmp_path, "cifar100", rows=100), 0).y_train) == 100


def test_the_official_batches_of_cifar10_come_before_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = []
    for k, name in enumerate(cifar.MD5):
        parts.append(batch(20, 10, "labels", seed=k))
        monkeypatch.setitem(cifar.MD5, name, put_pickle(tmp_path / "cifar-10-batches-py" / name, parts[-1]))
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10" / "cifar10.npz").write_bytes(b"not read")
    data = read(tmp_path, "cifar10")
    assert data.recipe.model.name == "resnet20", "the papers' net; of the sample a small one"
    np.testing.assert_allclose(whole(data), np.concatenate([planes(p["data"]) for p in parts]) / 255, rtol=1e-6)
    assert split(data, 0).test_rows.tolist() == list(range(100, 120))
    assert data.notes == ()


def test_a_batch_that_is_not_the_published_one_is_named_with_both_hashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cifar100_files(tmp_path, monkeypatch)
    path = tmp_path / "cifar-100-python" / "test"
    published = cifar.MD5_100["test"]
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(DataError, match=rf"{path}: is corrupt or cut off: its MD5 is \w+, published is {published}"):
        read(tmp_path, "cifar100")


class Runs:
    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (Path("touched"),)


def test_nothing_in_a_batch_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cifar100_files(tmp_path, monkeypatch)
    monkeypatch.chdir(tmp_path)
    content = pickle.dumps({"fine_label_names": Runs()})
    (tmp_path / "cifar-100-python" / "meta").write_bytes(content)
    import hashlib

    monkeypatch.setitem(cifar.MD5_100, "meta", hashlib.md5(content, usedforsecurity=False).hexdigest())
    with pytest.raises(DataError, match=r"meta: is no batch of images \(names pathlib.*, which no batch"):
        read(tmp_path, "cifar100")
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("train", [1, 2], "train: is no batch of images .a list"),
        ("train", {"data": noise(4, 3071), "fine_labels": [0, 1, 2, 3]}, "train: 'data' is not N x 3,072 bytes"),
        (
            "test",
            batch(7, 100, "coarse_labels"),
            "test: 'fine_labels' is not a whole number from 0 to 99 for each of 7",
        ),
        ("test", {"data": noise(1, 3072), "fine_labels": [100]}, "test: 'fine_labels' is not a whole number"),
        ("meta", {"fine_label_names": HUNDRED[:99]}, "meta: names 99 classes"),
        ("meta", {"label_names": HUNDRED}, "meta: 'fine_label_names' is not a list of names"),
    ],
)
def test_other_content_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: object, words: str
) -> None:
    cifar100_files(tmp_path, monkeypatch, **{name: value})
    with pytest.raises(DataError, match=words):
        read(tmp_path, "cifar100")


def cinic_files(root: Path, parts: tuple[str, ...] = ("train", "valid", "test")) -> np.ndarray:
    """Two pictures a class and part, named as the archive names them; returns them in the order train, valid, test."""
    made = []
    for p, part in enumerate(parts):
        for c, kind in enumerate(CINIC):
            for k, name in enumerate((f"cifar10-train-{c}", f"n0{c}_77")):
                made.append(
                    picture(
                        root / "CINIC-10" / part / kind / f"{name}.png", noise(32, 32, 3, seed=100 * p + 10 * c + k)
                    )
                )
    return np.stack(made)


CINIC = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def test_cinic10_trains_on_train_and_valid(tmp_path: Path) -> None:
    made = cinic_files(tmp_path)
    data = read(tmp_path, "cinic10")
    np.testing.assert_allclose(whole(data), made.transpose(0, 3, 1, 2) / 255, rtol=1e-6)
    assert data.y.tolist() == [k // 2 for k in range(20)] * 3
    cut = split(data, 0)
    assert (len(cut.y_train), cut.test_rows.tolist()) == (40, list(range(40, 60)))
    assert data.notes == ("the folder holds 40 + 20 of 180,000 + 90,000 rows",)
    assert (data.metric, data.class_names) == ("accuracy", CINIC)


def test_broken_folders_of_cinic10_are_named(tmp_path: Path) -> None:
    cinic_files(tmp_path, ("train", "valid"))
    with pytest.raises(DataError, match=r"CINIC-10/test/airplane: no such folder.*unpack"):
        read(tmp_path, "cinic10")
    cinic_files(tmp_path)
    cut_off = tmp_path / "CINIC-10/valid/cat/n03_77.png"
    cut_off.write_bytes(cut_off.read_bytes()[:500])
    with pytest.raises(DataError, match=rf"{cut_off}: is no image that can be read, or is cut off"):
        read(tmp_path, "cinic10")
    picture(cut_off, noise(31, 32, 3))
    with pytest.raises(DataError, match=rf"{cut_off}: is 31 x 32 pixels .height x width., expected 32 x 32"):
        read(tmp_path, "cinic10")
    for file in cut_off.parent.iterdir():
        file.unlink()
    with pytest.raises(DataError, match=r"valid/cat: holds no pictures; unpack"):
        read(tmp_path, "cinic10")
