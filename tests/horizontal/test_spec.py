"""How a spec says that clients hold different rows."""

from typing import Any, get_args

import pytest

from tune_vfl.errors import SpecError
from tune_vfl.evaluation.federations.base import FEDERATIONS
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.spec import Cell, FederationName, parse
from tune_vfl.spec.federation import Federation

PLAIN = {"study": "s", "dataset": "digits", "defense": "none", "attacks": ["bmi"]}


def spec(**fields: Any) -> Any:
    return parse({**PLAIN, "federation": "horizontal", **fields})


def test_what_stands_beside_federation_belongs_to_it():
    beside = spec(clients=4, rounds=3, shards={"classes": 2})
    inside = parse({**PLAIN, "federation": {"name": "horizontal", "clients": 4, "rounds": 3, "shards": {"classes": 2}}})
    assert beside == inside
    assert beside.federation.shards.per_client == 2
    assert parse(beside.model_dump(exclude_unset=True)) == beside


def test_the_vertical_setting_has_no_clients():
    assert not parse(PLAIN).federation.horizontal
    with pytest.raises(SpecError, match="clients belong to federation: horizontal"):
        parse({**PLAIN, "clients": 3})
    assert Federation().model_dump() == {"name": "vertical"}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"clients": 0}, "federation.clients"),
        ({"participation": 0}, "federation.participation"),
        ({"local_epochs": 2, "local_steps": 3}, "local_epochs or local_steps, not both"),
        ({"shards": "by_hand"}, "federation.shards.name"),
        ({"shards": {"dirichlet": -1}}, "federation.shards.alpha"),
    ],
)
def test_what_cannot_be_is_refused(fields, says):
    with pytest.raises(SpecError, match=says):
        spec(**fields)


def test_rounds_and_epochs_follow_from_each_other():
    assert resolve(spec(rounds=7, local_epochs=3)).training.epochs == 21
    assert resolve(spec(rounds=7, local_steps=2)).training.epochs == 7
    by_epochs = resolve(spec(training={"epochs": 12}, local_epochs=4))
    assert (by_epochs.federation.rounds, by_epochs.training.epochs) == (3, 12)
    with pytest.raises(SpecError, match="both are given"):
        resolve(spec(rounds=7, training={"epochs": 12}))


def test_all_columns_are_at_every_client_and_the_cell_says_how_data_lie():
    cell = resolve(spec(clients=4))
    assert (cell.mode, cell.dataset.options["split"]) == ("label_only", 1.0)
    dumped = cell.model_dump(mode="json")
    assert Cell.model_validate(dumped).federation == cell.federation
    assert Cell.model_validate(dumped).model_dump(mode="json") == dumped
    with pytest.raises(SpecError, match="every client holds all columns"):
        resolve(spec(dataset={"name": "digits", "split": 0.5}))


def test_methods_of_the_other_setting_are_refused_with_those_that_are_for_this_one():
    with pytest.raises(SpecError, match=r"'marvell' is not for a horizontal federation; those that are: .*none"):
        resolve(spec(defense="marvell", dataset="breast_cancer"))
    with pytest.raises(SpecError, match="attack 'pmc' is not for a horizontal federation"):
        resolve(spec(attacks=["pmc"]))


def test_every_federation_that_a_spec_may_name_has_a_training():
    assert FEDERATIONS.names() == sorted(get_args(FederationName))
