"""ModelNet's views and the patches of histopathology: several pictures a row, some at each party."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.helpers.official import noise, picture
from tune_vfl import evaluate
from tune_vfl.data import load
from tune_vfl.data.base import Dataset
from tune_vfl.data.split import split
from tune_vfl.errors import DataError
from tune_vfl.spec import Named

KINDS = ("airplane", "night_stand")
IDC = "bhi/IDC_regular_ps50_idx5"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of these tests goes to, or pushes anything out of, the user's own cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def read(root: Path, name: str, **options: object) -> Dataset:
    return load(Named.model_validate({"name": name, **options}), root=root)


def shade(kind: int, number: int, view: int) -> int:
    return 100 * kind + 8 * number + view


def modelnet_files(root: Path, layout: str = "modelnet40_images_new_12x", train: int = 4) -> None:
    """Pictures of one shade each, which says what they show; four objects a class to train on, two to test."""
    ending = ".obj.shaded_v{:03d}.png" if layout.endswith("12x") else "_{:03d}.png"
    for kind, name in enumerate(KINDS):
        for number in range(train + 2):
            for view in range(1, 13):
                at = root / layout / name / ("train" if number < train else "test")
                file = f"{name}_{number + 1:04d}{ending.format(view)}"
                picture(at / file, np.full((40, 40), shade(kind, number, view), np.uint8))


@pytest.mark.parametrize("layout", ["modelnet40_images_new_12x", "modelnet40v1png"])
def test_six_parties_have_two_neighboring_views_each(tmp_path: Path, layout: str) -> None:
    modelnet_files(tmp_path, layout)
    data = read(tmp_path, "modelnet", size=8)
    assert data.active is None
    assert [p.party for p in data.passive] == [f"passive_{k}" for k in range(6)]
    assert {p.shape for p in data.passive} == {(2, 8, 8)}
    objects = [(k, n) for part in (range(4), range(4, 6)) for k in range(2) for n in part]
    assert data.y.tolist() == [kind for kind, _ in objects]
    for k, party in enumerate(data.passive):
        expected = [[shade(*thing, 2 * k + 1), shade(*thing, 2 * k + 2)] for thing in objects]
        assert (party.x * 255).round().amin((2, 3)).tolist() == expected
        assert (party.x * 255).round().amax((2, 3)).tolist() == expected
    assert split(data, 0).test_rows.tolist() == [8, 9, 10, 11]
    assert (data.class_names, data.metric) == (KINDS, "auc")
    assert "8 + 4 of 9,843 + 2,468" in data.notes[0]


@pytest.mark.parametrize(("parties", "each"), [(1, 12), (2, 6), (3, 4), (4, 3), (12, 1)])
def test_other_numbers_of_parties_share_the_twelve_views(tmp_path: Path, parties: int, each: int) -> None:
    modelnet_files(tmp_path, train=2)
    data = read(tmp_path, "modelnet", passive_parties=parties, size=8, rows=2)
    assert [p.shape for p in data.passive] == [(each, 8, 8)] * parties
    assert len(split(data, 0).y_train) == 2
    views = torch.cat([p.x for p in data.passive], 1).amax((2, 3)) * 255
    assert (views.round() - views.round()[:, :1]).tolist() == [[float(k) for k in range(12)]] * len(views)


def test_broken_views_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"modelnet40_images_new_12x: no such folder; unpack .*mvcnn_pytorch"):
        read(tmp_path, "modelnet")
    modelnet_files(tmp_path, train=1)
    at = tmp_path / "modelnet40_images_new_12x/airplane/train"
    (at / "airplane_0001.obj.shaded_v007.png").rename(at / "airplane_0001.obj.shaded_v013.png")
    with pytest.raises(DataError, match=r"train: airplane_0001.* has 12 views \(1, .*6, 8, .*13\), expected 1 to 12"):
        read(tmp_path, "modelnet")
    (at / "airplane_0001.obj.shaded_v013.png").rename(at / "front.png")
    with pytest.raises(DataError, match=r"front\.png: is not named as a view is"):
        read(tmp_path, "modelnet")


def bhi_files(root: Path, patients: dict[str, tuple[int, int]]) -> dict[str, tuple[str, int]]:
    """Patches named as the archive names them; returns the mean of each, by which it is known, and what it is."""
    known = {}
    for patient, counts in patients.items():
        for label, count in enumerate(counts):
            for k in range(count):
                name = f"{patient}_idx5_x{50 * k + 1}_y51_class{label}.png"
                pixels = picture(root / IDC / patient / str(label) / name, noise(50, 50, 3, seed=len(known)))
                known[f"{pixels.mean() / 255:.5f}"] = (patient, label)
    return known


PATIENTS = {"8863": (9, 4), "9036": (7, 6), "10253": (12, 5), "10254": (6, 0)}


def held(data: Dataset) -> list[torch.Tensor]:
    assert data.active is not None
    return [*(p.x for p in data.passive), data.active.x]


@pytest.mark.parametrize("parties", [1, 2])
def test_a_row_is_a_patch_for_each_party_of_one_patient_and_class(tmp_path: Path, parties: int) -> None:
    known = bhi_files(tmp_path, PATIENTS)
    data = read(tmp_path, "bhi", passive_parties=parties)
    assert {x.shape[1:] for x in held(data)} == {(3, 50, 50)}
    found = [[known[f"{m:.5f}"] for m in x.mean((1, 2, 3)).tolist()] for x in held(data)]
    assert all(len(set(row)) == 1 for row in zip(*found, strict=True))
    assert data.y.tolist() == [label for _, label in found[0]]
    expected = {(p, label): n // (parties + 1) for p, counts in PATIENTS.items() for label, n in enumerate(counts)}
    assert Counter(found[0]) == Counter({k: v for k, v in expected.items() if v})
    used = [f"{m:.5f}" for x in held(data) for m in x.mean((1, 2, 3)).tolist()]
    assert len(used) == len(set(used))
    assert data.metric == "f1"


def test_rows_or_patients_are_held_out(tmp_path: Path) -> None:
    known = bhi_files(tmp_path, {str(8000 + k): (8, 4) for k in range(10)})
    by_row, by_patient = (read(tmp_path, "bhi", held_out=how, size=50) for how in ("rows", "patients"))
    for data, apart in ((by_row, False), (by_patient, True)):
        whose = [known[f"{m:.5f}"][0] for m in held(data)[0].mean((1, 2, 3)).tolist()]
        cut = split(data, 0)
        train, test = ({whose[k] for k in rows.tolist()} for rows in (cut.train_rows, cut.test_rows))
        assert train.isdisjoint(test) == apart
        assert any("patches of one patient are among" in note for note in data.notes) != apart
    assert len(split(by_row, 0).y_test) == round(60 * 17 / 86)
    assert len(split(by_patient, 0).y_test) == 6
    assert split(by_patient, 1).test_rows.tolist() == split(by_patient, 0).test_rows.tolist()


def test_fewer_rows_and_smaller_patches(tmp_path: Path) -> None:
    bhi_files(tmp_path, PATIENTS)
    data = read(tmp_path, "bhi", rows=12, size=20)
    assert data.passive[0].x.shape == (12, 3, 20, 20)
    assert "12 of 23 rows" in data.notes[0]


def test_broken_patches_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"IDC_regular_ps50_idx5: no such folder; unpack .*kaggle\.com.*histopathology"):
        read(tmp_path, "bhi")
    bhi_files(tmp_path, PATIENTS)
    (tmp_path / IDC / "8864").mkdir()
    with pytest.raises(DataError, match=r"8864: has neither a folder 0 nor a folder 1"):
        read(tmp_path, "bhi")
    (tmp_path / IDC / "8864").rmdir()
    file = next((tmp_path / IDC / "8863/1").iterdir())
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(DataError, match=rf"{file}: is no image that can be read, or is cut off"):
        read(tmp_path, "bhi")


def test_both_are_trained_and_attacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modelnet_files(tmp_path, train=12)
    bhi_files(tmp_path, {"8863": (48, 48)})
    monkeypatch.setenv("TUNE_VFL_DATA", str(tmp_path))
    attacks = [{"name": "pmc", "variants": ["head_only"], "epochs": 1, "aux_per_class": 2}]
    for dataset in ({"name": "modelnet", "size": 8}, {"name": "bhi", "size": 8}):
        told = evaluate(dataset, attacks=attacks, seeds=1, settings=["training.epochs=1", "training.batch_size=8"])
        assert told["outcome"] == "ok"
        assert 0 <= told["attacks"]["pmc"]["mean"] <= 1
