"""The named data sets: sizes, recipes, options, cache and fingerprint."""

import os
import re

import numpy as np
import pytest
import torch

from tests.helpers.refusals import refusal
from tune_vfl.data import data_root, load, written_out
from tune_vfl.data.base import DATASETS, Loader
from tune_vfl.data.reading.labels import encode_labels
from tune_vfl.data.sets.bundled import BreastCancer, Wine
from tune_vfl.data.split import split
from tune_vfl.errors import DataError, SpecError, UnknownNameError
from tune_vfl.models.base import MODELS
from tune_vfl.spec import Named

FILES = {
    "spambase": "spambase/spambase.data",
    "bank": "bank/bank-additional-full.csv.gz",
}
# rows, passive shape, active shape or None, classes, metric, training rows, test rows
SIZES = {
    "digits": (1797, (1, 8, 4), (1, 8, 4), 10, "accuracy", 1258, 539),
    "breast_cancer": (569, (15,), (15,), 2, "auc", 398, 171),
    "wine": (178, (7,), (6,), 3, "accuracy", 125, 53),
    "spambase": (4601, (57,), None, 2, "auc", 3221, 1380),
    "bank": (9280, (10,), (10,), 2, "auc", 8436, 844),
}


def with_its_files(name: str, *values: object) -> object:
    return pytest.param(name, *values, marks=[pytest.mark.public_data(FILES[name])] if name in FILES else [])


def named(name: str, **options: object) -> Named:
    return Named.model_validate({"name": name, **options})


@pytest.mark.parametrize("name", [with_its_files(name) for name in SIZES])
def test_sizes(name):
    rows, passive, active, classes, metric, train, test = SIZES[name]
    data = load(named(name))
    assert [p.shape for p in data.passive] == [passive]
    assert (data.active.shape if data.active else None) == active
    assert all(len(p.x) == rows == len(data.y) for p in [*data.passive, *([data.active] if data.active else [])])
    assert (data.num_classes, data.metric) == (classes, metric)
    assert data.y.dtype == torch.int64
    assert set(data.y.tolist()) == set(range(classes))
    cut = split(data, 0)
    assert (len(cut.y_train), len(cut.y_test)) == (train, test)
    assert all(torch.isfinite(x).all() for x in cut.passive_train)


@pytest.mark.parametrize("name", [with_its_files(name) for name in SIZES])
def test_recipe_names_a_model_that_takes_the_rows_and_the_options(name):
    data = load(named(name))
    model = MODELS[data.recipe.model.name]
    model.Options.model_validate(data.recipe.model.options)
    assert data.modality in model.modalities


@pytest.mark.parametrize("name", DATASETS.names())
def test_every_loader_describes_itself(name):
    loader = DATASETS[name]
    assert issubclass(loader, Loader)
    assert loader.name == name
    assert getattr(loader, "summary", ""), f"{name}: `summary` is its line in `tune-vfl list datasets`"
    assert getattr(loader, "reference", ""), f"{name}: `reference` says where the data come from"
    without = [option for option, field in loader.Options.model_fields.items() if not field.description]
    assert not without, f"{name}: give these options a Field with a description: {without}"


def test_digits_are_the_left_and_the_right_half():
    from sklearn.datasets import load_digits

    data = load(named("digits"))
    assert data.active is not None
    whole = torch.cat([data.passive[0].x, data.active.x], dim=3)[:, 0] * 16
    np.testing.assert_array_equal(whole.numpy(), load_digits().images)
    assert float(whole.max()) == 16


def test_breast_cancer_counts_malignant_as_positive():
    data = load(named("breast_cancer"))
    assert data.class_names == ("benign", "malignant")
    assert torch.bincount(data.y).tolist() == [357, 212]


@pytest.mark.public_data(FILES["spambase"])
def test_spambase_is_as_published():
    data = load(named("spambase"))
    assert torch.bincount(data.y).tolist() == [2788, 1813]
    assert data.passive[0].names[0] == "word_freq_make"
    # The file's first line: word_freq_address 0.64, ..., capital runs 3.756, 61, 278.
    assert data.passive[0].x[0, [1, 54, 55, 56]].tolist() == pytest.approx([0.64, 3.756, 61, 278])
    recipe = data.recipe.training
    assert (recipe.epochs, recipe.batch_size, recipe.lr, data.recipe.model.name) == (300, 1028, 1e-4, "gafm")


