"""A folder of images, and MedMNIST's names in an npz file: pixels, classes, parts, sizes, and faults by file."""

import io
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.helpers.refusals import refusal
from tune_vfl.data import load, written_out
from tune_vfl.data.base import Dataset
from tune_vfl.data.reading.pictures import FORMATS, SUFFIXES
from tune_vfl.data.split import split
from tune_vfl.errors import DataError, SpecError
from tune_vfl.spec import Named


def images(path: Path, **options: object) -> Dataset:
    return load(Named.model_validate({"name": "images", "path": str(path), **options}))


def pixels(n: int, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, *shape), dtype=np.uint8)


def put(folder: Path, arrays: np.ndarray, ending: str = "png") -> None:
    folder.mkdir(parents=True)
    for k, pixel in enumerate(arrays):
        Image.fromarray(pixel).save(folder / f"{k:03d}.{ending}")


def two_classes(folder: Path, *shape: int, n: int = 10, seed: int = 0) -> np.ndarray:
    arrays = pixels(2 * n, *(shape or (6, 8)), seed=seed)
    put(folder / "cat", arrays[:n])
    put(folder / "dog", arrays[n:])
    return arrays


@pytest.mark.parametrize("shape", [(6, 8), (6, 8, 3)])
@pytest.mark.parametrize("parties", [1, 2])
def test_pixels_and_classes_are_kept_and_the_width_is_cut(tmp_path: Path, shape: tuple[int, ...], parties: int) -> None:
    arrays = two_classes(tmp_path, *shape)
    data = images(tmp_path, passive_parties=parties)
    assert data.active is not None
    assert [p.shape[2] for p in data.passive] == [4 // parties] * parties
    whole = torch.cat([*(p.x for p in data.passive), data.active.x], dim=3)
    expected = arrays.reshape(20, 6, 8, -1).transpose(0, 3, 1, 2) / 255
    np.testing.assert_allclose(whole.numpy(), expected, atol=1e-7)
    assert data.class_names == ("cat", "dog")
    assert data.y.tolist() == [0] * 10 + [1] * 10
    assert (data.modality, data.metric, data.recipe.model.name) == ("image", "auc", "mlp")
    assert images(tmp_path, positive="cat").class_names == ("dog", "cat")


def test_a_folder_equals_the_npz_of_its_pixels(tmp_path: Path) -> None:
    arrays = two_classes(tmp_path / "folder", 16, 32)
    np.savez(tmp_path / "a.npz", x=arrays, y=np.array(["cat"] * 10 + ["dog"] * 10))
    packed = load(Named.model_validate({"name": "npz", "path": str(tmp_path / "a.npz")}))
    assert images(tmp_path / "folder").fingerprint == packed.fingerprint
    assert images(tmp_path / "folder").recipe == packed.recipe
    assert packed.recipe.model.name == "cnn"


def test_numbered_classes_are_in_numeric_order(tmp_path: Path) -> None:
    for k in (10, 9, 2):
        put(tmp_path / str(k), pixels(3, 4, 4, seed=k))
    assert images(tmp_path).class_names == ("2", "9", "10")


@pytest.mark.parametrize("name", ["val", "valid", "validation"])
def test_own_test_rows_and_validation_rows(tmp_path: Path, name: str) -> None:
    for part, n in (("train", 5), ("test", 3), (name, 2)):
        two_classes(tmp_path / part, n=n, seed=n)
    data = images(tmp_path)
    cut = split(data, 3)
    assert cut.test_rows.tolist() == list(range(14, 20))
    assert cut.y_train.tolist() == [0] * 5 + [1] * 5 + [0] * 2 + [1] * 2
    assert data.notes == (f"{tmp_path / name}: its 4 images join the training rows",)


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    for k, name in enumerate(("car", "plane", "train")):
        put(tmp_path / name, pixels(4, 4, 4, seed=k))
    assert images(tmp_path).class_names == ("car", "plane", "train")


def test_sizes_differ_unless_resized(tmp_path: Path) -> None:
    two_classes(tmp_path)
    Image.fromarray(pixels(1, 9, 12)[0]).save(tmp_path / "dog" / "big.png")
    told = r"dog/big\.png: is 9 x 12 pixels .* where .*cat/000\.png is 6 x 8; .*size: \[6, 8\]"
    with pytest.raises(DataError, match=told):
        images(tmp_path)
    data = images(tmp_path, size=[6, 8])
    assert data.passive[0].shape == (1, 6, 4)
    assert data.notes == ("1 of 21 images are resized to 6 x 8 pixels",)
    assert images(tmp_path, size=4).passive[0].shape == (1, 4, 2)


def test_resizing_keeps_a_flat_picture_flat_and_its_sides(tmp_path: Path) -> None:
    """Left half dark, right half bright: what the parties get stays dark and bright."""
    picture = np.zeros((20, 40), dtype=np.uint8)
    picture[:, 20:] = 204
    for k, name in enumerate("ab"):
        put(tmp_path / name, np.stack([picture + k] * 3))
    data = images(tmp_path, size=[10, 8])
    assert data.active is not None
    assert data.passive[0].x[:3, ..., :3].eq(0).all()
    assert data.active.x[:3, ..., 1:].eq(204 / 255).all()


def test_grey_and_colour(tmp_path: Path) -> None:
    two_classes(tmp_path)
    colour = pixels(1, 6, 8, 3)[0]
    Image.fromarray(colour).save(tmp_path / "dog" / "colour.png")
    mixed = images(tmp_path)
    assert mixed.passive[0].shape == (3, 6, 4)
    assert mixed.notes == ("20 of 21 images are gray and read as rgb",)
    assert mixed.passive[0].x[0, 0].equal(mixed.passive[0].x[0, 2])
    np.testing.assert_allclose(mixed.passive[0].x[-1].numpy(), colour.transpose(2, 0, 1)[:, :, :4] / 255, atol=1e-7)
    assert images(tmp_path, channels="grey").passive[0].shape == (1, 6, 4)
    assert images(tmp_path, channels="rgb").passive[0].shape == (3, 6, 4)


@pytest.mark.parametrize("ending", ["jpg", "bmp", "gif", "tiff", "webp", "PNG"])
def test_formats(tmp_path: Path, ending: str) -> None:
    for k, name in enumerate("ab"):
        put(tmp_path / name, np.full((4, 8, 8), 100 * k, dtype=np.uint8), ending)
    data = images(tmp_path)
    assert data.passive[0].x[:4].abs().max() < 0.02  # JPEG and WebP are lossy
    assert (data.passive[0].x[4:] - 100 / 255).abs().max() < 0.02


def test_transparency_palettes_and_turned_photographs(tmp_path: Path) -> None:
    for name in "ab":
        put(tmp_path / name, pixels(3, 4, 6, 3))
    Image.fromarray(pixels(1, 4, 6, 4)[0]).save(tmp_path / "a" / "alpha.png")
    Image.fromarray(pixels(1, 4, 6, 3)[0]).convert("P").save(tmp_path / "a" / "palette.png")
    turned = Image.fromarray(pixels(1, 6, 4, 3)[0])
    exif = turned.getexif()
    exif[0x0112] = 6  # orientation: turn by a quarter
    turned.save(tmp_path / "b" / "turned.png", exif=exif)
    assert images(tmp_path).passive[0].shape == (3, 4, 3)


def test_what_is_no_image_is_left_out_and_counted(tmp_path: Path) -> None:
    two_classes(tmp_path)
    (tmp_path / "README.txt").write_text("x")
    (tmp_path / "cat" / "labels.csv").write_text("x")
    (tmp_path / "cat" / ".DS_Store").write_text("x")
    data = images(tmp_path)
    assert data.notes == ("2 files that are no images, or not in a class's folder, are left out",)
    assert len(data.y) == 20


def test_an_added_image_is_noticed(tmp_path: Path) -> None:
    two_classes(tmp_path)
    assert len(images(tmp_path).y) == 20
    shutil.copy(tmp_path / "cat" / "000.png", tmp_path / "cat" / "new.png")
    assert len(images(tmp_path).y) == 21
    (tmp_path / "dog" / "003.png").unlink()
    assert len(images(tmp_path).y) == 20


def test_a_relative_path_is_written_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_classes(tmp_path / "pets")
    monkeypatch.chdir(tmp_path)
    full = written_out(Named.model_validate({"name": "images", "path": "pets"}))
    assert full.options["path"] == str(tmp_path.resolve() / "pets")
    assert load(full).fingerprint == images(tmp_path / "pets").fingerprint


def png(*shape: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels(1, *shape)[0]).save(buffer, "png")
    return buffer.getvalue()


FAULTS = {
    "no image": (b"hello", ["dog/zz.png", "is no image"]),
    "empty": (b"", ["dog/zz.png", "is no image"]),
    "cut off": (png(6, 8)[:-30], ["dog/zz.png", "cut off"]),
    "half of the header": (png(6, 8)[:20], ["dog/zz.png", "is no image"]),
    "flipped bits": (png(6, 8)[:45] + b"\x00\x00\x00" + png(6, 8)[48:], ["dog/zz.png", "is no image"]),
    "another size": (png(8, 6), ["dog/zz.png", "8 x 6", "cat/000.png", "6 x 8", "size: [6, 8]"]),
}


@pytest.mark.parametrize("case", FAULTS)
def test_faults_name_the_file(tmp_path: Path, case: str) -> None:
    content, words = FAULTS[case]
    two_classes(tmp_path)
    (tmp_path / "dog" / "zz.png").write_bytes(content)
    with refusal(*words):
        images(tmp_path)


@pytest.mark.parametrize("form", ["EPS", "PDF", "ICO", "TGA", "PCX", "SGI", "JPEG2000", "DDS"])
def test_a_format_that_no_page_names_is_not_opened_whatever_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """Pillow opens files by their content, and hands an EPS to Ghostscript, the program of the PATH."""
    program = tmp_path / "programs" / "gs"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {tmp_path / 'was run'}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    two_classes(tmp_path / "pets")
    Image.fromarray(pixels(1, 6, 8, 3)[0]).save(tmp_path / "pets" / "dog" / "zz.png", form)
    with refusal("dog/zz.png", "is no image that can be read", "what is read: PNG, JPEG"):
        images(tmp_path / "pets")
    assert not (tmp_path / "was run").exists()


def test_a_picture_may_have_the_name_of_another_format(tmp_path: Path) -> None:
    arrays = two_classes(tmp_path)
    Image.fromarray(arrays[0]).save(tmp_path / "cat" / "000.jpg", "png")
    assert len(images(tmp_path).y) == 21


def test_the_formats_are_those_of_the_names() -> None:
    named = {ending: form for ending, form in Image.registered_extensions().items() if ending in SUFFIXES}
    assert set(named) == SUFFIXES
    assert set(named.values()) == set(FORMATS)


def test_sixteen_bits_are_refused_rather_than_cut(tmp_path: Path) -> None:
    two_classes(tmp_path)
    Image.fromarray(np.full((6, 8), 40_000, dtype=np.uint16)).save(tmp_path / "dog" / "deep.png")
    with pytest.raises(DataError, match=r"deep\.png: has more than 8 bits"):
        images(tmp_path)


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_classes(tmp_path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 20)
    with pytest.raises(DataError, match=r"cat/000\.png: is too large a picture .*\(48 pixels\) exceeds limit of"):
        images(tmp_path)


def test_faults_of_the_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="pets: no such folder"):
        images(tmp_path / "pets")
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="file: is a file, not a folder"):
        images(tmp_path / "file")
    (tmp_path / "pets").mkdir()
    with pytest.raises(DataError, match="pets: has no sub-folders"):
        images(tmp_path / "pets")
    put(tmp_path / "pets" / "cat", pixels(4, 4, 4))
    with pytest.raises(DataError, match=r"pets: label .* is constant \('cat' in all 4 rows\)"):
        images(tmp_path / "pets")
    (tmp_path / "pets" / "dog").mkdir()
    with pytest.raises(DataError, match="dog: holds no image"):
        images(tmp_path / "pets")
    with pytest.raises(SpecError, match="size"):
        images(tmp_path / "pets", size=0)


