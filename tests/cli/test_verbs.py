"""The verbs from outside: exit codes, what goes to stdout and what to stderr, hostile input."""

import json
import os
import stat
import subprocess
import sys

import pytest
import yaml

from tune_vfl.errors import DataError

SPEC = {
    "study": "tiny",
    "dataset": "breast_cancer",
    "defense": "laplace",
    "attacks": ["norm"],
    "training": {"epochs": 1},
    "budget": {"trials": 2, "seeds": 1},
}
VERBS = ["quickstart", "list", "evaluate", "validate", "search", "resume", "studies", "status", "frontier", "report"]
VERBS += ["export", "submit", "jobs", "ui", "doctor", "clean", "data"]
EVALUATE = ["evaluate", "--dataset", "breast_cancer", "--attack", "norm"]


pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def spec(tmp_path):
    def write(**changes):
        path = tmp_path / "spec.yaml"
        path.write_text(yaml.safe_dump({**SPEC, **changes}), encoding="utf-8")
        return str(path)

    return write


def test_help_names_every_verb(run):
    code, out, _ = run("--help")
    assert code == 0
    assert all(verb in out for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(run, verb):
    code, out, _ = run(verb, "--help")
    assert code == 0
    assert "Usage" in out
    assert verb in ("jobs", "data") or "Example" in out


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["list"], ["evaluate"], ["search"], ["frontier", "x", "--format", "xml"]]
)
def test_usage_errors_exit_2(run, arguments):
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert err


def test_misspelled_verb_is_answered_with_the_nearest(run):
    code, _, err = run("frontir", "x")
    assert code == 2
    assert "frontier" in err


@pytest.mark.parametrize("kind", ["datasets", "models", "defenses", "attacks", "spaces", "samplers"])
def test_list(run, kind):
    code, out, _ = run("list", kind, "--json")
    assert code == 0
    answer = json.loads(out)
    assert answer["schema"] == "tune-vfl/list/1"
    assert answer["kind"] == kind
    names = [item["name"] for item in answer["items"]]
    assert len(set(names)) == len(names) > 0
    code, out, _ = run("list", kind)
    assert code == 0
    assert all(name in out for name in names)


def test_list_knows_nearest_kind(run):
    code, _, err = run("list", "defences")
    assert code == 2
    assert "'defenses'" in err


def test_evaluate_answers_in_the_published_form(run):
    code, out, err = run(
        *EVALUATE, "--defense", "laplace", "-p", "scale=0.01", "--seeds", 2, "--set", "training.epochs=1", "--json"
    )
    assert code == 0, err
    answer = json.loads(out)
    assert answer["schema"] == "tune-vfl/evaluation/1"
    assert answer["defense"] == {"name": "laplace", "params": {"scale": 0.01, "clip": None}}
    assert answer["seeds"] == [0, 1]
    assert answer["outcome"] == "ok"
    assert len(answer["utility"]["values"]) == 2
    assert {"metric", "mean", "std", "values", "advantage", "floor", "variants", "weak_attack"} <= set(
        answer["attacks"]["norm"]
    )
    assert 0 <= answer["leakage"] <= 1
    assert set(answer["seconds"]) >= {"train", "attack"}


def test_p_is_short_for_set(run):
    quick = (*EVALUATE, "-f", "laplace", "--seeds", 1, "--set", "training.epochs=1", "--json")
    _, short, _ = run(*quick, "-p", "scale=0.02")
    _, long, _ = run(*quick, "--set", "defense.params.scale=0.02")
    first, second = json.loads(short), json.loads(long)
    assert first["defense"]["params"] == {"scale": 0.02, "clip": None}
    assert first["utility"] == second["utility"]
    assert first["attacks"] == second["attacks"]


def test_evaluate_reports_all_problems_at_once(run):
    code, out, err = run(
        "evaluate", "--dataset", "breast_canser", "--defense", "laplase", "--attack", "nrom", "-p", "scale"
    )
    assert code == 2
    assert out == ""
    assert "4 problems" in err
    for nearest in ("'breast_cancer'", "'laplace'", "'norm'", "-p 'scale'"):
        assert nearest in err


@pytest.mark.parametrize(
    "extra",
    [
        ["--seeds", "0"],
        ["--seeds", "-3"],
        ["-p", "scale=lots"],
        ["-p", "scal=0.1"],
        ["-p", "scale=[1, 2"],
        ["--set", "=3"],
        ["--set", "training.epochs=0"],
        ["--set", "training.epoch=3"],
        ["--set", "study.x.y=1"],
        ["--set", "attacks.mean.rule=x"],
        ["--attack", "norm"],
        ["--model", "nothing_like_it"],
    ],
)
def test_evaluate_refuses(run, home, extra):
    code, out, err = run(*EVALUATE, "--defense", "laplace", *extra)
    assert code == 2, err
    assert out == ""
    assert "Traceback" not in err
    assert not home.exists()


