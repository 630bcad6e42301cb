"""What an earlier version wrote is still read: specs, the keys of JSON, exported settings."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tune_vfl import evaluate, load_config
from tune_vfl.attacks.base import ATTACKS
from tune_vfl.config import save_config

SAMPLES = sorted(p for p in Path(__file__).parent.iterdir() if (p / "spec.yaml").is_file())

pytestmark = pytest.mark.parametrize("sample", SAMPLES, ids=[p.name for p in SAMPLES])


def told(sample: Path, name: str) -> Any:
    return json.loads((sample / name).read_text(encoding="utf-8"))


def keys(value: Any, place: str = "") -> set[str]:
    """The places of all keys, such as ``.attacks.norm.mean``; the items of a list share theirs."""
    if isinstance(value, dict):
        return {f"{place}.{key}" for key in value}.union(*(keys(v, f"{place}.{k}") for k, v in value.items()))
    if isinstance(value, list):
        return set().union(*(keys(item, place) for item in value))
    return set()


def test_an_evaluation_has_every_key_it_had_and_the_numbers_whose_rule_is_the_same(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ATTACKS["pmc"], "draws", 1)  # of the known rows; two by now
    before = told(sample, "evaluation.json")
    spec = yaml.safe_load((sample / "spec.yaml").read_text(encoding="utf-8"))
    now = evaluate(
        spec["dataset"],
        defense="laplace",
        params={"scale": 0.01},
        attacks=spec["attacks"],
        seeds=spec["budget"]["seeds"],
        settings=["training.epochs=3"],
    )
    assert before["schema"] == now["schema"] == "tune-vfl/evaluation/1"
    assert keys(before) <= keys(json.loads(json.dumps(now)))
    assert now["utility"]["mean"] == pytest.approx(before["utility"]["mean"], abs=1e-3)  # of another processor's sums
    # Attacks read more moments now, and noise scores 1/2: what one reads of the same rows with the same rule stays.
    for variant, score in before["attacks"]["pmc"]["variants"].items():
        assert now["attacks"]["pmc"]["variants"][variant]["mean"] == pytest.approx(score["mean"], abs=1e-3)
    folded = before["attacks"]["norm"]["variants"]["norm"]["mean"]
    assert now["attacks"]["norm"]["variants"]["norm"]["mean"] <= folded + 1e-3


def test_an_exported_setting_builds_its_defense_and_is_written_as_it_was(sample: Path, tmp_path: Path) -> None:
    config = load_config(sample / "config.json")
    defense = config.build_defense(num_classes=2, embedding_dims=[10])
    assert defense.name == "laplace"
    assert defense.members[0].model_dump() == config.defense.params
    assert told(tmp_path, save_config(config, tmp_path / "again.json").name) == told(sample, "config.json")