def medical(**sizes: int) -> dict[str, np.ndarray]:
    made = {}
    for k, (part, n) in enumerate(sizes.items()):
        made[f"{part}_images"] = pixels(n, 28, 28, seed=k)
        made[f"{part}_labels"] = (np.arange(n) % 3).astype(np.uint8)[:, None]
    return made


@pytest.mark.parametrize("sizes", [{"train": 12, "val": 6, "test": 9}, {"train": 12, "test": 9}])
def test_medmnist_names_in_an_npz(tmp_path: Path, sizes: dict[str, int]) -> None:
    arrays = medical(**sizes)
    np.savez(tmp_path / "a.npz", **dict(reversed(arrays.items())))
    data = load(Named.model_validate({"name": "npz", "path": str(tmp_path / "a.npz")}))
    rows = sum(sizes.values())
    assert data.active is not None
    whole = torch.cat([data.passive[0].x, data.active.x], dim=3)[:, 0]
    expected = np.concatenate([arrays[f"{part}_images"] for part in sizes]) / 255
    np.testing.assert_allclose(whole.numpy(), expected, atol=1e-7)
    assert split(data, 0).test_rows.tolist() == list(range(rows - 9, rows))
    assert data.class_names == ("0", "1", "2")
    assert data.notes == (("a.npz: 6 rows of val_images join the training rows",) if "val" in sizes else ())


def test_medmnist_parts_must_agree(tmp_path: Path) -> None:
    arrays = medical(train=12, val=6, test=9) | {"val_images": pixels(6, 20, 28)}
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=r"a\.npz: arrays 'train_images' and 'val_images' differ: \(28, 28\)"):
        load(Named.model_validate({"name": "npz", "path": str(tmp_path / "a.npz")}))
