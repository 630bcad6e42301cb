"""IMDB: words and their ranks, the packed csv and its faults, and the real file where it is."""

import lzma
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.helpers.refusals import refusal
from tune_vfl.data import load
from tune_vfl.data.base import Dataset
from tune_vfl.data.reading.words import top_words, words_of
from tune_vfl.data.split import split
from tune_vfl.errors import DataError
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.spec import Named, parse

FILE = "imdb/imdb_reviews.csv.xz"
HEADER = "split,label,rating,id,review\n"
TRAIN = ["good film", "bad bad film", "good, GOOD<br />plot", "bad plot"]
TEST = ["unseen unseen unseen unseen", "a good plot"]


def table(train: list[str] = TRAIN, test: list[str] = TEST) -> str:
    rows = [("train", k, t) for k, t in enumerate(train)] + [("test", k, t) for k, t in enumerate(test)]
    return HEADER + "".join(f'{part},{(k + 1) % 2},5,{k},"{text}"\n' for part, k, text in rows)


def put(root: Path, content: bytes) -> Path:
    path = root / FILE
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


def imdb(root: Path, **options: object) -> Dataset:
    return load(Named.model_validate({"name": "imdb", "words": 4, **options}), root=root)


def test_words_are_lower_case_without_tags_or_marks() -> None:
    text = "Don't MISS it!<br /><br />An 80's <i>classic</i> -- 10/10, caf\xe9_noir 'quoted'"
    assert words_of(text) == ["don't", "miss", "it", "an", "80's", "classic", "10", "10", "café", "noir", "quoted"]


def test_top_words_equal_a_plain_count() -> None:
    rng = np.random.default_rng(1)
    texts = [" ".join(f"w{k}" for k in rng.zipf(1.7, 30) % 40) for _ in range(60)]
    counted = np.arange(60) < 35
    tally = Counter(word for text, c in zip(texts, counted, strict=True) if c for word in text.split())
    expected = sorted(tally, key=lambda word: (-tally[word], word))[:12]
    x, words = top_words(texts, counted, 12)
    assert list(words) == expected
    assert x.tolist() == [[float(word in text.split()) for word in expected] for text in texts]


def test_columns_are_the_words_of_the_training_reviews(tmp_path: Path) -> None:
    put(tmp_path, lzma.compress(table().encode()))
    data = imdb(tmp_path)
    # bad 3, good 3, film 2, plot 2: by frequency, then by the alphabet; "unseen" is in test reviews alone.
    assert data.passive[0].names == ("bad", "good", "film", "plot")
    assert data.active is None
    cut = split(data, 3)
    assert cut.passive_train[0].tolist() == [[0, 1, 1, 0], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 0, 1]]
    assert cut.passive_test[0].tolist() == [[0, 0, 0, 0], [0, 1, 0, 1]]
    assert cut.y_train.tolist() == [1, 0, 1, 0]
    assert (data.class_names, data.metric) == (("negative", "positive"), "auc")


def test_the_label_party_may_hold_words_too(tmp_path: Path) -> None:
    put(tmp_path, lzma.compress(table().encode()))
    data = imdb(tmp_path, split=0.5)
    assert data.active is not None
    assert (data.passive[0].names, data.active.names) == (("bad", "good"), ("film", "plot"))
    assert split(data, 0).active_train.tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]  # type: ignore[union-attr]


def test_the_recipe_is_the_papers_net(tmp_path: Path) -> None:
    put(tmp_path, lzma.compress(table().encode()))
    recipe = imdb(tmp_path).recipe
    assert (recipe.training.epochs, recipe.training.batch_size, recipe.training.lr) == (300, 1028, 1e-4)
    assert recipe.model.options == {"bottom_hidden": [256, 128], "activation": "relu", "dropout": 0.5}


