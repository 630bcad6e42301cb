"""Settings of one's own that a search tries first: refused where they do not fit, before anything runs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.driver.conftest import Workers
from tests.helpers.ledgers import open_ledger
from tests.helpers.refusals import refusal
from tests.helpers.simulated import SimulatedTrainable
from tune_vfl.config import DefenseSetting, ExportedConfig, Measured, save_config
from tune_vfl.data.own_files import own_files, relocated
from tune_vfl.driver.campaign_run import run_campaign
from tune_vfl.driver.planning import changed, plan, planned_campaign
from tune_vfl.driver.proposals import Proposals
from tune_vfl.errors import SpecError
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.ledger.reading import open_study
from tune_vfl.outcome import Outcome, Score
from tune_vfl.records.campaigns import PlannedCampaign
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.spec import Named, Training, parse

pytestmark = pytest.mark.usefixtures("home")

RAW: dict[str, Any] = {
    "study": "s",
    "dataset": "breast_cancer",
    "defense": "laplace",
    "attacks": ["norm"],
    "budget": {"trials": 6, "seeds": 1},
}
KDK = {"k": 2, "epsilon": 0.4, "anchor": "true_label"}


def first(**fields: Any) -> list[list[dict[str, Any]]]:
    return [study.first for study in plan({**RAW, **fields}).studies]


def exported(folder: Path, defense: str = "laplace", lr: float = 0.002, **params: Any) -> str:
    """Write a setting of another study as `export` does, and return its path."""
    config = ExportedConfig(
        schema="tune-vfl/config/1",
        study="other",
        trial=3,
        select="knee",
        defense=DefenseSetting(name=defense, params=params),
        dataset=Named(name="digits"),
        model=Named(name="mlp"),
        training=Training(lr=lr),
        attacks=(Named(name="norm"),),
        seeds=(0, 1),
        mode="split",
        num_classes=10,
        measured=Measured(metric="auc", utility=0.9, utility_std=0.0, leakage=0.1, leakage_std=0.0, attacks={}),
        version="0.2.0",
    )
    return str(save_config(config, folder / f"{defense}.json"))


def test_own_settings_come_before_published_ones_and_none_comes_twice() -> None:
    (published,) = first()
    (settings,) = first(start=[{"scale": 0.03}, published[1]])
    assert settings == [{"scale": 0.03}, published[1], published[0], *published[2:]]
    assert first(start={"scale": 0.03})[0][0] == {"scale": 0.03}, "one needs no list"
    assert first(defense={"name": "laplace", "start": [{"scale": 0.03}]}) == first(start=[{"scale": 0.03}])


def test_each_defense_of_a_campaign_has_its_own() -> None:
    defenses = [{"name": "laplace", "start": [{"scale": 0.03}]}, "kdk"]
    laplace, kdk = first(defense=defenses, budget={"trials": 12})
    assert laplace[0] == {"scale": 0.03}
    assert kdk == first(defense="kdk")[0]
    needed = len(laplace) + len(kdk)
    with refusal(f"give at least {needed}", error=SpecError):
        plan({**RAW, "defense": defenses, "budget": {"trials": needed - 1}})


def test_parameters_of_training_that_a_setting_does_not_name_are_the_spec_s_own() -> None:
    domain = {"lr": {"float": [1e-4, 1e-2]}}
    own = planned_campaign(RAW).studies[0].cell.training.lr
    (settings,) = first(start=[{"scale": 0.03}, {"scale": 0.03, "training.lr": 0.005}], training=domain)
    assert settings[:2] == [{"scale": 0.03, "training.lr": own}, {"scale": 0.03, "training.lr": 0.005}]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"start": [{"scal": 0.01}]}, ["start.0.scal", "Did you mean 'scale'?", "Known: scale"]),
        ({"start": [{"scale": 0.01}, {}]}, ["start.1: expected a value of each parameter", "got none of scale"]),
        (
            {"start": [{"scale": 7}]},
            ["start.0.scale: expected a number from 1e-05 to 0.1, got 7", "space.scale"],
        ),
        ({"start": [{"scale": "1e-2"}]}, ["start.0.scale: expected a number", "got '1e-2'"]),
        ({"defense": "kdk", "start": [{**KDK, "k": 2.5}]}, ["start.0.k: expected a whole number from 2 to"]),
        ({"defense": "kdk", "start": [{**KDK, "anchor": "x"}]}, ["start.0.anchor: expected one of 'true_label'"]),
        ({"start": [{"scale": 0.01, "training.lr": 0.1}]}, ["start.0.training.lr: is no parameter of defense"]),
        ({"start": [{"scale": 0.01}] * 2}, ["start.1: is the same setting as start.0"]),
        ({"start": [{"scale": 0.01 * i} for i in range(1, 8)]}, ["at most 6 settings", "got 7", "raise budget.trials"]),
        ({"start": [3]}, ["start.0: expected a setting such as {scale: 0.01}, or the path of an exported one, got 3"]),
        ({"start": "no.json"}, ["start.0: no.json: cannot be read", "tune-vfl export"]),
        ({"start": [{"scale": 0.01}], "defense": {"name": "laplace", "start": []}}, ["give it in one of them"]),
        (
            {"defense": ["laplace", "kdk"], "start": [{"scale": 0.01}]},
            ["'kdk'", "[{name: NAME, start: [...]}]"],
        ),
        (
            {"defense": {"name": "laplace", "params": {"clip": 1.0}}, "start": [{"scale": 0.01, "clip": 2.0}]},
            ["start.0.clip: expected 1.0", "got 2.0", "defense.params.clip"],
        ),
        ({"stop": {"front": 0}}, ["stop.front"]),
        ({"stop": {"fron": 3}}, ["stop.fron: no such field. Did you mean 'front'?"]),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(fields: dict[str, Any], said: list[str]) -> None:
    with refusal(*said, error=SpecError):
        plan({**RAW, **fields})


def test_what_is_fixed_may_be_left_out_or_repeated() -> None:
    fixed = {"name": "laplace", "params": {"clip": 1.0}}
    assert first(defense=fixed, start=[{"scale": 0.01}]) == first(defense=fixed, start=[{"scale": 0.01, "clip": 1.0}])


def test_an_exported_setting_is_one_to_start_from(tmp_path: Path) -> None:
    path = exported(tmp_path, scale=0.03, clip=None)
    study = planned_campaign({**RAW, "start": [path, {"scale": 0.02}]}).studies[0]
    assert study.first[:2] == [{"scale": 0.03}, {"scale": 0.02}]
    Path(path).unlink()
    held = PlannedStudy.read(json.loads(json.dumps(study.dumped())))
    assert held.first == study.first, "the plan needs the file no more"
    assert study.difference(planned_campaign(RAW).studies[0]) == [], "what comes first makes no other study"


def test_of_an_exported_setting_what_is_searched_is_taken_and_the_rest_must_agree(tmp_path: Path) -> None:
    path = exported(tmp_path, scale=0.03, lr=0.004)
    (settings,) = first(start=[path], training={"lr": {"float": [1e-4, 1e-2]}})
    assert settings[0] == {"scale": 0.03, "training.lr": 0.004}
    with refusal("start.0.clip: expected None", "got 2.0", error=SpecError):
        first(start=[exported(tmp_path, scale=0.03, clip=2.0)])
    with refusal("a setting of defense 'kdk', expected one of 'laplace'", "name: kdk", error=SpecError):
        first(start=[exported(tmp_path, "kdk", **KDK)])


def test_files_of_settings_travel_with_a_spec(tmp_path: Path) -> None:
    path = exported(tmp_path, scale=0.03)
    entry = {"name": "laplace", "start": [path]}
    for raw, there in (
        ({**RAW, "start": [path, {"scale": 0.1}]}, {**RAW, "start": ["x/1", {"scale": 0.1}]}),
        ({**RAW, "defense": [entry, "kdk"]}, {**RAW, "defense": [{**entry, "start": ["x/1"]}, "kdk"]}),
        ({**RAW, "matrix": {"defense": [entry]}}, {**RAW, "matrix": {"defense": [{**entry, "start": ["x/1"]}]}}),
    ):
        assert own_files(raw) == [Path(path)]
        assert relocated(raw, {Path(path): "x/1"}) == there


@pytest.mark.parametrize("sampler", ["tpe", "nsga2", "random", "gp", "grid"])
def test_they_are_asked_in_order_by_every_sampler_and_not_again(sampler: str, workers: Workers) -> None:
    own = [0.07, 1e-4, 0.002]
    spec = parse(
        {**RAW, "sampler": sampler, "start": [{"scale": s} for s in own], "budget": {"trials": 12, "seeds": 1}}
    )
    study = planned_campaign(spec).studies[0]
    workers.room = 1
    run_campaign(PlannedCampaign.of(study), work=TrainableSpec(SimulatedTrainable, {}), progress=False)
    (record,) = open_study("s").record().studies
    scales = [trial.params["scale"] for trial in sorted(record.trials, key=lambda t: t.number)]
    assert scales[:3] == own
    assert scales[: len(study.first)] == [setting["scale"] for setting in study.first]
    assert len(set(scales)) == len(scales) <= 12


def later(name: str, leakages: Sequence[float]) -> list[dict[str, Any]]:
    """Return what is asked after twelve settings of one's own that came to these leakages."""
    wide = {"name": "laplace", "space": {"scale": {"float": [1e-5, 1e-1], "log": True}}}
    ledger = open_ledger(name, defense=wide, start=[{"scale": 10 ** (-4.9 + 0.3 * i)} for i in range(12)])
    proposals = Proposals(ledger)
    for leakage in leakages:
        (asked,) = proposals.ask(1)
        outcome = Outcome(outcome="ok", utility=Score.of("auc", [0.9]), leakage=leakage)
        record = ledger.tell(asked.number, outcome)
        assert record is not None
        proposals.learn(record)
    return [trial.params for trial in proposals.ask(4)]