@pytest.mark.public_data(FILES["bank"])
def test_bank_is_balanced_the_same_way_every_time_and_says_so():
    data = load(named("bank"))
    assert torch.bincount(data.y).tolist() == [4640, 4640]
    assert data.class_names == ("no", "yes")
    assert data.recipe.auxiliary_per_class == 100, "labels that an attacker knows, as in the papers"
    assert "36548" in data.notes[0]
    assert "11.3%" in data.notes[0]
    assert data.passive[0].names[:3] == ("age", "job", "marital")
    assert data.active is not None
    assert data.active.names[0] == "duration"
    assert data.recipe.model.options == {"bottom_hidden": [64, 32], "embedding_dim": 10, "top_hidden": [32]}


@pytest.mark.public_data(FILES["bank"])
def test_bank_unbalanced_keeps_the_files_shares():
    data = load(named("bank", balance=False))
    assert torch.bincount(data.y).tolist() == [36548, 4640]
    assert len(split(data, 0).y_test) == round(0.3 * 41188)


@pytest.mark.public_data(FILES["bank"])
def test_bank_codes_are_alphabetic():
    data = load(named("bank", balance=False))
    # First row: housemaid is the 4th of 12 jobs, married the 2nd of 4 states.
    assert data.passive[0].x[0, :3].tolist() == [56, 3, 1]


def test_options_move_columns():
    data = load(named("breast_cancer", split=1.0, passive_parties=3))
    assert [p.shape for p in data.passive] == [(10,), (10,), (10,)]
    assert data.active is None
    data = load(named("digits", split=0.25))
    assert (data.passive[0].shape, data.active.shape if data.active else None) == ((1, 8, 2), (1, 8, 6))


def test_metric_option_overrides():
    assert load(named("wine", metric="f1")).metric == "f1"
    with pytest.raises(SpecError, match="auc is for two classes and the data have 3"):
        load(named("wine", metric="auc"))
    with pytest.raises(SpecError, match="top5 is always 1 with 3 classes"):
        load(named("wine", metric="top5"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"splitt": 0.5}, ["'wine'", "splitt", "Did you mean 'split'?"]),
        ({"split": 0}, ["split", "greater than 0"]),
        ({"split": 1.5}, ["split", "less than or equal to 1"]),
        ({"metric": "rmse"}, ["metric", "'auc'"]),
        ({"passive_parties": 0}, ["passive_parties"]),
    ],
)
def test_wrong_options_are_explained(options, words):
    with refusal(*words, error=SpecError):
        load(named("wine", **options))


def test_all_wrong_options_at_once():
    with pytest.raises(SpecError) as error:
        load(named("wine", split=0, nonsense=1))
    assert len(error.value.problems) == 2


def test_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'digits'"):
        load(Named(name="digit"))


def test_more_parties_than_columns_is_an_error():
    with pytest.raises(DataError, match=r"wine: columns.*7 for 9 passive parties"):
        load(named("wine", passive_parties=9))


MISSING = {
    "spambase": ("spambase/spambase.data: no such file; put", "TUNE_VFL_DATA", "archive.ics.uci.edu"),
    "covtype": ("covtype.data.gz: no such file; put", "archive.ics.uci.edu"),
    "mnist": (".gz: no such file; put", "tune-vfl data fetch mnist"),
    "criteo": ("train.txt.gz: no such file; put", "kaggle"),
    "cifar10": ("cifar10.npz: no such file; put", "cs.toronto.edu"),
    "cifar100": ("cifar-100-python/meta: no such file; put", "cifar-100-python.tar.gz", "data fetch cifar100"),
    "cinic10": ("CINIC-10: no such folder; unpack", "datashare.ed.ac.uk", "6ee4d0c996905fe93221de577967a372"),
    "isic": ("isic.npz: no such file; put", "isic-archive"),
    "pneumonia": ("pneumoniamnist.npz: no such file; put", "medmnist"),
    "loan": ("no such file; put", "kaggle"),
    "fault": ("no such file; put", "archive.ics.uci.edu"),
    "imdb": ("aclImdb_v1.tar.gz: no such file; put", "ai.stanford.edu", "7c2ac02c0356"),
    "yahoo": ("yahoo_answers", "test.csv"),
}


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_file_says_where_to_put_it(tmp_path, name):
    with refusal(tmp_path, *MISSING[name]):
        load(Named(name=name), root=tmp_path)


