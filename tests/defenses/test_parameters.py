"""How a defense reads its parameters: by a getter or a name, alone and in a pack, and those that may be left out."""

import math
from pathlib import Path
from typing import get_args, get_origin

import pytest
import torch
import yaml
from pydantic import Field, ValidationError

from tune_vfl.defenses.base import DEFENSES, Defense
from tune_vfl.spec import Strict


class ShakeParams(Strict):
    scale: float = Field(1.0, description="how much")
    rounds: int = Field(3, description="how often")
    clip: float | None = Field(None, description="how long at most")


class Shake(Defense[ShakeParams]):
    name, Params = "shake", ShakeParams


def made(params):
    return Shake(params, num_classes=2, embedding_dims=[4])


def test_a_getter_and_a_name_read_the_same():
    alone, pack = made(ShakeParams(scale=0.5)), made([ShakeParams(scale=0.5), ShakeParams(scale=2.0, rounds=1)])
    assert alone.number(lambda p: p.scale) == alone.number("scale") == 0.5
    assert pack.values(lambda p: p.rounds) == pack.values("rounds") == [3.0, 1.0]
    assert torch.equal(pack.number(lambda p: p.rounds, dims=1), torch.tensor([[3.0], [1.0]]))
    assert pack.number(lambda p: p.scale).shape == (2, 1, 1)


def test_a_column_is_made_once():
    pack = made([ShakeParams(scale=0.5), ShakeParams(scale=2.0)])
    assert pack.number(lambda p: p.scale) is pack.number("scale") is pack.number(lambda p: p.scale)
    assert pack.number("scale", dims=1).shape == (2, 1)


def test_what_is_left_out_is_none():
    assert made(ShakeParams()).optional_number(lambda p: p.clip) is None
    assert made([ShakeParams()] * 2).optional_number(lambda p: p.clip) is None
    assert made(ShakeParams(clip=0.5)).optional_number(lambda p: p.clip) == 0.5
    pack = made([ShakeParams(clip=0.5), ShakeParams(clip=4.0)])
    assert torch.equal(pack.optional_number(lambda p: p.clip, dims=1), torch.tensor([[0.5], [4.0]]))


def declared(cls):
    """The parameters that a class names in its bases, ``Defense[LaplaceParams]``; None where it names none."""
    for base in getattr(cls, "__orig_bases__", ()):
        if isinstance(origin := get_origin(base), type) and issubclass(origin, Defense):
            return next((a for a in get_args(base) if isinstance(a, type)), None)
    return None


@pytest.mark.parametrize("name", DEFENSES.names())
def test_the_parameters_that_a_type_checker_sees_are_those_that_are_built(name):
    said = [found for cls in DEFENSES[name].__mro__ if (found := declared(cls)) is not None]
    # A subclass may narrow its base's parameters, never replace them.
    wrong = f"{name}: in `class Name(Defense[NameParams])` and `Params = NameParams` write the same class"
    assert all(issubclass(DEFENSES[name].Params, params) for params in said), wrong
    assert said or not DEFENSES[name].Params.model_fields, wrong


OF_OUR_OWN = {"gafm_marvell", "grad_perturb"}  # defaults that join two papers' settings, or that nobody published


@pytest.mark.parametrize("name", sorted(set(DEFENSES.names()) - OF_OUR_OWN))
def test_defaults_are_a_published_setting_where_there_is_any(name):
    file = Path(__file__).parents[2] / f"search_spaces/{name}.yaml"
    spaces = yaml.safe_load(file.read_text(encoding="utf-8")) if file.exists() else {}
    published = [entry["params"] for space in spaces.values() for entry in space.get("published", ())]
    defaults = DEFENSES[name].Params().model_dump()
    assert not published or any(setting.items() <= defaults.items() for setting in published), (
        f"{name}: no setting under `published` in search_spaces/{name}.yaml has the defaults of the class; give the "
        "parameters the values of one, or list the defense in OF_OUR_OWN"
    )


NUMBERS = [
    (name, field)
    for name in DEFENSES.names()
    for field, info in DEFENSES[name].Params.model_fields.items()
    if info.annotation in (float, float | None)
]


def refused(name, field, value):
    try:
        DEFENSES[name].Params(**{field: value})
    except ValidationError as error:
        return [problem["loc"][0] for problem in error.errors()] == [field]
    return False


@pytest.mark.parametrize(("name", "field"), NUMBERS)
def test_no_number_of_a_defense_is_infinite_or_missing(name, field):
    for bad in (math.inf, math.nan):
        assert refused(name, field, bad), f"{name}: {field} may be {bad}; give its Field bounds, or allow_inf_nan=False"


@pytest.mark.parametrize(
    ("name", "field", "taken", "refused"),
    [
        ("marvell", "budget", (0, 1000), (-0.01, 1000.1)),
        ("gafm", "delta", (0, 0.5), (-0.01, 0.51)),
        ("gafm", "gamma", (0, 1e9), (-0.01,)),
        ("gafm", "sigma", (0, 1e9), (-0.01,)),
        ("gafm", "clip", (1e-9, 1e9), (0,)),
        ("gafm", "lr", (1e-9, 1e9), (0,)),
        ("gafm", "hidden", (1, 1000), (0,)),
        ("kdk", "k", (2, 1000), (1,)),
        ("kdk", "epsilon", (0, 0.999), (-0.01, 1)),
        ("kdk", "teacher_lr", (1e-9, 1e9), (0,)),
        ("kdk", "teacher_epochs", (1, 1000), (0,)),
        ("kdk", "teacher_batch_size", (1, 10_000), (0,)),
    ],
)
def test_where_a_parameter_ends(name, field, taken, refused):
    for value in taken:
        assert getattr(DEFENSES[name].Params(**{field: value}), field) == value
    for value in refused:
        with pytest.raises(ValidationError, match=field):
            DEFENSES[name].Params(**{field: value})
