"""What a search would refuse before its first training, for rows that are not there, is refused with the spec."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.test_split import made
from tests.helpers.refusals import refusal
from tune_vfl.data.split import auxiliary_rows, training_rows
from tune_vfl.driver.planning import plan
from tune_vfl.errors import DataError, SpecError
from tune_vfl.evaluation.resolving import open_task
from tune_vfl.spec import parse


def scarce(folder: Path, positives: int, rows: int = 200) -> dict[str, Any]:
    table = pd.DataFrame({"a": range(rows), "b": [k * 7 % 31 for k in range(rows)]})
    table.assign(y=[int(k < positives) for k in range(rows)]).to_csv(folder / "t.csv", index=False)
    return {"name": "csv", "path": str(folder / "t.csv"), "label": "y"}


def spec(dataset: object, **fields: Any) -> dict[str, Any]:
    return {"study": "s", "dataset": dataset, "defense": "laplace", "budget": {"trials": 2, "seeds": 2}, **fields}


def number_set(error: SpecError) -> tuple[str, int]:
    """Return the field and the number that a message says to set."""
    field, _, rest = error.problems[0].partition("; set ")[2].partition(" to ")
    return field, int(rest.split()[0])


@pytest.mark.parametrize("attacks", [["default"], ["pmc"], ["gradient_completion"], ["matched_filter"]])
def test_labels_that_attackers_know_must_be_there_and_the_number_that_is_said_is_enough(
    tmp_path: Path, attacks: list[str]
) -> None:
    dataset = scarce(tmp_path, positives=12)
    with pytest.raises(
        SpecError, match=r"threat.labels_per_class: .* 10 rows of each class, and class '1' has 8"
    ) as raised:
        plan(spec(dataset, attacks=attacks))
    assert number_set(raised.value) == ("threat.labels_per_class", 7)
    plan(spec(dataset, attacks=attacks, threat={"labels_per_class": 7}))
    with refusal("set threat.labels_per_class to 7 or less", error=SpecError):
        plan(spec(dataset, attacks=attacks, threat={"labels_per_class": 8}))


@pytest.mark.parametrize("option", [{"aux_per_class": 30}, {"aux_total": 60}])
def test_an_attack_with_a_number_of_its_own_is_named(tmp_path: Path, option: dict[str, int]) -> None:
    dataset = scarce(tmp_path, positives=12)
    with pytest.raises(SpecError, match="must stay unlabeled") as raised:
        plan(spec(dataset, attacks=[{"name": "pmc", **option}]))
    field, most = number_set(raised.value)
    assert field == f"attacks.pmc.{next(iter(option))}"
    plan(spec(dataset, attacks=[{"name": "pmc", next(iter(option)): most}]))


def test_a_study_whose_attackers_know_no_label_needs_none(tmp_path: Path) -> None:
    plan(spec(scarce(tmp_path, positives=4), attacks=["norm"]))


def test_a_portfolio_is_not_shortened_where_labels_are_few(tmp_path: Path) -> None:
    """Without its strongest attacks a study would find no leakage, and say nothing of why."""
    with pytest.raises(SpecError, match="labels_per_class"):
        plan(spec(scarce(tmp_path, positives=12), attacks=["default"], defense=["laplace", "gaussian"]))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(4, 40), min_size=2, max_size=3), st.integers(1, 30))
def test_what_is_refused_is_what_cannot_be_drawn(counts: list[int], each: int) -> None:
    data = made(counts)
    raw = spec("breast_cancer", attacks=["pmc"], threat={"labels_per_class": each}, model={"name": "mlp"})
    y = data.y[training_rows(data, 0)]
    try:
        auxiliary_rows(y, per_class=each, seed=0)
        drawn = True
    except DataError:
        drawn = False
    with nullcontext() if drawn else refusal("threat.labels_per_class", error=SpecError):
        open_task(parse(raw), dataset=data)


@pytest.mark.parametrize(
    ("federation", "said"),
    [
        ({"name": "horizontal", "clients": 500}, "lower federation.clients"),
        ({"name": "horizontal", "clients": 100, "shards": {"classes": 9}}, "federation.shards.classes"),
        ({"name": "horizontal", "clients": 150, "shards": {"dirichlet": 0.01}}, "raise federation.shards.dirichlet"),
    ],
)
def test_clients_must_have_rows(federation: dict[str, Any], said: str) -> None:
    with refusal(said, error=SpecError):
        plan(spec("breast_cancer", defense="none", attacks=["default_features"], federation=federation))


@pytest.mark.parametrize(
    ("constraints", "said"),
    [
        ({"leakage": 20}, "constraints.leakage: expected a number from 0 to 1, got 20; 20% is 0.2"),
        ({"utility": 95}, "constraints.utility: expected a number from 0 to 1, got 95; 95% is 0.95"),
        ({"utility": -0.1}, "expected a number from 0 to 1, got -0.1"),
        ({"utility_loss": 5}, "constraints.utility_loss: expected a number from -1 to 1, got 5; 5% is 0.05"),
        ({"cost": -1}, "constraints.cost: expected a number of 0 or more, got -1"),
        ({"attacks.norm.advantage": 50}, "got 50; 50% is 0.5"),
        ({"attacks.pmc.success": 0.6}, "constraints.attacks.pmc.success: attack 'pmc' is not run"),
        ({"attacks.nrm.success": 0.6}, "Did you mean 'norm'? Run: norm."),
    ],
)
@pytest.mark.parametrize("defense", ["laplace", ["laplace", "gaussian"]])
def test_constraints_that_no_setting_or_every_one_keeps(constraints: dict[str, float], said: str, defense: Any) -> None:
    with refusal(said, error=SpecError):
        plan(spec("breast_cancer", defense=defense, attacks=["norm"], constraints=constraints))


@pytest.mark.parametrize("constraints", [{"leakage": 0}, {"leakage": 1}, {"utility": 1}, {"utility_loss": -0.02},
                                         {"cost": 3.5}, {"attacks.norm.success": 0.6}])  # fmt: skip
def test_bounds_that_can_be_kept_and_missed(constraints: dict[str, float]) -> None:
    study = plan(spec("breast_cancer", attacks=["norm"], constraints=constraints)).studies[0]
    assert study.spec.constraints == constraints


SMALL = {"dataset": "breast_cancer", "defense": "none"}
CLIENTS = {**SMALL, "federation": {"name": "horizontal", "clients": 26}}
SHORT = {
    "rows that a decoder learns from": (
        lambda folder: {"dataset": scarce(folder, 20, rows=60), "attacks": ["bmi"]},
        (
            "attacks.bmi: knows 7 rows and needs 10: there are 42 rows to train on, and it reconstructs 21 others; set "
            "attacks.bmi.aux to 10"
        ),
        {"attacks": [{"name": "bmi", "aux": 10}]},
    ),
    "rows that are not there": (
        lambda folder: {"dataset": scarce(folder, 12, rows=24), "attacks": [{"name": "bmi", "aux": 10}]},
        "add rows, or lower attacks.bmi.rows",
        {"attacks": [{"name": "bmi", "aux": 10, "rows": 4}]},
    ),
    "rows that a client's surrogate learns from": (
        lambda _: {**CLIENTS, "attacks": [{"name": "bgi", "surrogates": ["trained"]}]},
        "attacks.bgi: knows 2 rows and needs 10: a client has 15 rows to train on",
        {"attacks": [{"name": "bgi", "surrogates": ["fresh"]}]},
    ),
    "a batch of a client": (
        lambda _: {**CLIENTS, "attacks": [{"name": "wgi", "rows": 8, "batch": 8}]},
        (
            "attacks.wgi: the 7 rows to reconstruct make no batch of 8: a client has 15 rows to train on, and half of "
            "them may be; set attacks.wgi.batch to 7 or less, or lower federation.clients"
        ),
        {"attacks": [{"name": "wgi", "rows": 8, "batch": 7}]},
    ),
    "a top model to guess": (
        lambda _: {**SMALL, "attacks": [{"name": "bli", "variants": ["head"]}], "model": {"top": "none"}},
        "attack 'bli': head does not fit this model",
        {"attacks": [{"name": "bli", "variants": ["sum"]}]},
    ),
    "embeddings that are added up": (
        lambda _: {**SMALL, "attacks": [{"name": "bli", "variants": ["sum"]}]},
        "attack 'bli': sum does not fit this model",
        {"attacks": ["bli"]},
    ),
}


@pytest.mark.parametrize("case", SHORT)
def test_an_attack_that_would_end_its_first_trial_is_refused_and_what_is_advised_is_enough(
    tmp_path: Path, case: str
) -> None:
    fields, said, mend = SHORT[case]
    raw = spec(**{**SMALL, **fields(tmp_path)})
    with refusal(said, error=SpecError):
        plan(raw)
    plan({**raw, **mend})