@pytest.mark.parametrize(("outcome", "code"), [("diverged", 0), ("infeasible", 0), ("error", 1), ("oom", 1)])
def test_evaluate_exit_code_by_outcome(run, monkeypatch, outcome, code):
    from tune_vfl import evaluation

    answer = {
        "schema": "tune-vfl/evaluation/1",
        "dataset": "d",
        "model": "m",
        "defense": {"name": "f", "params": {}},
        "seeds": [0],
    }
    ended = {"outcome": outcome, "reason": "on purpose", "utility": None, "attacks": {}, "leakage": None, "seconds": {}}
    monkeypatch.setattr(evaluation, "evaluate_spec", lambda _, **__: {**answer, **ended})
    ended_with, out, err = run(*EVALUATE, "--json")
    assert ended_with == code
    assert json.loads(out)["outcome"] == outcome
    assert "on purpose" in err


def test_validate_prints_the_resolved_spec_and_its_cost(run, spec, home):
    code, out, _ = run("validate", spec(), "--set", "budget.trials=7", "--json")
    assert code == 0
    (study,) = json.loads(out)["studies"]
    assert study["study"] == "tiny"
    assert study["resolved"]["training"]["epochs"] == 1
    assert study["resolved"]["training"]["batch_size"] >= 2  # from the data set's recipe
    cost = study["cost"]
    assert (cost["trials"], cost["seeds"], cost["epochs"]) == (7, 1, 1)
    assert cost["trainings"] == 8  # the baseline is one more
    assert "scale" in cost["space"]
    code, out, _ = run("validate", spec())
    assert code == 0
    assert yaml.safe_load(out)["metric"] == "auc"  # what is printed is YAML
    assert not home.exists()


def test_validate_refuses_packs_that_find_no_room_on_this_machine(run, spec, home):
    code, out, err = run("validate", spec(resources={"cpu": 4096}))
    assert (code, out) == (2, "")
    assert "resources: one pack takes 4096 CPU and 0 GPU, but there are" in err
    assert not home.exists()


def test_validate_leaves_the_room_of_a_cluster_to_the_cluster(run, spec, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "cluster.example:6379")
    assert run("validate", spec(resources={"cpu": 4096}))[0] == 0


def test_validate_without_an_answer_of_the_ledger_says_that_the_name_was_not_looked_up(run, spec, monkeypatch):
    monkeypatch.setenv("TUNE_VFL_STORAGE", "postgresql://me@127.0.0.1:9/tune")
    code, out, err = run("validate", spec())
    assert code == 0
    assert out.startswith("# tiny")
    assert "note: whether another study has this name is not known" in err


def test_validate_counts_a_finite_space(run, spec):
    finite = {"name": "laplace", "space": {"scale": {"choice": [0.1, 0.2, 0.3]}}}
    code, out, _ = run("validate", spec(defense=finite, budget={"trials": 40, "seeds": 2}), "--json")
    assert code == 0
    cost = json.loads(out)["studies"][0]["cost"]
    assert (cost["space_size"], cost["trials"], cost["trainings"]) == (3, 3, 8)


def test_validate_schema_is_a_json_schema(run):
    import jsonschema

    code, out, _ = run("validate", "--schema")
    assert code == 0
    schema = json.loads(out)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert {"study", "dataset", "defense", "attacks"} <= set(schema["properties"])


def test_validate_lists_all_problems(run, spec):
    code, out, err = run("validate", spec(buget={}, attacks=[], study="../x", sampler={"name": "tpee"}))
    assert code == 2
    assert out == ""
    assert "4 problems" in err
    assert "'budget'" in err


MATRIX = {"dataset": ["breast_cancer", "digits"], "defense": ["laplace", "marvell"]}


