"""Measure the structure of the code: rooms, arrows between them, circles, arrows that run up, sizes, repeated roles.

A room is a folder of ``tune_vfl``, a module beside those folders, or another shipped package; the doors
``tune_vfl/__init__.py`` belongs to none, because it opens on every floor. An arrow leads from a room to another one
that it imports, inside of functions and for type checking too.

    python -m benchmarks.house [CHECKOUT]
"""

from __future__ import annotations

import ast
import itertools
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHIPPED = ("tune_vfl", "trainables", "reports")
DRIVING = ("driver", "execution", "confirmation", "papers", "tracking", "trainables")
TELLING = ("analysis", "records", "ledger", "reports", "service", "cli", "cluster", "machine")
MIDDLE = (*DRIVING, *TELLING)  # floors between the methods and the command
FEW = 6  # lines of a helper's body
SMALL = 30  # a file with fewer lines is small

Graph = Mapping[str, set[str]]


@cache
def tree_of(path: Path) -> ast.Module:
    """Parse a file, once a process."""
    return ast.parse(path.read_text(encoding="utf-8"))


def files(root: Path = ROOT) -> list[Path]:
    """Return the shipped files of a checkout."""
    return sorted(p for package in SHIPPED for p in (root / package).rglob("*.py"))


def module_of(path: Path, root: Path = ROOT) -> str:
    """Return a file's module: ``tune_vfl.spec`` for its ``__init__.py``."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str | None:
    """Return a module's room: ``search`` for tune_vfl.driver.campaign_run; None for the door ``tune_vfl``."""
    package, _, rest = module.partition(".")
    return (rest.partition(".")[0] or None) if package == "tune_vfl" else package


