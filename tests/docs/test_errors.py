"""docs/errors.md has a part for every class of error that the command line shows, with its exit code, and no other."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.house import files, module_of
from tune_vfl.errors import InputError, TuneVflError

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
PARTS = {part.partition("\n")[0]: part for part in PAGE.split("\n## ")[1:]}
NEVER_SHOWN = {"InputError", "NotBuiltError"}  # a base alone; caught beside where it is raised


def subclasses(of: type[TuneVflError]) -> Iterator[type[TuneVflError]]:
    for cls in of.__subclasses__():
        yield cls
        yield from subclasses(cls)


def shown() -> dict[str, type[TuneVflError]]:
    """The classes of errors of the code that the command line shows, by name."""
    for path in files():
        if re.search(r"^class \w+Error\(", path.read_text(encoding="utf-8"), re.MULTILINE):
            importlib.import_module(module_of(path))
    found = {cls.__name__: cls for cls in (TuneVflError, *subclasses(TuneVflError))}
    return {k: v for k, v in found.items() if v.__module__.startswith("tune_vfl.") and k not in NEVER_SHOWN}


def test_every_error_has_its_own_part_of_the_page() -> None:
    anchors = {name: vars(cls).get("anchor") for name, cls in shown().items()}
    assert {name: anchor in PARTS for name, anchor in anchors.items()} == dict.fromkeys(anchors, True)
    assert set(PARTS) == {*anchors.values(), "unexpected"}
    assert len(PARTS) == len(anchors) + 1, "two errors share a part"


def test_a_part_names_the_class_and_its_exit_code() -> None:
    for name, cls in shown().items():
        told = re.search(rf"\(`{name}`, (?:exit code )?(\d)\)", PARTS[cls.anchor])
        assert told is not None, f"docs/errors.md#{cls.anchor}: name the class and its exit code: (`{name}`, ...)"
        assert int(told[1]) == cls.exit_code, name


def test_the_exit_codes_of_the_page_are_those_of_the_classes() -> None:
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    assert {cls.exit_code for cls in shown().values()} < codes
    assert InputError.exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "anchor"),
    [
        (["validate", "nothing.yaml"], "invalid-spec"),
        (["status", "nothing"], "study"),
        (["study", "unpack", "nothing"], "packed-study"),
        (["validate"], "usage"),
    ],
)
def test_a_refusal_ends_with_its_address(
    arguments: list[str], anchor: str, home: Path, run: Callable[..., tuple[int, str, str]]
) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert err.splitlines()[-1] == f"  see docs/errors.md#{anchor}"


def test_an_unexpected_error_has_an_address(
    run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tune_vfl.cli.main.app", lambda **_: 1 / 0)
    code, _, err = run("studies")
    assert (code, err.splitlines()[-1]) == (1, "  see docs/errors.md#unexpected")