def test_a_matrix_runs_a_pair_without_the_attack_that_does_not_fit_it(run, spec):
    several = spec(matrix=MATRIX, attacks=["pmc", "norm", "direct"])
    code, out, _ = run("validate", several, "--set", "budget.trials=12", "--json")
    assert code == 0
    answer = json.loads(out)
    attacks = {s["study"]: [a["name"] for a in s["resolved"]["attacks"]] for s in answer["studies"]}
    assert attacks == {
        "tiny-breast_cancer-laplace": ["pmc", "norm"],
        "tiny-breast_cancer-marvell": ["pmc", "norm"],
        "tiny-digits-laplace": ["pmc"],
    }
    reasons = {(s["study"], s["attack"]): " ".join(s["problems"]) for s in answer["skipped"]}
    assert "two classes" in reasons["tiny-digits-laplace", "norm"]
    assert "nosplit" in reasons["tiny-digits-laplace", "direct"]
    assert "two classes" in reasons["tiny-digits-marvell", None]
    assert "norm" not in reasons["tiny-digits-marvell", None]  # the pair is impossible whatever the attack


def test_a_campaign_on_one_screen(run, spec):
    code, out, _ = run("validate", spec(matrix=MATRIX, attacks=["pmc", "norm"]), "--set", "budget.trials=12")
    assert code == 0
    assert "campaign tiny: 3 studies, 12 trials, 0 of them done" in out
    assert "trainings alone: about" in out
    assert "two classes" in out.partition("left out:")[2]
    assert len(out.splitlines()) < 24


def test_fewer_trials_than_published_settings_are_refused(run, spec):
    code, _, err = run("validate", spec(matrix=MATRIX, attacks=["pmc"]), "--set", "budget.trials=10")
    assert code == 2
    assert "give at least 11" in err


def test_a_single_study_with_an_attack_that_does_not_fit_is_refused(run, spec):
    code, _, err = run("validate", spec(dataset="digits", defense="laplace", attacks=["pmc", "norm"]))
    assert code == 2
    assert "'norm'" in err


def test_an_impossible_pair_alone_is_refused(run, spec):
    code, _, err = run("validate", spec(dataset="digits", defense="marvell", attacks=["pmc"]))
    assert code == 2
    assert "two classes" in err


def test_a_misspelled_name_in_a_matrix_is_refused_not_skipped(run, spec):
    code, _, err = run("search", spec(matrix={**MATRIX, "defense": ["laplace", "marvel"]}, attacks=["pmc"]))
    assert code == 2
    assert "'marvell'" in err


@pytest.mark.parametrize("name", ["../../etc/x", "a/b", "", ".", "x" * 200, "nul\x00", "a b"])
def test_study_names_stay_names(run, spec, home, name):
    code, _, err = run("search", spec(), "--name", name)
    assert code == 2, err
    assert not home.exists()


@pytest.mark.parametrize("arguments", [["status"], ["frontier"], ["resume"], ["report"], ["export", "-o", "x.json"]])
@pytest.mark.parametrize("name", ["nothing", "../nothing", "a/../../b"])
def test_reading_what_is_not_there_leaves_nothing_behind(run, home, tmp_path, monkeypatch, arguments, name):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    code, out, err = run(arguments[0], name, *arguments[1:])
    assert code == 2
    assert out == ""
    assert "no study" in err
    assert sorted(tmp_path.rglob("*")) == before


def test_studies_without_a_ledger(run, home):
    code, out, _ = run("studies", "--json")
    assert code == 0
    assert json.loads(out) == {"schema": "tune-vfl/studies/1", "studies": []}
    assert not home.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_home(run, spec, tmp_path, monkeypatch):
    locked = tmp_path / "locked"
    locked.mkdir(mode=stat.S_IRUSR | stat.S_IXUSR)
    monkeypatch.setenv("TUNE_VFL_HOME", str(locked / "home"))
    code, _, err = run("search", spec())
    assert code in (2, 4)
    assert "Traceback" not in err


