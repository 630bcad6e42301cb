"""The house rules of CONTRIBUTING.md: what may import what, how long files and functions are, what no line may hold."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from benchmarks.house import (
    ROOT,
    SHIPPED,
    circles,
    file_arrows,
    files,
    imported,
    module_of,
    nodes_of,
    one_caller_helpers,
    room_arrows,
    room_of,
    small_files,
    tree_of,
    twice_named,
    upward,
)
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.spaces.named import load_space

SHIPPED_FILES = files()
LONGEST_FILE = 300
LONGEST_FUNCTION = 60
# Of today, and each may only fall: lower the number with what is taken away.
ONE_CALLER_HELPERS = 294
SMALL_FILES = 19
NAMES_OF_SEVERAL_CLASSES = 5


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def floors() -> dict[str, int]:
    """Read the drawing of CONTRIBUTING.md: each room's floor, the lowest is 0."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## The house")[2]
    lines = text.split("```")[1].strip().splitlines()
    names = [re.findall(r"(\w+)(?:/|\.py)", re.split(r"\s{3,}", line)[0]) for line in lines]
    assert all(names)
    return {name: floor for floor, line in enumerate(reversed(names)) for name in line}


def strays(room: str, tree: ast.Module) -> list[str]:
    """Return the imports of a module of ``room`` that lead to a room that is not below it."""
    found = []
    for line, name in imported(tree):
        other = room_of(name)
        known = name.split(".")[0] in SHIPPED and other in floors() and other != room
        if known and floors()[str(other)] >= floors()[room]:
            found.append(f"line {line}: {room} (floor {floors()[room]}) imports {name} (floor {floors()[str(other)]})")
    return found


def test_the_drawing_holds_every_room_and_no_other() -> None:
    assert set(floors()) == {room for p in SHIPPED_FILES if (room := room_of(module_of(p)))}


def test_a_climbing_import_is_seen_wherever_it_hides() -> None:
    hidden = "def f():\n    from tune_vfl.ledger.ledger import Ledger\n"
    high, low = floors()["ledger"], floors()["metrics"]
    assert strays("metrics", ast.parse(hidden)) == [
        f"line 2: metrics (floor {low}) imports tune_vfl.ledger.ledger.Ledger (floor {high})"
    ]
    assert strays("protocol", ast.parse("from tune_vfl.models import layers\nimport trainables")) == [
        f"line 2: protocol (floor {floors()['protocol']}) imports trainables (floor {floors()['trainables']})"
    ]


def test_no_files_and_no_rooms_import_each_other_in_a_circle() -> None:
    arrows = file_arrows()
    assert circles(arrows) == []
    assert circles(room_arrows(arrows)) == []
    assert upward(room_arrows(arrows)) == 0


def test_circles_are_seen() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert upward({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == 1


def test_suites_for_tests_are_used_by_tests_only() -> None:
    users = {named(p) for p in SHIPPED_FILES for _, name in imported(tree_of(p)) if "tune_vfl.testing" in name}
    assert {u for u in users if not u.startswith("tune_vfl/testing/")} == set()


def test_no_helper_small_file_or_second_class_of_a_name_comes_in() -> None:
    assert len(one_caller_helpers()) <= ONE_CALLER_HELPERS, "a helper has two callers or a name that says more"
    assert len(small_files()) <= SMALL_FILES, f"put what it defines where it is used: {small_files()}"
    assert len(twice_named()) <= NAMES_OF_SEVERAL_CLASSES, f"name a class by what it is in its room: {twice_named()}"


ONE_OF_EACH = """
class _A:
    pass

def _of(x):
    return _twice(_twice(x))

def _twice(x):
    return 2 * x

y = _of(1)
"""


def test_helpers_small_files_and_second_classes_are_seen(tmp_path: Path) -> None:
    folder = tmp_path / "tune_vfl" / "room"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text(ONE_OF_EACH, encoding="utf-8")
    (folder / "b.py").write_text("class A:\n    pass\n", encoding="utf-8")
    assert one_caller_helpers(tmp_path) == ["tune_vfl.room.a._of"]
    assert small_files(tmp_path) == ["tune_vfl/room/b.py"]
    assert twice_named(tmp_path) == {"A": ["tune_vfl.room.a", "tune_vfl.room.b"]}


def private_names(path: Path) -> list[str]:
    """Return the imports of private names from other packages than the file's own."""
    return [
        f"line {line} imports {name}, which is private to its package"
        for line, name in imported(tree_of(path))
        if name.split(".")[0] in SHIPPED
        and re.search(r"\._(?!_)", name)
        and Path(*name.split("._")[0].split(".")) != path.relative_to(ROOT).parent
    ]


def long_parts(path: Path) -> list[str]:
    """Return the file and its functions where they are too long."""
    lines = len(path.read_text(encoding="utf-8").splitlines())
    file = [f"the file has {lines} lines: put a part of its own into a file beside it"] * (lines >= LONGEST_FILE)
    functions = [n for n in nodes_of(tree_of(path)) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    sizes = [(f.name, (f.end_lineno or f.lineno) - f.lineno) for f in functions]
    return file + [f"{name} has {size + 1} lines" for name, size in sizes if size >= LONGEST_FUNCTION]


def left_behind(path: Path) -> list[str]:
    """Return the calls that print or stop in a debugger, and the notes of what is left to do."""
    calls = [n for n in nodes_of(tree_of(path)) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    printed = [f"line {c.lineno} calls {c.func.id}" for c in calls if c.func.id in ("print", "breakpoint")]  # type: ignore[attr-defined]
    return printed + re.findall(r"\b(?:TODO|FIXME|XXX)\b", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", SHIPPED_FILES, ids=named)
def test_a_file_keeps_the_rules(path: Path) -> None:
    room = room_of(module_of(path))
    upward_imports = [] if room is None else strays(room, tree_of(path))
    assert [*upward_imports, *private_names(path), *long_parts(path), *left_behind(path)] == []


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
    searched = {k: defaults[k] for k in space.params}
    assert space.holds(searched), f"search_spaces/{name}.yaml: the ranges leave out the defaults, {searched}"


@pytest.mark.parametrize("path", sorted((ROOT / "search_spaces").glob("*.yaml")), ids=named)
def test_every_search_space_belongs_to_a_defense(path: Path) -> None:
    assert path.stem in DEFENSES, f"no @defense({path.stem!r}): name the file as the defense, or remove it"