FAULTS = {
    "cut off": (lzma.compress(table().encode())[:-40], ["corrupt or cut off", "fetch the file again"]),
    "not packed": (table().encode(), ["corrupt or cut off"]),
    "no review column": (
        lzma.compress(table().replace("review", "text", 1).encode()),
        ["no column 'review'", "split, label, review"],
    ),
    "a field too many": (lzma.compress((table() + "test,1,1,9,a,b\n").encode()), ["line 8 has 6 fields where 5"]),
    "another split": (
        lzma.compress((table() + 'unsup,0,1,9,"x"\n').encode()),
        ["column 'split' holds 'unsup' in row 7", "train or test"],
    ),
    "bad label": (lzma.compress((table() + 'test,-1,1,9,"x"\n').encode()), ["'label' holds '-1' in row 7", "0 or 1"]),
    "no test rows": (lzma.compress(table(test=[]).encode()), ["'split' is the same in all rows"]),
    "too few words": (lzma.compress(table(train=["a b", "b a"]).encode()), ["2 different words", "words=4"]),
    "one class": (lzma.compress(table(train=["a b c d"]).encode()), ["label column 'label'", "'negative' has 0 rows"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_file_is_named(tmp_path: Path, fault: str) -> None:
    content, words = FAULTS[fault]
    path = put(tmp_path, content)
    with refusal(path, *words):
        imdb(tmp_path)


def official(root: Path, reviews: dict[str, str]) -> None:
    for name, text in reviews.items():
        path = root / "aclImdb" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


REVIEWS = {
    **{f"train/neg/{k}_3.txt": text for k, text in enumerate(("bad bad film", "bad plot"))},
    **{f"train/pos/{k}_9.txt": text for k, text in enumerate(("good film", "good, GOOD<br />plot"))},
    "train/unsup/0_0.txt": "not one of them",
    "train/labeledBow.feat": "0 1:2",
    "test/neg/0_2.txt": "unseen unseen",
    "test/pos/0_10.txt": "a good pl\u00f6t",
}


def test_the_official_folder_and_the_archive_read_the_same(tmp_path: Path) -> None:
    official(tmp_path / "a", REVIEWS)
    (tmp_path / "b").mkdir()
    with tarfile.open(tmp_path / "b" / "aclImdb_v1.tar.gz", "w:gz") as archive:
        # In another order than that of the folder.
        for name in sorted(REVIEWS, reverse=True):
            archive.add(tmp_path / "a" / "aclImdb" / name, f"aclImdb/{name}")
    folder, packed = (imdb(tmp_path / place) for place in "ab")
    assert folder.passive[0].names == packed.passive[0].names == ("bad", "good", "film", "plot")
    rows = [[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]]
    assert folder.passive[0].x.tolist() == packed.passive[0].x.tolist() == rows
    assert folder.y.tolist() == packed.y.tolist() == [0, 0, 1, 1, 0, 1]
    assert split(packed, 0).test_rows.tolist() == [4, 5]
    assert folder.notes == packed.notes == ("4 + 2 of 25,000 + 25,000 reviews",)
    assert folder.fingerprint == packed.fingerprint


def test_broken_folders_and_archives_are_named(tmp_path: Path) -> None:
    official(tmp_path / "a", {k: v for k, v in REVIEWS.items() if not k.startswith("test/pos")})
    with pytest.raises(DataError, match=r"aclImdb/test/pos: no such folder; unpack"):
        imdb(tmp_path / "a")
    (tmp_path / "a/aclImdb/test/pos").mkdir()
    with pytest.raises(DataError, match=r"aclImdb: holds no reviews of test/pos"):
        imdb(tmp_path / "a")
    (tmp_path / "a/aclImdb/test/pos/0_7.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"0_7\.txt: is not UTF-8"):
        imdb(tmp_path / "a")
    (tmp_path / "b").mkdir()
    for content in (b"junk", b"", b"\x1f\x8b\x08\x00broken"):
        (tmp_path / "b" / "aclImdb_v1.tar.gz").write_bytes(content)
        with pytest.raises(DataError, match=r"aclImdb_v1\.tar\.gz: is corrupt or cut off"):
            imdb(tmp_path / "b")


@pytest.mark.public_data(FILE)
def test_the_real_file_has_its_rows_and_the_recipe_resolves() -> None:
    data = load(Named(name="imdb"))
    cut = split(data, 0)
    assert torch.bincount(cut.y_train).tolist() == torch.bincount(cut.y_test).tolist() == [12_500, 12_500]
    assert data.passive[0].names[:5] == ("the", "and", "a", "of", "to")
    assert data.passive[0].shape == (500,)
    assert set(cut.passive_test[0].flatten().tolist()) == {0.0, 1.0}
    cell = resolve(parse({"study": "s", "dataset": "imdb", "defense": "marvell", "attacks": "norm"}))
    assert (cell.mode, cell.model.name) == ("label_only", "gafm")