def test_validate_says_the_price_of_a_large_table_once_for_all_its_studies(run, spec, tmp_path, monkeypatch):
    from tune_vfl.data import loading
    from tune_vfl.service import estimates

    rows = [f"{k % 7},{k % 5},{k % 2}" for k in range(400)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,y", *rows]) + "\n")
    monkeypatch.setattr(loading, "LARGE", 400)
    timed, pace = [], estimates.seconds_per_epoch
    monkeypatch.setattr(estimates, "seconds_per_epoch", lambda *a: timed.append(a) or pace(*a))
    dataset = {"name": "csv", "path": str(tmp_path / "t.csv"), "label": "y"}
    asked = {"defense": ["laplace", "iso"], "budget": {"trials": 8, "seeds": 1}}
    code, out, _ = run("validate", spec(dataset=dataset, **asked), "--json")
    (priced,) = {note for s in json.loads(out)["studies"] for note in s["data"]["notes"] if "400 rows: about" in note}
    assert (code, len(timed)) == (0, 1)
    assert "s an epoch on one core" in priced
    assert "GiB or more in each worker" in priced
    assert "dataset.rows" in priced
    _, out, _ = run("validate", spec(dataset={**dataset, "rows": 100}, **asked), "--json")
    assert not any("an epoch" in note for s in json.loads(out)["studies"] for note in s["data"]["notes"])
    assert len(timed) == 1


def test_passes_over_the_rows_are_epochs_and_of_trees_rounds(run, spec):
    trees = {"dataset": {"name": "breast_cancer"}, "model": {"name": "secureboost", "trees": 4}, "attacks": ["default"]}
    asked = {**trees, "defense": "purity", "training": {}, "budget": {"trials": 2, "seeds": 2}}
    _, out, _ = run("validate", spec(**asked))
    assert "2 trials x 2 seeds x 4 rounds, and the baseline: 6 trainings, 24 rounds in all" in out
    assert "epochs in all" in run("validate", spec())[1]
    _, out, _ = run("validate", spec(**{**asked, "defense": ["purity", "laplace"]}))
    assert "4 rounds; auc" in out
    assert "the defense is not for a trees federation" in out


@pytest.fixture
def gone(tmp_path, monkeypatch):
    """Stand in a folder that is removed."""
    monkeypatch.delenv("TUNE_VFL_HOME")
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    return (tmp_path / "gone").rmdir


@pytest.mark.parametrize("verb", [*VERBS, "confirm", "study", "pull", "optuna"])
def test_a_removed_working_folder_is_said_by_every_verb(run, gone, verb):
    gone()
    for arguments in ([verb], [verb, "x"]):
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert err.startswith("tune-vfl: the working folder was removed: change to a folder that exists (cd)")
    assert run("--version")[0] == 0


@pytest.mark.parametrize("error", [FileNotFoundError(2, "No such file"), DataError("a.csv: no such file")])
def test_a_working_folder_that_is_removed_under_a_command_is_said(run, gone, monkeypatch, error):
    from tune_vfl.cli import catalog

    def removed():
        gone()
        raise error

    monkeypatch.setitem(catalog._KINDS, "models", removed)
    code, out, err = run("list", "models")
    assert (code, out) == (2, "")
    assert "the working folder was removed" in err
    assert "Traceback" not in err


def test_unexpected_errors_are_short_unless_asked(run, monkeypatch):
    from tune_vfl.cli import catalog

    def broken():
        raise ZeroDivisionError("deep inside")

    monkeypatch.setitem(catalog._KINDS, "models", broken)
    code, out, err = run("list", "models")
    assert (code, out) == (1, "")
    assert "deep inside" in err
    assert "Traceback" not in err
    monkeypatch.setenv("TUNE_VFL_DEBUG", "1")
    code, _, err = run("list", "models")
    assert code == 1
    assert "Traceback" in err


def test_a_closed_pipe_is_no_error():
    command = f"{sys.executable} -m tune_vfl.cli.main list defenses --json | head -c 10"
    ran = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in ran.stderr


def test_version(run):
    from tune_vfl import __version__

    assert run("--version")[:2] == (0, f"tune-vfl {__version__}\n")


def test_json_never_holds_nan():
    from tune_vfl.cli.output import emit_json

    with pytest.raises(ValueError, match="JSON"):
        emit_json({"x": float("nan")})


def test_a_table_shows_brackets_as_they_are(capsys):
    from tune_vfl.cli.output import emit_table

    emit_table(("a",), [["[bold]x[/bold] [32]"]])
    assert "[bold]x[/bold] [32]" in capsys.readouterr().out


def test_torchvision_imports_beside_any_build_of_torch():
    code = "from tune_vfl.machine.vision import import_torchvision as go; v = go(); print(v.models.resnet18, v is go())"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.rstrip().endswith("True")


def test_validate_masks_passwords(run, spec):
    code, out, _ = run("validate", spec(storage="postgresql://me:secret@db/tune", tracking="http://me:secret@ml:5000"))
    assert code == 0
    assert "secret" not in out
    assert "me@db/tune" in out


def test_ui_refuses_a_taken_port(run, home):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, out, err = run("ui", "--port", taken.getsockname()[1])
    assert (code, out) == (1, "")
    assert "is taken" in err
    assert not home.exists()


def test_evaluate_prints_a_table(run):
    code, out, _ = run(*EVALUATE, "--seeds", 1, "--set", "training.epochs=1")
    assert code == 0
    assert "norm" in out
    assert "leak_auc" in out
