"""Texts: tokens and their parts, a BERT from scratch and from a folder, and who can work on them."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tune_vfl import evaluate
from tune_vfl.data import load
from tune_vfl.data.reading.tokens import PADDING, START, UNKNOWN, TextOptions, by_words
from tune_vfl.data.split import split
from tune_vfl.defenses.parts.teachers import BAG, numbers
from tune_vfl.errors import DataError, SpecError
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.models.base import MODELS
from tune_vfl.models.bert import auto
from tune_vfl.seeds import Stream
from tune_vfl.spec import Named, parse

TOPICS = ("war treaty minister", "match goal coach", "shares profit bank", "planet atom software")
SMALL: list[str] = ["model.hidden=16", "model.layers=1", "training.epochs=8", "training.lr=0.005"]


def corpus(rows: int = 240, seed: int = 0) -> str:
    """Every text names its topic twice, among words that all topics share."""
    rng = np.random.default_rng(seed)
    lines = []
    for k in range(rows):
        words = [*rng.choice(TOPICS[k % 4].split(), 2), *rng.choice(["the", "a", "of", "said", "new"], 6)]
        lines.append(f'"{k % 4 + 1}","{" ".join(rng.permutation(words[:4]))}","{" ".join(words[4:])} {words[0]}"')
    return "\n".join(lines) + "\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "ag_news").mkdir()
    (tmp_path / "ag_news" / "test.csv").write_text(corpus(), encoding="utf-8")
    monkeypatch.setenv("TUNE_VFL_DATA", str(tmp_path))
    return tmp_path


def test_words_become_tokens_by_how_often_they_are_counted() -> None:
    texts = ["b b a", "a b c d e", "zzz zzz zzz zzz"]
    x = by_words(texts, np.array([True, True, False]), TextOptions(tokens=4, vocabulary=10))
    b, a, c, d = range(START + 1, START + 5)
    assert x.tolist() == [[b, b, a, PADDING], [a, b, c, d], [UNKNOWN] * 4]


def test_parts_are_consecutive_and_hold_every_token(root: Path) -> None:
    held = load(Named(name="ag_news", tokens=8, passive_parties=2), root)
    whole = load(Named(name="ag_news", tokens=8, split=1.0), root)
    assert (held.modality, held.num_classes, len(held.passive)) == ("text", 4, 2)
    parties = [*held.passive, held.active]
    assert all((p.x[:, 0] == START).all() for p in parties if p is not None)
    joined = torch.cat([p.x[:, 1:] for p in parties if p is not None], 1)
    assert torch.equal(joined, whole.passive[0].x[:, 1:])
    rows = split(held, 0)
    assert rows.passive_train[0].dtype == torch.int64
    assert torch.equal(rows.passive_train[0], held.passive[0].x[rows.train_rows])


def test_official_test_rows_do_not_enter_the_vocabulary(root: Path) -> None:
    (root / "ag_news" / "train.csv").write_text(
        '"1","alpha","beta"\n"2","alpha","beta"\n' * 3 + '"3","x","y"\n"4","x","y"\n'
    )
    (root / "ag_news" / "test.csv").write_text('"1","gamma","alpha"\n')
    held = load(Named(name="ag_news", tokens=4, split=1.0), root)
    assert held.test_rows is not None
    assert held.passive[0].x[held.test_rows].tolist() == [[START, UNKNOWN, START + 1, PADDING, PADDING]]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('"1","a","b"\n"5","c","d"\n', "row 2 is of class '5', expected 1 to 4"),
        ('"1","a","b"\n"x","c","d"\n', "row 2 is of class 'x'"),
        ('"1","a"\n', "expected"),
        ("", "empty"),
    ],
)
def test_a_broken_file_is_named_with_the_place(root: Path, content: str, told: str) -> None:
    path = root / "ag_news" / "test.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=re.escape(told)) as error:
        load(Named(name="ag_news"), root)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("name", ["bert", "distilbert"])
def test_a_seed_decides_the_encoder_and_padding_does_not_count(name: str) -> None:
    architecture = MODELS[name](MODELS[name].Options.model_validate({"vocabulary": 50, "positions": 12, "hidden": 8}))
    one, same, other = (architecture.bottom((9,), 5, Stream(seed, "init")).train() for seed in (0, 0, 1))
    tokens = torch.tensor([[START, 7, 8, 9, 0, 0, 0, 0, 0]])
    assert one(tokens).shape == (1, 5)
    assert torch.equal(one(tokens), same(tokens))
    assert not torch.allclose(one(tokens), other(tokens))
    torch.testing.assert_close(one(tokens), one(tokens[:, :6]), rtol=1e-4, atol=1e-5)


def test_a_text_is_learnt_defended_and_attacked(root: Path) -> None:
    answer = evaluate(
        {"name": "ag_news", "tokens": 10},
        defense="kdk",
        params={"k": 2, "epsilon": 0.2},
        attacks=[{"name": "pmc", "steps": 50}, "grad_cluster"],
        seeds=1,
        settings=SMALL,
    )
    assert answer["outcome"] == "ok", answer["reason"]
    assert answer["utility"]["mean"] > 0.8
    assert answer["logged"]["teacher_accuracy"] > 0.5
    pmc = answer["attacks"]["pmc"]
    assert pmc["mean"] > 0.6
    assert set(pmc["variants"]) == {"logreg", "logreg_all", "head_only", "mixmatch_frozen"}  # the others mix inputs


def test_a_pretrained_folder_is_where_training_starts(root: Path, tmp_path: Path) -> None:
    transformers = auto()  # not a plain import: torchvision may need mending first
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    saved = transformers.BertModel(transformers.BertConfig(vocab_size=60, max_position_embeddings=20, **small))
    saved.save_pretrained(tmp_path / "pretrained")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *" ".join(TOPICS).split(), "the", "a", "of", "said", "new"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path / "pretrained")
    folder = str(tmp_path / "pretrained")
    bottom = MODELS["bert"](MODELS["bert"].Options.model_validate({"pretrained": folder})).bottom(
        (6,), 4, Stream(0, "x")
    )
    mine = dict(bottom.named_parameters())["encoder.embeddings.word_embeddings.weight"]
    assert torch.equal(mine, saved.embeddings.word_embeddings.weight)
    tokens = torch.tensor([[2, 6, 7, 8, 0, 0]])
    assert torch.equal(bottom.train()(tokens), bottom(tokens))  # no dropout
    named = Named(name="ag_news", tokens=10, tokenizer=folder)
    held = load(named, root)
    assert (held.passive[0].x[:, 0] == 2).all()
    assert (held.passive[0].x[:, 1:] >= 5).any()
    answer = evaluate(
        {"name": "ag_news", "tokens": 10, "tokenizer": folder}, seeds=1, attacks=["grad_cluster"],
        settings=[f"model.pretrained={folder}", "training.epochs=8", "training.lr=0.005"],
    )  # fmt: skip
    assert answer["utility"]["mean"] > 0.8


def test_what_cannot_read_tokens_is_refused_with_the_reason(root: Path) -> None:
    def of(**changes: Any) -> dict[str, Any]:
        return {"study": "s", "dataset": "ag_news", "defense": "none", "attacks": ["pmc"], **changes}

    for changes, told in (
        ({"model": "mlp"}, "reads image, table data"),
        ({"defense": "instahide"}, "defined for image, table data"),
        ({"attacks": ["wmi"]}, "reconstructs numbers"),
    ):
        with pytest.raises(SpecError, match=told):
            resolve(parse(of(**changes)))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"hidden": 10, "heads": 3}, "do not divide"),
        ({"positions": 4}, "texts have 9 tokens"),
        ({"pretrained": "no/such-folder/here"}, "no model can be loaded"),
    ],
)
def test_impossible_encoders_are_refused(options: dict[str, Any], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(SpecError, match=told):
        MODELS["bert"](MODELS["bert"].Options.model_validate(options)).bottom((9,), 4, Stream(0, "x"))


def test_a_bag_of_tokens_counts_words_and_no_padding() -> None:
    counts = numbers(torch.tensor([[[2, 5, 5, BAG + 5, 0, 0]]]))
    assert counts.shape == (1, 1, BAG)
    assert counts[0, 0, 5] == 3
    assert counts.sum() == 4
    rows = torch.randn(3, 4)
    assert numbers(rows) is rows


@pytest.mark.public_data("ag_news/test.csv")
def test_the_real_file_holds_four_sections_in_equal_shares() -> None:
    held = load(Named(name="ag_news"))
    assert torch.bincount(held.y).tolist() == [1900] * 4
    assert held.passive[0].x.shape == (7600, 33)
    assert "test.csv alone" in held.notes[0]