def test_the_sampler_learns_from_them() -> None:
    rising = [0.05 * i for i in range(12)]
    assert later("a", rising) == later("b", rising)
    assert later("c", rising[::-1]) != later("d", rising)


def test_settings_that_are_added_to_a_study_are_tried_next(workers: Workers) -> None:
    def go(**fields: Any) -> list[float]:
        study = planned_campaign({**RAW, "sampler": "random", **fields})
        run_campaign(study, work=TrainableSpec(SimulatedTrainable, {}), progress=False)
        return [trial.params["scale"] for trial in open_study("s").record().studies[0].trials]

    before = go()
    after = go(start=[{"scale": before[2]}, {"scale": 0.07}], budget={"trials": 8, "seeds": 1})
    assert after[:7] == [*before, 0.07], "one that was tried is not tried again"
    assert len(after) == 8
    many = [{"scale": 0.001 * i} for i in range(21, 31)]
    assert go(start=many, budget={"trials": 18, "seeds": 1}) == [*after, *(setting["scale"] for setting in many)]


def test_fewer_trials_than_settings_are_refused_from_python_too() -> None:
    study = planned_campaign({**RAW, "start": [{"scale": 0.01}, {"scale": 0.02}]})
    with refusal("expected at most 1 settings", error=SpecError):
        changed(study, trials=1)
