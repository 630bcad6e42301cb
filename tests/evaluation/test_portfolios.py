"""Portfolios: which attacks a name stands for, what stands beside them, and what the study's threat says of them."""

from __future__ import annotations

import pytest

from tests.helpers.cells import cells
from tune_vfl.attacks.base import ATTACKS
from tune_vfl.driver.planning import plan
from tune_vfl.errors import SpecError
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.evaluation.task import Task
from tune_vfl.spec import parse

cell_of = cells()


def names(cell):
    return [a.name for a in cell.attacks]


def test_a_spec_without_attacks_gets_every_passive_label_attack_that_fits():
    spec = {"study": "s", "dataset": "breast_cancer", "defense": "laplace"}
    assert names(resolve(parse(spec))) == names(cell_of("default"))
    usual = {"grad_cluster", "gradient_completion", "matched_filter", "pmc"}
    listed = {"direction", "norm", "spectral", *usual}
    assert set(names(cell_of("default"))) == listed, (
        "an attack joined or left `default`, by its `in_default`: list it here, and raise MEASURE in "
        "tune_vfl/spec/cell.py, since leakages before and after do not compare"
    )


def test_what_is_for_two_classes_or_another_architecture_is_left_out():
    assert set(names(cell_of("default", dataset="digits"))) == {
        "grad_cluster",
        "gradient_completion",
        "matched_filter",
        "pmc",
    }
    assert "direct" in names(cell_of("default", dataset="digits", settings=["model.top=none"]))


def test_what_only_a_defense_that_mixes_lets_a_party_know_is_read_under_it_alone():
    usual = {"grad_cluster", "gradient_completion", "matched_filter", "pmc"}
    for defense, more in (("none", set()), ("mixup", {"unmix"}), ("instahide", {"unmix"})):
        assert set(names(cell_of("default", dataset="digits", defense=defense))) == usual | more
    with pytest.raises(SpecError, match="'unmix' reads mixtures, which only instahide, mixup bring along, not laplace"):
        cell_of("unmix")


def test_no_portfolio_of_labels_has_an_oracle_and_default_shares_one_training():
    for portfolio in ("default", "thorough"):
        for name in names(cell_of(portfolio)):
            can = ATTACKS[name].capabilities
            assert (can.goal, can.who, can.oracle) == ("labels", "passive", False)
    assert not Task.open(cell_of("default")).acting
    assert {a.name for a in Task.open(cell_of("thorough")).acting} == {"active", "embedding_extension"}
    assert set(names(cell_of("default"))) < set(names(cell_of("thorough")))
    assert {ATTACKS[n].capabilities.goal for n in names(cell_of("default_features"))} == {"features"}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_attack_listed_by_itself_takes_its_place(order):
    listed = ["default", {"name": "pmc", "variants": ["head_only"]}]
    cell = cell_of(*(listed[i] for i in order))
    assert [a.options["variants"] for a in cell.attacks if a.name == "pmc"] == [("head_only",)]
    assert sorted(names(cell)) == sorted(names(cell_of("default")))


def test_a_portfolio_takes_no_options():
    with pytest.raises(SpecError, match=r"attacks.default: takes no options, got variants"):
        cell_of({"name": "default", "variants": ["logreg"]})


def test_a_matrix_takes_portfolios():
    raw = {"study": "m", "matrix": {"dataset": ["digits", "breast_cancer"], "defense": ["none", "marvell"]}}
    planned = plan({**raw, "attacks": ["default"], "budget": {"trials": 5}})
    assert [names(s.cell) for s in planned.studies if s.cell.dataset.name == "digits"] == [
        ["grad_cluster", "gradient_completion", "matched_filter", "pmc"]
    ]
    assert len(planned.studies) == 3
    assert [s.study for s in planned.skipped] == ["m-digits-marvell"]


def test_the_threat_says_how_much_every_attacker_knows():
    cell = cell_of("default", threat={"labels_per_class": 4, "hints": 3})
    assert cell.threat.labels_per_class == 4
    from tune_vfl.evaluation.grants.auxiliary import AuxiliaryLabels
    from tune_vfl.evaluation.training import untrained
    from tune_vfl.protocol.members import Pack

    task = Task.open(cell)
    run = untrained(task, Pack((0,), None))
    known = {a.name: AuxiliaryLabels().hand_out(a, run) for a in task.attacks if a.auxiliary_request() is not None}
    assert set(known) == {"grad_cluster", "gradient_completion", "matched_filter", "pmc"}
    assert {k: sorted(v.labels.tolist()) for k, v in known.items()} == dict.fromkeys(known, [0] * 4 + [1] * 4)


def test_noise_drawn_anew_is_averaged_over_half_of_the_epochs():
    settings = ["training.epochs=9"]
    noisy, quiet = (cell_of("norm", defense=d, settings=settings).attacks[0].options for d in ("laplace", "label_dp"))
    assert (noisy["average"], quiet["average"]) == (4, 0)
    assert cell_of({"name": "norm", "average": 2}, settings=settings).attacks[0].options["average"] == 2
