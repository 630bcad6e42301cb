"""Domains in ``training`` and ``model``: parsed, searched, packed, exported, and the same as a spec that says so."""

import json

import pytest
import yaml

from reports.page import spec_text
from reports.story import story
from reports.tables import front_frame
from tests.helpers.ledgers import open_ledger
from tests.helpers.resuming import resume
from tests.helpers.simulated import SimulatedTrainable
from tune_vfl import evaluate, load_config, load_study
from tune_vfl.cli.main import main
from tune_vfl.driver.api import search
from tune_vfl.driver.campaign_run import _CampaignRun
from tune_vfl.driver.proposals import Proposals
from tune_vfl.errors import SpecError, StudyError
from tune_vfl.evaluation import measuring, packs
from tune_vfl.evaluation.packs import evaluate_pack
from tune_vfl.evaluation.references import measure_references
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.evaluation.task import Task
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.ledger.storage import storage_at
from tune_vfl.models.mlp import MlpOptions
from tune_vfl.outcome import Outcome
from tune_vfl.records.campaigns import PlannedCampaign
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.spaces.named import space_of
from tune_vfl.spec import json_schema, parse
from tune_vfl.spec.cell import References, as_text, from_text
from tune_vfl.tracking.payload import trial_content

BASE = {"study": "s", "dataset": "breast_cancer", "defense": "laplace", "attacks": ["norm"], "budget": {"seeds": 1}}
LR = {"float": [1.0e-4, 1.0e-2], "log": True}
DOMAINS = {
    "training": {"lr": LR, "optimizer": {"choice": ["adam", "sgd"]}, "epochs": 3},
    "model": {"embedding_dim": {"int": [4, 16], "log": True}, "bottom_hidden": {"choice": [[32], [16, 8]]}},
}
NAMES = ["training.lr", "training.optimizer", "model.embedding_dim", "model.bottom_hidden"]


pytestmark = pytest.mark.usefixtures("home")


def planned(**fields):
    spec = parse({**BASE, **fields})
    cell = resolve(spec)
    return spec, cell, space_of(spec, cell)


def refusal(**fields):
    with pytest.raises(SpecError) as caught:
        planned(**fields)
    return caught.value.problems


def test_a_domain_may_stand_for_a_value_of_training_and_model():
    spec, cell, space = planned(**DOMAINS)
    assert space.ordinary == NAMES
    assert list(space.params) == ["scale", *NAMES]
    assert spec.training.model_fields_set == {"epochs"}
    plain = resolve(parse({**BASE, "training": {"epochs": 3}}))
    assert cell == plain, "every searched field stays the recipe's"
    assert space.params["training.lr"].log
    assert space.params["model.embedding_dim"].bounds == (4, 16)


def test_a_spec_with_domains_comes_back_from_its_dump_its_report_and_the_ledger():
    spec, cell, space = planned(**DOMAINS)
    assert parse(spec.model_dump(exclude_unset=True)) == spec
    assert parse(json.loads(spec.model_dump_json(exclude_unset=True))).searched == spec.searched
    held = PlannedStudy(spec, cell, space).as_held()
    assert held.spec == spec
    assert held.space == space
    assert held.difference(PlannedStudy(spec, cell, space).as_held()) == []
    other = PlannedStudy(
        *planned(**{**DOMAINS, "training": {**DOMAINS["training"], "lr": {"float": [1e-4, 1e-3]}}})
    ).as_held()
    assert any("training.lr" in change for change in held.difference(other))


