"""The house rules of CONTRIBUTING.md: what may import what, how long files and functions are, what no line may hold."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tune_vfl.defenses.base import DEFENSES
from tune_vfl.search.spaces import load_space

ROOT = Path(__file__).parents[1]
SHIPPED = ("tune_vfl", "trainables", "reports")

# Floor by module, as CONTRIBUTING.md draws it. `tune_vfl` alone is the facade, which opens doors on every floor.
FLOORS = {
    0: "errors files raw_spec spec cell outcome registry runtime seeds vision",
    1: "data metrics models",
    2: "attacks config defenses evaluation granting measure protocol resolve scoring training",
    3: "reports search service testing tracking trainables",
    4: "cli",
}
FLOOR_OF = {name: floor for floor, names in FLOORS.items() for name in names.split()}
LONGEST_FILE = 300
LONGEST_FUNCTION = 60


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def modules(*packages: str) -> list[Path]:
    return sorted(p for package in packages for p in (ROOT / package).rglob("*.py"))


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def unit_of(parts: tuple[str, ...]) -> str | None:
    """Name the package or module on the map: ``search`` for tune_vfl.search.ledger; None for the facade and others."""
    if parts[0] in ("trainables", "reports"):
        return parts[0]
    return parts[1] if parts[0] == "tune_vfl" and len(parts) > 1 else None


def imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the full name of everything imported, inside of functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"line {node.lineno}: imports are absolute here"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def climbs(unit: str, tree: ast.Module) -> list[str]:
    """Return the imports of a module of ``unit`` that lead to a higher floor."""
    found = []
    for line, name in imported(tree):
        other = unit_of(tuple(name.split(".")))
        if other in FLOOR_OF and FLOOR_OF[other] > FLOOR_OF[unit]:
            found.append(f"line {line}: {unit} (floor {FLOOR_OF[unit]}) imports {name} (floor {FLOOR_OF[other]})")
    return found


def test_every_module_has_its_place_on_the_map() -> None:
    here = {unit_of(p.relative_to(ROOT).with_suffix("").parts) for p in modules(*SHIPPED)} - {None, "__init__"}
    assert here == set(FLOOR_OF)
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [name for name in FLOOR_OF if not re.search(rf"\b{name}(\.py|/)", text)] == []


@pytest.mark.parametrize("path", modules(*SHIPPED), ids=named)
def test_imports_stay_on_their_floor_or_go_down(path: Path) -> None:
    unit = unit_of(path.relative_to(ROOT).with_suffix("").parts)
    if unit in FLOOR_OF:
        assert climbs(unit, tree_of(path)) == []


def test_a_climbing_import_is_seen_wherever_it_hides() -> None:
    hidden = "def f():\n    from tune_vfl.search.ledger import Ledger\n"
    assert climbs("metrics", ast.parse(hidden)) == [
        "line 2: metrics (floor 1) imports tune_vfl.search.ledger.Ledger (floor 3)"
    ]
    assert climbs("protocol", ast.parse("from tune_vfl.models import layers\nimport trainables")) == [
        "line 2: protocol (floor 2) imports trainables (floor 3)"
    ]


def test_suites_for_tests_are_used_by_tests_only() -> None:
    users = {named(p) for p in modules(*SHIPPED) for _, name in imported(tree_of(p)) if "tune_vfl.testing" in name}
    assert {u for u in users if not u.startswith("tune_vfl/testing/")} == set()


@pytest.mark.parametrize("path", modules(*SHIPPED), ids=named)
def test_private_names_stay_in_their_package(path: Path) -> None:
    strangers = [
        f"line {line}: {name}"
        for line, name in imported(tree_of(path))
        if name.split(".")[0] in SHIPPED
        and re.search(r"\._(?!_)", name)
        and Path(*name.split("._")[0].split(".")) != path.relative_to(ROOT).parent
    ]
    assert strangers == []


@pytest.mark.parametrize("path", modules(*SHIPPED), ids=named)
def test_files_and_functions_are_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < LONGEST_FILE
    functions = [n for n in ast.walk(tree_of(path)) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    assert [f.name for f in functions if (f.end_lineno or f.lineno) - f.lineno >= LONGEST_FUNCTION] == []


@pytest.mark.parametrize("path", modules(*SHIPPED), ids=named)
def test_nothing_is_printed_or_left_for_later(path: Path) -> None:
    calls = [n for n in ast.walk(tree_of(path)) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    assert [c.lineno for c in calls if c.func.id in ("print", "breakpoint")] == []  # type: ignore[attr-defined]
    assert re.findall(r"\b(?:TODO|FIXME|XXX)\b", path.read_text(encoding="utf-8")) == []


def test_no_file_holds_a_path_of_the_machine_it_was_written_on() -> None:
    roots = "|".join(("work", "root", "farm", "tmp/venv"))  # joined, so that this line holds none itself
    machine = re.compile(rf"(?<![\w.~$}}]])/(?:{roots})/")
    texts = [p for s in ("*.py", "*.md", "*.yaml", "*.toml", "*.j2", "*.css", "*.js") for p in ROOT.rglob(s)]
    outside = {".git", ".venv", "build", "shared"}
    own = [p for p in texts if not outside & set(p.relative_to(ROOT).parts) and p != Path(__file__)]
    assert len(own) > 100
    found = {named(p): machine.findall(p.read_text(encoding="utf-8")) for p in own}
    assert {name: hits for name, hits in found.items() if hits} == {}


@pytest.mark.parametrize("name", DEFENSES.names())
@pytest.mark.parametrize("classes", [2, 10])
def test_the_defaults_of_a_defense_lie_in_its_range(name: str, classes: int) -> None:
    cls = DEFENSES[name]
    if cls.capabilities.classes == "binary" and classes > 2:
        pytest.skip(f"{name} is for two classes")
    space = load_space(name, num_classes=classes)
    defaults = cls.Params.model_validate(cls.completed({}, num_classes=classes)).model_dump()
    assert space.holds({k: defaults[k] for k in space.params})


@pytest.mark.parametrize("path", sorted((ROOT / "search_spaces").glob("*.yaml")), ids=named)
def test_every_search_space_belongs_to_a_defense(path: Path) -> None:
    assert path.stem in DEFENSES
