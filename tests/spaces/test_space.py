"""Search spaces: what the files say, what a spec may write out, and what the defenses' own parameters refuse."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tune_vfl.defenses.base import DEFENSES
from tune_vfl.errors import SpecError
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.spaces.named import load_space, named_spaces, space_files, space_of, space_problems
from tune_vfl.spaces.space import Dimension, fitted, parse_space, point_key
from tune_vfl.spec import parse


@pytest.mark.parametrize(("defense", "name"), [(d, name) for d in space_files() for name in named_spaces(d)])
@pytest.mark.parametrize("classes", [2, 10])
def test_every_file_holds_with_its_defense(defense, name, classes):
    space = load_space(defense, name, num_classes=classes)
    cls = DEFENSES[defense]
    assert set(space.params) <= set(cls.Params.model_fields)
    for published in space.published:
        assert space.holds(published.params)
        assert cls.Params.model_validate(published.params)
    for point in space.grid(8):
        assert space.holds(point)
        assert cls.Params.model_validate(point)


def test_clients_search_the_horizontal_space_where_there_is_one():
    def of(name, space="default", **fields):
        spec = parse({"study": "s", "dataset": "digits", "attacks": ["bmi"], "defense": name, **fields})
        asked = spec.defense.model_copy(update={"space": space})
        return space_of(spec.model_copy(update={"defense": asked}), resolve(spec))

    assert of("gradient_compression", federation="horizontal") == named_spaces("gradient_compression")["horizontal"]
    assert of("gradient_compression").params == named_spaces("gradient_compression")["default"].params
    assert of("sparsification", federation="horizontal").params == named_spaces("sparsification")["default"].params
    assert of("fedadob", federation="horizontal").params["mean_range"].bounds == (1, 200)
    assert of("fedadob", "lenet", federation="horizontal").params["mean_range"].bounds == (1, 50)
    splitfed = of("splitfed", federation="horizontal")
    assert splitfed.points() == [p.params for p in splitfed.published] == [{"version": "v1"}, {"version": "v2"}]
    written = {"drop": {"float": [0.9, 0.99]}}
    assert of("sparsification", written, federation="horizontal").params["drop"].bounds == (0.9, 0.99)


def test_a_horizontal_study_is_checked_by_its_own_space(monkeypatch):
    bodies = {"default": {"keep": {"float": [0.1, 1]}}, "horizontal": {"kept": {"float": [0, 1]}}}
    broken = {name: parse_space(body, name) for name, body in bodies.items()}
    monkeypatch.setattr("tune_vfl.spaces.named.named_spaces", lambda defense: broken)
    raw = {"study": "s", "dataset": "digits", "attacks": ["bmi"], "defense": "gradient_compression"}
    assert not space_problems(parse(raw))
    (problem,) = space_problems(parse({**raw, "federation": "horizontal"}))
    assert "defense.space.kept" in problem


@pytest.mark.parametrize("defense", DEFENSES.names())
def test_every_defense_has_a_file(defense):
    assert defense in space_files(), f"write search_spaces/{defense}.yaml (CONTRIBUTING.md has one)"


@pytest.mark.parametrize("defense", space_files())
def test_every_range_and_every_published_setting_names_its_source(defense):
    for space in named_spaces(defense).values():
        told = f"search_spaces/{defense}.yaml: name the paper, with its table or figure, in the `source` of"
        unnamed = [name for name, domain in space.params.items() if not domain.source]
        assert not unnamed, f"{told} {unnamed}"
        without = [p.params for p in space.published if not p.source]
        assert not without, f"{told} {without}"


@pytest.mark.parametrize("defense", ["none", "max_norm"])
def test_without_parameters_there_is_one_point(defense):
    space = load_space(defense, num_classes=2)
    assert space.size == 1
    assert space.points() == [{}] == space.grid(10)


def test_k_stops_at_the_number_of_classes():
    assert load_space("kdk", num_classes=4).params["k"].bounds == (2, 4)
    assert load_space("kdk", num_classes=100).params["k"].bounds == (2, 10)
    binary = load_space("kdk", num_classes=2)
    assert binary.params["k"].size == 1
    assert [p.params["k"] for p in binary.published] == [2]
    assert {p["k"] for p in binary.grid(1)} == {2}


def test_a_fixed_parameter_is_no_dimension_and_keeps_the_published_settings_that_agree():
    space = load_space("kdk", fixed={"k": 5}, num_classes=10)
    assert set(space.params) == {"epsilon", "anchor"}
    assert [p.params["epsilon"] for p in space.published] == [0.7, 0.75, 0.85]


def test_a_written_out_space():
    space = load_space("kdk", {"k": {"int": [2, 5]}, "epsilon": {"float": [0.1, 0.9]}}, num_classes=10)
    assert set(space.params) == {"k", "epsilon"}
    assert math.isinf(space.size)
    assert not space.published


def test_all_problems_at_once_with_the_nearest_name():
    with pytest.raises(SpecError) as caught:
        load_space("kdk", {"epsilonn": {"float": [0.1, 0.5]}, "k": {"int": [0, 5]}}, num_classes=10)
    text = str(caught.value)
    assert "'epsilon'" in text
    assert "defense.space.k" in text
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    ("dimension", "words"),
    [
        ({}, "exactly one"),
        ({"float": [0, 1], "int": [0, 1]}, "exactly one"),
        ({"float": [1, 0]}, "low <= high"),
        ({"float": [0, float("inf")]}, "finite"),
        ({"float": [0, 1], "log": True}, "above 0"),
        ({"choice": []}, "at least 1"),
        ({"floot": [0, 1]}, "floot"),
    ],
)
def test_a_broken_dimension_is_refused_with_its_place(dimension, words):
    with pytest.raises(SpecError, match=r"defense\.space\.scale") as caught:
        parse_space({"scale": dimension}, "defense.space")
    assert words in str(caught.value)


def test_an_unknown_named_space_names_the_known_ones():
    with pytest.raises(SpecError, match="default"):
        load_space("laplace", "defalt", num_classes=2)


def test_more_classes_needed_than_there_are():
    raw = parse_space({"k": {"int": [5, 9], "at_most": "classes"}}, "defense.space")
    with pytest.raises(SpecError, match="4 classes"):
        fitted(raw, {}, 4)


@given(
    low=st.floats(1e-6, 1.0), width=st.floats(0, 10.0), log=st.booleans(), count=st.integers(1, 12), whole=st.booleans()
)
def test_levels_lie_inside_and_are_distinct(low, width, log, count, whole):
    bounds = (max(1, round(low)), max(1, round(low)) + round(width)) if whole else (low, low + width)
    dimension = Dimension.model_validate({"int" if whole else "float": bounds, "log": log})
    levels = dimension.levels(count)
    assert levels
    assert all(dimension.holds(v) for v in levels)
    if whole:
        assert len(set(levels)) == len(levels)


@given(trials=st.integers(1, 60))
def test_the_grid_has_enough_points(trials):
    space = parse_space({"a": {"float": [0, 1]}, "b": {"int": [1, 3]}, "c": {"choice": ["x", "y"]}}, "space")
    points = space.grid(trials)
    assert len(points) >= trials
    assert len({point_key(p) for p in points}) == len(points)


def test_point_keys_tell_numbers_from_booleans_and_texts():
    assert point_key({"a": 1, "b": 2.0}) == point_key({"b": 2, "a": 1.0})
    keys = {point_key({"a": v}) for v in (1, True, "1", None)}
    assert len(keys) == 4