def test_values_come_out_as_their_field_has_them():
    # YAML takes 1e-3 for a text, and a value may stand twice in two ways of writing it.
    given = yaml.safe_load("{lr: {choice: [1e-3, 0.001, 1e-2]}, epochs: {int: [1, 4], grid: [1, 4]}}")
    _, _, space = planned(training=given, model={"bottom_hidden": {"choice": [[], [8]]}})
    assert space.params["training.lr"].choice == (1e-3, 1e-2)
    assert space.params["training.epochs"].grid == (1, 4)
    assert [from_text(c) for c in space.params["model.bottom_hidden"].choice] == [[], [8]]
    assert space.params["model.bottom_hidden"].model_dump(mode="json")["choice"] == [[], [8]]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"training": {"lr": {"float": [0, 0.1]}}}, ["training.lr: input should be greater than 0"]),
        ({"training": {"optimizer": {"choice": ["adam", "rmsprop"]}}}, ["training.optimizer", "'rmsprop'"]),
        ({"training": {"epochs": {"float": [1, 3]}}}, ["training.epochs", "int:"]),
        ({"training": {"epochs": {"int": [1, 3], "grid": [9]}}}, ["training.epochs: grid value 9"]),
        ({"training": {"lrr": LR}}, ["training.lrr: no such field", "'lr'"]),
        ({"training": {"lr": {"floot": [0, 1]}}}, ["training.lr.floot: no such field"]),
        ({"training": {"lr": {"float": [1, 0]}}}, ["training.lr: expected finite low <= high"]),
        ({"training": {"batch_size": {"int": [2, 9], "at_most": "classes"}}}, ["training.batch_size", "at_most"]),
        ({"model": {"embedding_dim": {"int": [0, 4]}}}, ["model.embedding_dim", "greater than or equal to 1"]),
        ({"model": {"bottom_hidden": {"choice": [[8], ["x"]]}}}, ["model.bottom_hidden", "'x'"]),
        ({"model": {"cut": {"int": [0, 3]}}}, ["model.cut", "at most the 2 hidden layers", "got 3"]),
        ({"model": {"name": {"choice": ["mlp", "gafm"]}}}, ["model.name: cannot be searched", "study of each"]),
        ({"model": {"top": {"choice": ["net", "none"]}}}, ["model.top", "nosplit"]),
        ({"dataset": {"name": "breast_cancer", "split": {"choice": [0.3, 0.5]}}}, ["dataset.split", "cannot stand"]),
        ({"attacks": [{"name": "norm", "average": {"int": [0, 2]}}]}, ["attacks.norm.average", "cannot stand"]),
        ({"defense": {"name": "laplace", "params": {"scale": LR}}}, ["defense.params.scale", "defense.space"]),
    ],
)
def test_a_bad_domain_is_refused_with_its_place(fields, words):
    problems = refusal(**fields)
    assert len(problems) == 1
    assert all(w in problems[0] for w in words), problems


@pytest.mark.parametrize("value", [[64, 32], [], ["a"], "[no list", "adam", 3, 0.5, True, None])
def test_a_list_travels_as_a_text_and_a_text_stays_one(value):
    assert from_text(as_text(value)) == value
    assert not isinstance(as_text(value), list)


def test_all_bad_domains_are_said_at_once():
    problems = refusal(training={"lr": {"float": [0, 1]}, "epochs": {"int": [0, 5]}, "momentum": {"float": [1]}})
    assert [p.split(":")[0].split(".")[1] for p in problems] == ["momentum", "lr", "epochs"]


def test_what_a_value_does_to_other_parts_of_the_study_is_checked_too():
    (problem,) = refusal(attacks=["embedding_extension"], model={"aggregation": {"choice": ["concat", "sum"]}})
    assert problem.startswith("model.aggregation:")
    assert "use concat" in problem


def test_a_defense_has_no_parameter_of_such_a_name():
    (problem,) = refusal(defense={"name": "laplace", "space": {"training.lr": LR}})
    assert "no such parameter" in problem


def test_evaluate_and_the_command_line(capsys, tmp_path, home):
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump({**BASE, "budget": {"trials": 3, "seeds": 1}}), encoding="utf-8")
    lr, epochs = "training.lr={float: [1e-4, 1e-2], log: true}", "training.epochs={int: [2, 6]}"
    assert main(["validate", str(path), "--set", lr, "--set", epochs, "--json"]) == 0
    (study,) = json.loads(capsys.readouterr().out)["studies"]
    assert study["resolved"]["training"]["lr"] == LR
    cost = study["cost"]
    assert (cost["epochs"], cost["training_epochs"]) == (6, 24)
    assert cost["baseline"] == {"training.lr": 1e-3, "training.epochs": 30}
    assert main(["validate", str(path), "--set", lr]) == 0
    shown = capsys.readouterr().out
    assert yaml.safe_load(shown)["training"]["lr"] == LR
    assert "baseline with training.lr=0.001" in shown
    assert main(["evaluate", "--dataset", "breast_cancer", "--attack", "norm", "--set", lr]) == 2
    assert "training.lr: evaluate measures one setting" in capsys.readouterr().err
    assert not (home / "ledger.db").exists()


def test_the_schema_for_editors_allows_both():
    import jsonschema

    named = {n: {"name": BASE[n]} for n in ("dataset", "defense")} | {"attacks": [{"name": "norm"}]}
    for spec in ({**BASE, **named, "training": {"lr": 0.1}}, {**BASE, **named, **DOMAINS}):
        jsonschema.validate(spec, json_schema())