@cache
def nodes_of(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Return all nodes of a file, walked once a process."""
    return tuple(ast.walk(tree))


def imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the full name of everything imported, inside of functions too."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError(f"line {node.lineno}: imports are absolute here")
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def file_arrows(root: Path = ROOT) -> dict[str, set[str]]:
    """Return, by module, the shipped modules that it imports."""
    known = {module_of(p, root): p for p in files(root)}

    def home(name: str) -> str | None:
        return name if name in known else (name.rpartition(".")[0] if name.rpartition(".")[0] in known else None)

    return {
        module: {h for _, name in imported(tree_of(path)) if (h := home(name)) and h != module}
        for module, path in known.items()
    }


def room_arrows(arrows: Graph) -> dict[str, set[str]]:
    """Return, by room, the rooms that it imports."""
    rooms: dict[str, set[str]] = defaultdict(set)
    for module, others in arrows.items():
        if (room := room_of(module)) is not None:
            rooms[room] |= {r for o in others if (r := room_of(o)) is not None and r != room}
    return dict(rooms)


def circles(arrows: Graph) -> list[list[str]]:
    """Return the groups of nodes that reach each other, each sorted (Tarjan's strongly connected components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in arrows.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                found.append(sorted(group))

    for node in arrows:
        if node not in index:
            visit(node)
    return sorted(found)


def upward(arrows: Graph) -> int:
    """Return how few arrows between rooms must be cut to leave none that runs up, whatever order is chosen."""
    total = 0
    for group in circles(arrows):
        inside = [(a, b) for a in group for b in arrows.get(a, ()) if b in group]
        orders = itertools.permutations(group) if len(group) <= 8 else [tuple(group)]
        total += min(sum(order.index(a) > order.index(b) for a, b in inside) for order in orders)
    return total


def lengths(root: Path = ROOT) -> tuple[list[int], list[int]]:
    """Return the lines of every file, and those of every function."""
    paths = files(root)
    functions = [
        (n.end_lineno or n.lineno) - n.lineno + 1
        for p in paths
        for n in ast.walk(tree_of(p))
        if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    return [len(p.read_text(encoding="utf-8").splitlines()) for p in paths], functions


def _spread(values: Iterable[int]) -> str:
    ordered = sorted(values)
    return f"{statistics.median(ordered):g} / {ordered[int(0.9 * len(ordered))]} / {ordered[-1]}"


def _lines(paths: Iterable[Path]) -> int:
    return sum(len(p.read_text(encoding="utf-8").splitlines()) for p in paths)


def middle(root: Path) -> list[Path]:
    """Return the files of the middle floors."""
    return [p for p in files(root) if room_of(module_of(p, root)) in MIDDLE]


def _is_text(node: ast.AST) -> bool:
    """Return whether a statement is a string alone: a docstring, of an attribute too."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def code_lines(path: Path) -> int:
    """Return the lines of a file that are neither blank, comments nor docstrings."""
    texts = [n for n in nodes_of(tree_of(path)) if _is_text(n)]
    documented = {k for n in texts if isinstance(n, ast.stmt) for k in range(n.lineno, (n.end_lineno or 0) + 1)}
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    return sum(k not in documented and line.strip() != "" and not line.strip().startswith("#") for k, line in lines)


def _names(path: Path) -> Counter[str]:
    """Return how often a file's code names each variable, attribute and argument."""
    names = (getattr(n, key, None) for n in nodes_of(tree_of(path)) for key in ("id", "attr", "arg"))
    return Counter(name for name in names if name is not None)


def _calls(path: Path) -> Counter[str]:
    """Return how often a file's code calls each function and method."""
    called = (n.func for n in nodes_of(tree_of(path)) if isinstance(n, ast.Call))
    return Counter(str(getattr(f, "id", None) or getattr(f, "attr", None)) for f in called)


def _with(root: Path, text: str) -> int:
    return sum(text in p.read_text(encoding="utf-8") for p in files(root))


def _attributes(root: Path, name: str) -> int:
    nodes = (n for p in files(root) for n in nodes_of(tree_of(p)))
    return sum(isinstance(n, ast.Attribute) and n.attr == name for n in nodes)


def _asks_for_one(node: ast.AST) -> bool:
    """Return whether an expression compares the number of studies, parts or data sets with 1."""
    if not isinstance(node, ast.Compare):
        return False
    left = ast.unparse(node.left)
    ends = ("studies)", "parts)", "datasets)")
    return left.startswith("len(") and left.endswith(ends) and ast.unparse(node.comparators[0]) == "1"


def twice_named(root: Path = ROOT) -> dict[str, list[str]]:
    """Return the names of classes that stand in several files, with the files; an underscore makes no other name."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in files(root):
        for name in {n.name.lstrip("_") for n in nodes_of(tree_of(path)) if isinstance(n, ast.ClassDef)}:
            places[name].append(module_of(path, root))
    return {name: modules for name, modules in sorted(places.items()) if len(modules) > 1}


def one_caller_helpers(root: Path = ROOT) -> list[str]:
    """Return the private functions of a few lines that one place calls and nothing else names, as ``module.name``."""
    result = []
    for path in files(root):
        names, calls = _names(path), _calls(path)
        for node in nodes_of(tree_of(path)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("_") and not node.decorator_list:
                body = node.body[_is_text(node.body[0]) :]
                few = len(body) > 0 and (body[-1].end_lineno or 0) - body[0].lineno < FEW
                if few and names[node.name] == calls[node.name] == 1:
                    result.append(f"{module_of(path, root)}.{node.name}")
    return result


def small_files(root: Path = ROOT) -> list[str]:
    """Return the files of few lines with at most one definition; what is imported from a folder may be small."""
    return [
        str(p.relative_to(root))
        for p in files(root)
        if p.name not in ("__init__.py", "__main__.py")
        and _lines([p]) < SMALL
        and sum(isinstance(n, (ast.FunctionDef, ast.ClassDef)) for n in tree_of(p).body) <= 1
    ]


COUNTS: Mapping[str, Callable[[Path], int]] = {
    "lines of the middle floors": lambda root: _lines(middle(root)),
    "their lines of code": lambda root: sum(map(code_lines, middle(root))),
    "their files": lambda root: len(middle(root)),
    "lines of the whole house": lambda root: _lines(files(root)),
    "lines of the tests": lambda root: _lines((root / "tests").rglob("*.py")),
    "callers of run_tune": lambda root: sum(_calls(p)["run_tune"] for p in files(root)),
    "readers of MAX_WORKER_LOSSES": lambda root: _with(root, "MAX_WORKER_LOSSES"),
    "files with utility_interval": lambda root: _with(root, "utility_interval"),
    'files with "utility":': lambda root: _with(root, '"utility":'),
    "questions whether there is one": lambda root: (
        _attributes(root, "lone") + sum(_asks_for_one(n) for p in files(root) for n in nodes_of(tree_of(p)))
    ),
    "questions .horizontal": lambda root: _attributes(root, "horizontal"),
    "class names in several files": lambda root: len(twice_named(root)),
    "identifier found": lambda root: sum(_names(p)["found"] for p in files(root)),
    "helpers with one caller": lambda root: len(one_caller_helpers(root)),
    "small files": lambda root: len(small_files(root)),
}


def main(root: Path) -> None:
    """Print the figures of a checkout."""
    from benchmarks.public_ground import all_uses  # which reads trees by this module

    arrows = file_arrows(root)
    rooms = room_arrows(arrows)
    loose = sorted(m for m in arrows if m.count(".") == 1 and (root / (m.replace(".", "/") + ".py")).exists())
    of_files, of_functions = lengths(root)
    print(f"rooms {len(rooms)}, of them single modules of tune_vfl {len([m for m in loose if 'tune_vfl' in m])}")
    print(f"arrows between rooms {sum(map(len, rooms.values()))}, upward {upward(rooms)}")
    print(f"circles of rooms {len(circles(rooms))}, circles of files {len(circles(arrows))}")
    for group in circles(arrows):
        print("  circle:", ", ".join(group))
    print(f"files {len(of_files)}, lines {sum(of_files)}, median / p90 / max {_spread(of_files)}")
    found = all_uses(root)
    print(f"private uses {sum(map(len, found.values()))} in {len(found)} files")
    print(f"functions {len(of_functions)}, lines median / p90 / max {_spread(of_functions)}")
    for name, count in COUNTS.items():
        print(f"{name} {count(root):,}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else ROOT)
