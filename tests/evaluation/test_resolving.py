"""From spec to cell: defaults completed, impossible combinations refused, all problems at once."""

from __future__ import annotations

from typing import Any

import pytest

from tune_vfl.errors import SpecError
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.spec import json_schema, parse
from tune_vfl.spec.raw import apply_settings, expand, parse_value


def raw(**changes: Any) -> dict[str, Any]:
    return {"study": "s", "dataset": "breast_cancer", "defense": "laplace", "attacks": ["norm"], **changes}


def test_a_cell_writes_every_option_out() -> None:
    cell = resolve(parse(raw(training={"epochs": 7})))
    assert cell.training.epochs == 7
    assert cell.training.batch_size == 32  # the data set's own
    assert cell.model.options["embedding_dim"] >= 1
    moments = ("last", "first_batch", "epoch0", "mean")
    assert cell.attacks[0].options == {"average": 3, "d1": "abs", "moments": moments}
    assert (cell.metric, cell.num_classes, cell.mode, cell.seeds) == ("auc", 2, "split", (0, 1, 2))


@pytest.mark.parametrize(
    ("settings", "mode"),
    [([], "split"), (["model.top=none"], "nosplit"), (["dataset.split=1.0"], "label_only")],
)
def test_mode_is_derived_from_data_and_model(settings: list[str], mode: str) -> None:
    assert resolve(parse(apply_settings(raw(), settings))).mode == mode


def test_without_a_top_model_the_embeddings_are_the_logits() -> None:
    cell = resolve(parse(apply_settings(raw(dataset="digits", attacks=["direct"]), ["model.top=none"])))
    assert cell.model.options["embedding_dim"] == 10
    assert cell.model.options["aggregation"] == "sum"


@pytest.mark.parametrize(
    ("changes", "settings", "said"),
    [
        ({"attacks": ["direct"]}, [], ["'direct'", "nosplit", "model.top=none"]),
        ({"dataset": "digits", "defense": "marvell", "attacks": ["pmc"]}, [], ["'marvell'", "two classes", "10"]),
        ({"dataset": "digits"}, [], ["'norm'", "two classes"]),
        ({"model": "cnn"}, [], ["'cnn'", "image", "table"]),
        ({"dataset": "wine", "model": "gafm", "attacks": ["pmc"]}, [], ["'gafm'", "binary", "3 classes"]),
        ({}, ["model.top=none", "model.embedding_dim=7"], ["embedding_dim", "2", "7"]),
        ({"defense": {"name": "laplace", "params": {"scle": 1}}}, [], ["scle", "Did you mean 'scale'"]),
        ({"defense": {"name": "laplace", "params": {"scale": -1}}}, [], ["scale", "-1"]),
        ({"attacks": [{"name": "norm", "d2": "abs"}]}, [], ["attacks.norm", "d2", "Did you mean 'd1'"]),
        ({"defense": "laplas"}, [], ["unknown defense 'laplas'", "Did you mean 'laplace'"]),
        ({"dataset": "breast_cancr"}, [], ["unknown dataset", "Did you mean 'breast_cancer'"]),
        ({"defense": "kdk"}, ["dataset.split=1.0"], ["kdk", "teacher_view"]),
        ({"defense": "labobf", "attacks": ["bli"]}, [], ["'bli'", "'labobf'", "one number", "loss of its own"]),
        ({"defense": "gafm", "attacks": ["bli"]}, ["dataset.split=1.0"], ["'bli'", "'gafm'", "loss of its own"]),
    ],
)
def test_impossible_specs_are_refused_with_the_reason(
    changes: dict[str, Any], settings: list[str], said: list[str]
) -> None:
    with pytest.raises(SpecError) as refused:
        resolve(parse(apply_settings(raw(**changes), settings)))
    for words in said:
        assert words in str(refused.value)


def test_all_problems_are_said_at_once() -> None:
    with pytest.raises(SpecError) as refused:
        resolve(
            parse(
                raw(defense={"name": "laplace", "params": {"scale": -1}}, attacks=["direct", "norm"], dataset="digits")
            )
        )
    text = str(refused.value)
    assert "scale" in text
    assert "'direct'" in text
    assert "'norm'" in text


def test_parsing_lists_every_problem_with_its_place() -> None:
    with pytest.raises(SpecError) as refused:
        parse(
            {"study": "a/b", "dataset": "wine", "defence": "none", "attacks": [], "budget": {"trials": 0, "sedes": 3}}
        )
    text = str(refused.value)
    for words in (
        "study",
        "defence: no such field. Did you mean 'defense'",
        "defense: is required",
        "attacks",
        "sedes",
        "trials",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.001", 0.001),
        ("1e-3", 0.001),
        ("[32]", [32]),
        ("none", "none"),
        ("true", True),
        ("[a, b]", ["a", "b"]),
        ("null", None),
    ],
)
def test_values_on_the_command_line(text: str, value: Any) -> None:
    assert parse_value(text) == value


def test_settings_reach_any_field() -> None:
    spec = apply_settings(
        raw(), ["attacks.norm.d1=signed", "training.epochs=5", "dataset.split=0.25", "defense.params.scale=1e-3"]
    )
    assert spec["attacks"] == [{"name": "norm", "d1": "signed"}]
    assert spec["training"] == {"epochs": 5}
    assert spec["dataset"] == {"name": "breast_cancer", "split": 0.25}
    assert spec["defense"] == {"name": "laplace", "params": {"scale": 0.001}}


@pytest.mark.parametrize("setting", ["training.epochs", "=5", "attacks.direct.rule=argmin", "study.name.x=1"])
def test_broken_settings_are_refused(setting: str) -> None:
    with pytest.raises(SpecError):
        parse(apply_settings(raw(), [setting]))


def test_matrix_expands_to_a_study_for_each_dataset_and_defense() -> None:
    specs = expand(raw(study="all", dataset=["wine", "digits"], defense=["none", {"name": "kdk"}]))
    assert [s["study"] for s in specs] == ["all-wine-none", "all-wine-kdk", "all-digits-none", "all-digits-kdk"]
    assert expand(raw()) == [raw()]
    with pytest.raises(SpecError, match="more than one study"):
        expand(raw(defense=["none", "none"]))


def test_json_schema_names_every_field() -> None:
    schema = json_schema()
    assert {"study", "dataset", "defense", "attacks", "budget", "sampler"} <= set(schema["properties"])