def test_data_root_is_the_environments(monkeypatch, tmp_path):
    monkeypatch.setenv("TUNE_VFL_DATA", str(tmp_path))
    assert data_root() == tmp_path
    monkeypatch.delenv("TUNE_VFL_DATA")
    assert data_root().parts[-2:] == (".cache", "tune-vfl")


def test_spambase_with_other_content_is_refused(tmp_path):
    (tmp_path / "spambase").mkdir()
    file = tmp_path / "spambase/spambase.data"
    file.write_text("\n".join(",".join(["0"] * 56 + ["x", str(k % 2)]) for k in range(10)))
    with pytest.raises(DataError, match=r"spambase\.data: expected 57 complete numeric columns"):
        load(Named(name="spambase"), root=tmp_path)
    file.write_text("1,2,3\n")
    with pytest.raises(DataError, match=r"spambase\.data: line 1 has 3 fields where 58"):
        load(Named(name="spambase"), root=tmp_path)


def test_second_load_is_answered_from_memory_until_the_file_changes(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("a,y\n" + "1,0\n2,1\n" * 5)
    spec = Named.model_validate({"name": "csv", "path": str(file), "label": "y", "split": 1.0})
    first = load(spec)
    assert load(spec) is first
    file.write_text("a,y\n" + "1,0\n2,1\n" * 6)
    os.utime(file, ns=(1, 1))
    second = load(spec)
    assert len(second.y) == 12
    assert second.fingerprint != first.fingerprint


def test_fingerprint_follows_content_and_partition_and_nothing_else():
    same = load(named("wine")).fingerprint
    assert load(named("wine", metric="f1")).fingerprint == same
    others = [load(named("wine", split=s)).fingerprint for s in (0.4, 0.6, 1.0)]
    others += [load(named("wine", passive_parties=2)).fingerprint, load(named("breast_cancer")).fingerprint]
    assert len({same, *others}) == 6
    assert re.fullmatch("[0-9a-f]{32}", same)


def test_written_out_has_every_option_and_absolute_paths(tmp_path, monkeypatch):
    assert written_out(Named(name="wine")).options == {"split": 0.5, "passive_parties": 1, "metric": "auto"}
    (tmp_path / "a.csv").write_text("a,y\n" + "1,0\n2,1\n" * 5)
    monkeypatch.chdir(tmp_path)
    full = written_out(Named.model_validate({"name": "csv", "path": "a.csv", "label": "y", "split": 1}))
    assert full.options["path"] == str(tmp_path.resolve() / "a.csv")
    monkeypatch.chdir("/")
    assert len(load(full).y) == 10
    assert written_out(full) == full


@pytest.mark.parametrize(
    ("values", "positive", "names", "codes"),
    [
        (["0", "1", "0"], None, ("0", "1"), [0, 1, 0]),
        (["2", "10", "2.0"], None, ("2", "10"), [0, 1, 0]),
        (["yes", "no"], None, ("no", "yes"), [1, 0]),
        (["good", "bad"], "bad", ("good", "bad"), [0, 1]),
        (["yes", "no"], True, ("no", "yes"), [1, 0]),
        (["0", "1"], 0, ("1", "0"), [1, 0]),
        (["b", "None", "?"], None, ("?", "None", "b"), [2, 1, 0]),
    ],
)
def test_class_order(values, positive, names, codes):
    import pandas as pd

    y, found = encode_labels(pd.Series(values), "f", positive)
    assert (found, y.tolist()) == (names, codes)


def test_columns_of_bundled_tables_are_named_as_scikit_learn_names_them():
    import sklearn.datasets

    assert list(BreastCancer.columns) == list(sklearn.datasets.load_breast_cancer().feature_names)
    assert list(Wine.columns) == list(sklearn.datasets.load_wine().feature_names)
