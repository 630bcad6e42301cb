"""The loops of examples/: run as a person runs them, they show what the search measured, under every defense."""

import math
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from sklearn.datasets import load_breast_cancer

from tests.helpers.examples import EXAMPLES, example
from tune_vfl import load_config, search
from tune_vfl.config import ExportedConfig, Measured, export_config, save_config
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.defenses.parts.pipeline import Pipeline
from tune_vfl.errors import UsageError
from tune_vfl.evaluation.packs import evaluate_pack
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.outcome import Outcome
from tune_vfl.protocol.hooks import Hooks
from tune_vfl.spec import parse
from tune_vfl.spec.cell import ALL_MODES

SPLIT, LABEL_ONLY = "own_loop_split", "own_loop_label_only"
LOOPS = {SPLIT: 0.5, LABEL_ONLY: 1.0}
ATTACKS = ["norm", "grad_cluster", {"name": "pmc", "variants": ["logreg"]}]


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of a bank's own: 569 rows, 30 columns, a label."""
    return written_table(tmp_path_factory.mktemp("bank"))


def written_table(folder: Path) -> Path:
    """Write that table."""
    path = folder / "loans.csv"
    load_breast_cancer(as_frame=True).frame.rename(columns={"target": "default"}).to_csv(path, index=False)
    return path


def spec(csv: Path, loop: str, defense: str, **fields: Any) -> dict[str, Any]:
    return {
        "study": "loans",
        "dataset": {"name": "csv", "path": str(csv), "label": "default", "split": LOOPS[loop]},
        "defense": defense,
        "attacks": ATTACKS,
        "training": {"epochs": 2},
        "budget": {"trials": 1, "seeds": 1},
        **fields,
    }


# Noise about as large as the gradients, so that something is found, and not the same with every seed.
NOISE = {"name": "laplace", "space": {"scale": {"float": [0.002, 0.005]}}}