def test_published_settings_come_first_with_the_recipes_own_or_what_is_nearest():
    _, cell, space = planned(
        training={"lr": LR, "batch_size": {"int": [8, 16]}, "optimizer": {"choice": ["sgd"]}},
        model={**DOMAINS["model"], "cut": {"int": [0, 2]}},
    )
    assert len(space.published) == 4
    first = space.published[0].params
    assert all(space.holds(p.params) for p in space.published)
    assert first["training.lr"] == cell.training.lr
    assert first["model.cut"] == len(cell.model.options["bottom_hidden"])
    assert (first["training.batch_size"], first["training.optimizer"]) == (16, "sgd")
    assert from_text(first["model.bottom_hidden"]) == list(cell.model.options["bottom_hidden"])


@pytest.mark.parametrize("sampler", ["tpe", "nsga2", "random", "grid"])
def test_every_sampler_proposes_and_remembers_them(sampler):
    fields = {**DOMAINS, "sampler": sampler, "budget": {"trials": 12}}
    ledger = open_ledger(**fields)
    asked = Proposals(ledger).ask(8)
    assert len(asked) == 8
    assert all(ledger.space.holds(a.params) for a in asked)
    for a in asked:
        ledger.tell(a.number, Outcome.failed("diverged", "NaN"))
    ledger.close()
    again = open_ledger(**fields)
    more = Proposals(again).ask(4)
    settings = {json.dumps(a.params, sort_keys=True) for a in [*asked, *more]}
    assert len(settings) == 12, "no point twice, also after it was read back"
    assert all(isinstance(t.params["model.bottom_hidden"], list) for t in again.record().trials)


def pack_of(monkeypatch, home, **fields):
    monkeypatch.setenv("TUNE_VFL_HOME", str(home))
    ledger = open_ledger(budget={"trials": 12, "seeds": 1}, **fields)
    with storage_at(None).lease("study") as lease:
        run = _CampaignRun(PlannedCampaign.of(ledger.study), [ledger], TrainableSpec(SimulatedTrainable, {}), lease)
    return run._packs(ledger, trials=12, workers=2)[0]


def test_a_pack_holds_one_trial_where_training_is_searched_unless_asked_otherwise(tmp_path, monkeypatch):
    wide = {"name": "laplace", "space": {"scale": {"float": [1e-5, 1e-1], "log": True}}}
    assert pack_of(monkeypatch, tmp_path / "together", defense=wide) == 6
    assert pack_of(monkeypatch, tmp_path / "alone", defense=wide, training={"lr": LR}) == 1
    assert pack_of(monkeypatch, tmp_path / "asked", defense=wide, training={"lr": LR}, resources={"pack": 4}) == 4


def test_only_trials_that_are_trained_alike_share_a_pass(monkeypatch):
    passes = []
    real = measuring.train_pack

    def watched(task: Task, params, *rest, **named):
        cell = task.cell
        passes.append((cell.training.lr, cell.model.options["embedding_dim"], [p.scale for p in params]))
        return real(task, params, *rest, **named)

    monkeypatch.setattr(measuring, "train_pack", watched)
    _, cell, _ = planned(training={"epochs": 1})
    trials = [
        {"scale": 0.1, "training.lr": 0.01},
        {"scale": 0.2},
        {"scale": 0.3, "training.lr": 0.01},
        {"scale": 0.4, "model.embedding_dim": 4},
        {"scale": 0.5},
        {"scale": 0.6, "model.cut": 9},
        {"scale": 0.7, "training.lr": -1.0},
    ]
    outcomes = evaluate_pack(cell, trials, References())
    assert passes == [(0.01, 10, [0.1, 0.3]), (0.001, 10, [0.2, 0.5]), (0.001, 4, [0.4])]
    assert [o.outcome for o in outcomes] == ["ok"] * 5 + ["infeasible"] * 2
    assert "cut" in outcomes[5].reason
    assert "training.lr" in outcomes[6].reason


def test_a_trial_is_held_against_an_untrained_model_of_its_own():
    attacks = [{"name": "pmc", "variants": ["logreg"]}]
    _, cell, _ = planned(attacks=attacks, training={"epochs": 1})
    _, narrow, _ = planned(attacks=attacks, training={"epochs": 1}, model={"embedding_dim": 1, "bottom_hidden": []})
    lower, own = (measure_references(c).r_lower["pmc"][0] for c in (cell, narrow))
    assert lower != own
    change = {"model.embedding_dim": 1, "model.bottom_hidden": "[]"}
    outcomes = evaluate_pack(cell, [{}, change, {"training.lr": 0.1}], measure_references(cell))
    assert [o.attacks["pmc"].r_lower for o in outcomes] == [lower, own, lower]


