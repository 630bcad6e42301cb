"""The registry fails loudly."""

import pytest

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


def test_every_error_that_a_person_can_cause_ends_with_code_2() -> None:
    for cls in (SpecError, UsageError, ShapeError, UnwritableError, ConfigError, SelectionError, DataError, StudyError):
        assert issubclass(cls, TuneVflError)
        assert cls.exit_code == 2
        assert cls is SpecError or not issubclass(cls, SpecError), "a mistake elsewhere is no mistake in a spec"
    assert UnreachableError.exit_code == 4
    assert TuneVflError.exit_code == 1