def test_a_searched_and_exported_setting_gives_its_utility_and_leakage_again(
    csv: Path, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = {"budget": {"trials": 3, "seeds": 3}, "resources": {"concurrency": 1}, "sampler": "random"}
    study = search({**spec(csv, SPLIT, "laplace", **small), "defense": NOISE}, sinks=(), progress=False)
    study.export("max-utility", tmp_path / "best.json")
    shows_again(SPLIT, tmp_path / "best.json", csv, capsys)


def test_so_it_does_where_the_label_party_has_no_columns(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluated(tmp_path, spec(csv, LABEL_ONLY, "laplace", budget={"seeds": 3}), {"scale": 0.005})
    shows_again(LABEL_ONLY, tmp_path / "best.json", csv, capsys)


def shows_again(loop: str, config: Path, csv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Run a loop as a person does; hold it to within twice the standard error of what was measured before."""
    found = example(loop).main(str(config), str(csv))
    measured = load_config(config).measured
    errors = [std / math.sqrt(3) for std in (measured.utility_std, measured.leakage_std)]
    assert all(error > 0 for error in errors)
    for here, searched, error in zip(found.objectives, measured.in_search, errors, strict=True):
        assert abs(here - searched) <= 2 * error
    assert found.leakage is not None
    assert 0.1 < found.leakage < 0.95, "what finds nothing, or everything, does not drift"
    assert f"leakage {found.leakage:.4f}; in the search {measured.leakage:.4f}" in capsys.readouterr().out


@pytest.mark.parametrize(("loop", "other"), [(SPLIT, LABEL_ONLY), (LABEL_ONLY, SPLIT)])
def test_a_setting_of_another_mode_is_sent_to_the_other_loop(loop: str, other: str, csv: Path, tmp_path: Path) -> None:
    evaluated(tmp_path, spec(csv, loop, "none", attacks=["norm"]), {})
    with pytest.raises(SystemExit, match=loop):
        example(other).main(str(tmp_path / "best.json"), str(csv))


# Between them they have every hook of a defense; the others, half a second of a core each, are held to the search's
# numbers with -m slow.
ALWAYS = ("gaussian", "gafm", "geno", "instahide", "label_dp", "mid")


@cache
def fitting() -> list[Any]:
    """Every defense with every loop that it is defined for and that has what it needs by its defaults."""
    modes = {SPLIT: "split", LABEL_ONLY: "label_only"}
    assert set(modes.values()) == ALL_MODES - {"nosplit"}
    return [
        pytest.param(loop, name, marks=() if name in ALWAYS else pytest.mark.slow, id=f"{loop}-{name}")
        for loop, mode in modes.items()
        for name in DEFENSES.names()
        if mode in DEFENSES[name].capabilities.modes
        and "vertical" in DEFENSES[name].capabilities.federations
        and not (mode == "label_only" and DEFENSES[name].capabilities.needs_active_features)
    ]


@pytest.mark.parametrize(("loop", "defense"), fitting())
def test_under_every_defense_the_loop_is_the_search_s(loop: str, defense: str, csv: Path, tmp_path: Path) -> None:
    params = {"teacher_view": "full"} if loop == LABEL_ONLY and "teacher_view" in fields_of(defense) else {}
    outcome, config = evaluated(tmp_path, spec(csv, loop, defense), params)
    found = cut_short(example(loop), config, csv)
    assert found.utility is not None
    assert outcome.utility is not None
    assert found.utility.values == pytest.approx(outcome.utility.values, abs=1e-4)
    for name, score in outcome.attacks.items():
        assert found.attacks[name].values == pytest.approx(score.values, abs=2e-3), name
        assert found.attacks[name].floors == pytest.approx(score.floors, abs=1e-9), name


def fields_of(defense: str) -> set[str]:
    return set(DEFENSES[defense].Params.model_fields)


def evaluated(folder: Path, raw: dict[str, Any], params: dict[str, Any]) -> tuple[Outcome, ExportedConfig]:
    """Return what a trial of a search comes to, and its setting as it is exported."""
    cell = resolve(parse({**raw, "defense": {"name": raw["defense"], "params": params}}))
    (outcome,) = evaluate_pack(cell, [{}])
    assert outcome.outcome == "ok", outcome.reason
    assert outcome.utility is not None
    assert outcome.leakage is not None
    measured = Measured(
        metric=cell.metric,
        utility=outcome.utility.mean,
        utility_std=outcome.utility.std,
        leakage=outcome.leakage,
        leakage_std=outcome.leakage_std or 0.0,
        attacks={name: score.mean for name, score in outcome.attacks.items()},
    )
    config = export_config(cell, study="loans", trial=0, select="knee", params=params, measured=measured)
    return outcome, load_config(save_config(config, folder / "best.json"))


def cut_short(loop: ModuleType, config: ExportedConfig, csv: Path) -> Outcome:
    return config.outcome([loop.train(config, str(csv), seed) for seed in config.seeds])


def test_gradients_are_scaled_and_rates_scheduled_as_the_recipe_says(csv: Path, tmp_path: Path) -> None:
    recipe = {"epochs": 3, "grad_scale": "per_sample", "lr_schedule": "inverse_sqrt", "optimizer": "sgd", "lr": 0.1}
    outcome, config = evaluated(tmp_path, spec(csv, SPLIT, "laplace", training=recipe), {"scale": 0.5})
    found = cut_short(example(SPLIT), config, csv)
    assert found.objectives == pytest.approx(outcome.objectives, abs=1e-3)


def test_a_model_of_one_s_own_takes_the_place_of_the_study_s(csv: Path, tmp_path: Path) -> None:
    _, config = evaluated(tmp_path, spec(csv, LABEL_ONLY, "none"), {})
    run = config.own_loop(config.build_defense(embedding_dims=[4]), seed=0, path=csv)
    (x,), y = run.split.features("train"), run.split.y_train
    torch.manual_seed(0)
    bottom, top = torch.nn.Linear(x.shape[1], 4), torch.nn.Linear(4, 2)
    steps, _ = run.optimizer([*bottom.parameters(), *top.parameters()])
    run.begin([bottom])
    for epoch in range(config.training.epochs):
        for batch in run.rows.batches(64):
            sent = bottom(batch.passive[0])
            sent.retain_grad()
            torch.nn.functional.cross_entropy(top(sent), batch.y).backward()
            steps.step()
            run.record(batch, epoch=epoch, sent=[sent], received=[sent.grad])
            steps.zero_grad()
    run.measure(top(bottom(run.split.features("test")[0])))
    found = config.outcome([run])
    assert set(found.attacks) == {"norm", "grad_cluster", "pmc"}
    assert found.attacks["pmc"].mean > 0.8, "the attacker reads the bottom model that was trained here"
    assert y.shape == (len(x),)


def test_what_a_loop_leaves_out_is_said(csv: Path, tmp_path: Path) -> None:
    _, config = evaluated(tmp_path, spec(csv, LABEL_ONLY, "none", attacks=["norm"]), {})
    defense = config.build_defense(embedding_dims=[config.embedding_dim])
    run = config.own_loop(defense, seed=0, path=csv)
    with pytest.raises(UsageError, match="begin"):
        run.measure(torch.zeros(1, 2))
    with pytest.raises(UsageError, match="measure"):
        config.outcome([run])
    with pytest.raises(UsageError, match="labels only"):
        _ = run.own_bottom


def test_an_attack_that_takes_part_in_a_training_is_left_out(csv: Path, tmp_path: Path) -> None:
    raw = spec(csv, SPLIT, "none", attacks=["norm", {"name": "active", "variants": ["logreg"]}])
    _, config = evaluated(tmp_path, raw, {})
    found = cut_short(example(SPLIT), config, csv)
    assert set(found.attacks) == {"norm"}
    assert "attack 'active' takes part in a training: not carried out in this loop" in found.notes


@pytest.mark.parametrize("loop", LOOPS)
def test_the_loops_call_every_hook_of_a_defense(loop: str) -> None:
    """A hook that the loop leaves out is a defense that does nothing there. Clients, trees and sums have theirs."""
    text = (EXAMPLES / f"{loop}.py").read_text(encoding="utf-8")
    plain = {name: DEFENSES[name] for name in DEFENSES.names() if not issubclass(DEFENSES[name], Pipeline)}
    elsewhere = {"client_update", "kept_at_home", "send_sums", "tellable"}
    hooks = [name for name in vars(Hooks) if not name.startswith("_") and name not in elsewhere]
    of = {name: {h for h in hooks if getattr(d, h) is not getattr(Hooks, h)} for name, d in plain.items()}
    used = set().union(*of.values())
    assert used == set().union(*(of[name] for name in ALWAYS)), "each hook is held to the search's numbers by default"
    assert {"inputs", "send_embedding"} <= used
    assert {name for name in used if f"defense.{name}" not in text} == set()