def test_trials_that_search_their_training_are_held_against_the_floors_of_the_study_s_own(monkeypatch):
    """One that trains longer or faster would have its models moved further."""
    _, cell, _ = planned(training={"epochs": 1})
    asked = []

    def noticed(task, *, device):
        asked.append((task.cell.training.lr, task.cell.model.options["embedding_dim"]))
        return References()

    monkeypatch.setattr(packs, "references_once", noticed)
    own = cell.training.lr, cell.model.options["embedding_dim"]
    other = {"training.lr": 0.1, "model.embedding_dim": 4}
    outcomes = evaluate_pack(cell, [{"training.lr": 0.1}, other])
    assert [o.outcome for o in outcomes] == ["ok", "ok"]
    assert set(asked) == {own, (own[0], 4)}


def test_cut_moves_layers_between_bottom_and_top():
    def hidden(**options):
        return MlpOptions(bottom_hidden=(64, 32), top_hidden=(16,), **options).hidden

    assert hidden() == hidden(cut=2) == ((64, 32), (16,))
    assert hidden(cut=0) == ((), (64, 32, 16))
    assert hidden(cut=3) == ((64, 32, 16), ())
    with pytest.raises(ValueError, match="nothing to cut"):
        hidden(cut=1, top="none")


def test_a_search_its_resume_its_export_and_the_same_by_hand(tmp_path):
    """One of each kind of domain through Ray; what is exported is what was trained, and evaluate gives the same."""
    model = {"embedding_dim": {"int": [2, 6]}, "bottom_hidden": {"choice": [[8], [8, 4]]}, "cut": {"int": [0, 1]}}
    raw = {
        **BASE,
        "training": {"lr": LR, "epochs": 2, "batch_size": {"choice": [64, 128]}},
        "model": model,
        "attacks": ["norm", {"name": "pmc", "variants": ["logreg"]}],
        "budget": {"trials": 4, "seeds": 2},
        "resources": {"concurrency": 1, "pack": 2},
        "sampler": "random",
    }
    search(raw, progress=False, sinks=())
    again = search(raw, progress=False, sinks=())
    assert len(again.record().studies[0].trials) == 4, "the same spec goes on, and has nothing left to do"
    with pytest.raises(StudyError, match="embedding_dim"):
        search({**raw, "model": {**model, "embedding_dim": {"int": [2, 7]}}}, progress=False, sinks=())
    record = resume("s", 6, progress=False, sinks=()).record().studies[0]
    assert record.by_outcome() == {"ok": 6, "running": 0, "waiting": 0}
    config = load_study("s").export("max-utility", tmp_path / "best.json")
    assert load_config(tmp_path / "best.json") == config
    trial = next(t for t in record.trials if t.number == config.trial)
    searched = {n: v for n, v in trial.params.items() if n != "scale"}
    assert set(searched) == {f"model.{n}" for n in model} | {"training.lr", "training.batch_size"}
    for name, value in searched.items():
        part, field = name.split(".")
        held = getattr(config.training, field) if part == "training" else config.model.options[field]
        assert held == value
    assert config.training.epochs == 2
    assert config.defense.params["scale"] == trial.params["scale"]
    by_hand = [f"{n}={json.dumps(v)}" for n, v in searched.items()]
    same = evaluate(
        "breast_cancer",
        defense="laplace",
        params={"scale": trial.params["scale"]},
        attacks=raw["attacks"],
        seeds=2,
        settings=["training.epochs=2", *by_hand],
    )
    assert trial.outcome.utility is not None
    assert same["utility"]["values"] == pytest.approx(trial.outcome.utility.values, abs=1e-6)
    for name, score in trial.outcome.attacks.items():
        assert same["attacks"][name]["values"] == pytest.approx(score.values, abs=1e-6)
        assert same["attacks"][name]["floor"] == pytest.approx(score.floor, abs=1e-9)
    recipe = evaluate("breast_cancer", attacks=raw["attacks"], seeds=2, settings=["training.epochs=2"])
    assert record.baseline is not None
    assert record.baseline.utility is not None
    assert record.baseline.utility.values[:2] == pytest.approx(recipe["utility"]["values"], abs=1e-6)
    assert len(record.baseline.utility.values) == 10
    logged = trial_content("s", record.cell, trial).params
    assert logged["training.lr"] == json.dumps(searched["training.lr"])
    assert logged["model.bottom_hidden"] == json.dumps(searched["model.bottom_hidden"])
    assert "defense.scale" in logged
    assert {"training.lr", "model.bottom_hidden", "defense.scale"} <= set(front_frame([record]).columns)
    assert any("training.lr=0.001" in remark for remark in story(record).remarks)
    assert parse(yaml.safe_load(spec_text(record))) == record.spec
    assert main(["frontier", "s", "--format", "csv", "-o", str(tmp_path / "front.csv")]) == 0
    assert main(["report", "s", "-o", str(tmp_path / "report")]) == 0
