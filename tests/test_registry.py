"""The registry fails loudly."""

import sys
from pathlib import Path

import pytest

from tune_vfl.attacks.base import ATTACKS
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.driver.planning import plan
from tune_vfl.errors import (
    ConfigError,
    DataError,
    SelectionError,
    ShapeError,
    SpecError,
    StudyError,
    TuneVflError,
    UnknownNameError,
    UnreachableError,
    UnwritableError,
    UsageError,
)
from tune_vfl.evaluation.attempts import OutOfTimeError
from tune_vfl.machine.signals import Interrupted
from tune_vfl.registry import Registry


class Thing:
    name: str


def test_collision_raises() -> None:
    registry: Registry[Thing] = Registry("thing", "tune_vfl.metrics")
    registry.register("a")(type("One", (Thing,), {}))
    with pytest.raises(TuneVflError, match="registered twice"):
        registry.register("a")(type("Two", (Thing,), {}))


def test_unknown_name_answers_with_the_known_and_the_nearest() -> None:
    registry: Registry[Thing] = Registry("thing", "tune_vfl.metrics")
    registry.register("marvell")(type("One", (Thing,), {}))
    with pytest.raises(UnknownNameError, match=r"unknown thing 'marvel'\. Did you mean 'marvell'\? Known: marvell\."):
        registry["marvel"]
    assert "marvell" in registry
    assert "nothing" not in registry


@pytest.mark.parametrize("name", ["gradient_em", "gradient_em_known"])
def test_an_attack_that_left_is_answered_with_what_stands_in_its_place(name: str) -> None:
    with pytest.raises(SpecError, match=f"attack '{name}' left in 0.2.0; matched_filter stands in its place"):
        ATTACKS[name]
    with pytest.raises(SpecError, match=f"attack '{name}' left in 0.2.0"):
        plan({"study": "s", "dataset": "breast_cancer", "defense": "laplace", "attacks": [name, "norm"]})
    assert name not in ATTACKS
    assert "matched_filter" in ATTACKS
    with pytest.raises(UnknownNameError, match="unknown defense"):
        DEFENSES[name]


def test_registered_class_knows_its_name() -> None:
    registry: Registry[Thing] = Registry("thing", "tune_vfl.metrics")
    cls = registry.register("b")(type("One", (Thing,), {}))
    assert cls.name == "b"
    assert list(registry) == ["b"]


def test_loading_that_was_cut_short_goes_on_at_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    registry: Registry[Thing] = Registry("thing", "tune_vfl.metrics")
    registry.register("a")(type("One", (Thing,), {}))

    def interrupted(_name: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("tune_vfl.registry.importlib.import_module", interrupted)
        for _ in range(2):  # a registry that took itself for loaded would answer the second time
            with pytest.raises(KeyboardInterrupt):
                registry.names()
    assert registry.names() == ["a"]


THINGS: Registry[Thing] = Registry("thing", "tune_vfl.metrics")
"""What the plug-ins of these tests register with."""


@pytest.fixture
def plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a package of one module, ``odd_things``, and its entry point where Python finds them."""
    info = tmp_path / "odd_things-2.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-things\nVersion: 2.1\n")
    (info / "entry_points.txt").write_text("[tune_vfl.things]\nodd = odd_things\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "odd_things", raising=False)
    monkeypatch.setattr("tests.test_registry.THINGS", Registry("thing", "tune_vfl.metrics"))
    return tmp_path


REGISTERED = """
from tests.test_registry import THINGS, Thing
@THINGS.register("a")
class One(Thing): ...
"""

BROKEN = {
    "an end of the process": ("import sys; sys.exit(0)", "SystemExit: 0"),
    "an error": ("raise RuntimeError('boom')", "RuntimeError: boom"),
    "an error that is no Exception": ("raise BaseException('odd')", "BaseException: odd"),
    "an error whose text is an error": (
        "class Odd(Exception):\n    def __str__(self): raise ValueError('odder')\nraise Odd",
        "odd_things.Odd: <exception str() failed>",
    ),
    "an error whose text ends the process": (
        "import sys\nclass Odd(Exception):\n    def __str__(self): sys.exit(0)\nraise Odd",
        "odd_things.Odd: <exception str() failed>",
    ),
    "no Python": ("def (", "SyntaxError"),
    "a name that is taken": (
        f"{REGISTERED}\n@THINGS.register('a')\nclass Two(Thing): ...",
        "'a' is registered twice",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_plug_in_that_cannot_be_loaded_is_named(plug_in: Path, case: str) -> None:
    code, said = BROKEN[case]
    (plug_in / "odd_things.py").write_text(code)
    for _ in range(2):  # nor does a second look take the rest for all there is
        with pytest.raises(UsageError) as error:
            THINGS.names()
        assert str(error.value).startswith(
            "the plug-in 'odd = odd_things' (entry point tune_vfl.things) of package odd-things 2.1 cannot be loaded: "
        )
        assert said in str(error.value)
        assert "uninstall" in str(error.value)


@pytest.mark.parametrize("value", ["nowhere.at_all", "odd_things:Gone", "no name!"])
def test_an_entry_point_that_names_nothing_is_named(plug_in: Path, value: str) -> None:
    (plug_in / "odd_things.py").touch()
    (plug_in / "odd_things-2.1.dist-info" / "entry_points.txt").write_text(f"[tune_vfl.things]\nodd = {value}\n")
    with pytest.raises(UsageError, match=rf"plug-in 'odd = {value}' .*of package odd-things 2\.1 cannot be loaded"):
        THINGS.names()


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), Interrupted(15), OutOfTimeError()])
def test_a_signal_or_a_clock_during_an_import_is_not_taken_for_the_plug_in(
    plug_in: Path, monkeypatch: pytest.MonkeyPatch, raised: BaseException
) -> None:
    (plug_in / "odd_things.py").write_text(f"{REGISTERED}\nimport tests.test_registry as t\nt.fire()")

    def fire() -> None:
        raise raised

    monkeypatch.setattr("tests.test_registry.fire", fire, raising=False)
    with pytest.raises(type(raised)):
        THINGS.names()
    monkeypatch.setattr("tests.test_registry.fire", lambda: None)
    assert THINGS.names() == ["a"]  # the same definition once more


def test_a_plug_in_does_not_take_the_place_of_a_class_by_being_called_as_it(plug_in: Path) -> None:
    (plug_in / "odd_things.py").write_text(REGISTERED)
    taken = THINGS.register("a")(type("One", (Thing,), {}))
    with pytest.raises(UsageError, match=r"'a' is registered twice: by tests\.test_registry and by odd_things"):
        THINGS.names()
    assert THINGS._known == {"a": taken}


def test_every_error_that_a_person_can_cause_ends_with_code_2() -> None:
    for cls in (SpecError, UsageError, ShapeError, UnwritableError, ConfigError, SelectionError, DataError, StudyError):
        assert issubclass(cls, TuneVflError)
        assert cls.exit_code == 2
        assert cls is SpecError or not issubclass(cls, SpecError), "a mistake elsewhere is no mistake in a spec"
    assert UnreachableError.exit_code == 4
    assert TuneVflError.exit_code == 1
