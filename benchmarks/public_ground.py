"""Find where the shipped code uses what a dependency does not document: private names, patched modules, foreign tables.

    python -m benchmarks.public_ground [CHECKOUT]     # each use by file, and how many there are

Read from the syntax trees, so a use that is put together while the program runs is not seen. Documented or not cannot
be read off a name without a leading underscore: of those the lists below hold what this program once used.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.house import ROOT, files, nodes_of, tree_of


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


BESIDE = ("examples", "search_spaces")  # read too, beside what is shipped
DEPENDENCIES = _words(
    "torch torchvision ray optuna mlflow transformers moocore numpy scipy pandas pyarrow sklearn pydantic typer "
    "click rich yaml matplotlib plotly jinja2 filelock safetensors sqlalchemy psycopg grpc psutil boto3"
)

# Modules, and attributes of objects, that their library keeps for itself although no underscore says so.
HIDDEN_MODULES = _words(
    "mlflow.store mlflow.utils optuna.storages.rdb ray.air.execution ray.dashboard ray.experimental.internal_kv "
    "ray.scripts ray.tune.execution"
)
HIDDEN_ATTRIBUTES = {"temporary_state", "run_metadata"}
# Variables that Ray's documentation names.
RAY_VARIABLES = _words(
    "RAY_ADDRESS RAY_API_SERVER_ADDRESS RAY_AUTH_MODE RAY_AUTH_TOKEN RAY_AUTH_TOKEN_PATH RAY_USAGE_STATS_ENABLED "
    "RAY_DEDUP_LOGS RAY_AIR_NEW_OUTPUT RAY_JOB_ID RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO RAY_memory_usage_threshold "
    "RAY_memory_monitor_refresh_ms RAY_OVERRIDE_JOB_RUNTIME_ENV"
)
# Methods of named tuples, and an argument of ray.init, which are documented in spite of their underscore.
DOCUMENTED = {"_replace", "_asdict", "_fields", "_make", "_temp_dir"}

_PRIVATE = re.compile(r"_(?!_)\w+")
_MODULE = re.compile(r"[A-Za-z]\w*(\.\w+)+")
_SQL = re.compile(
    r"\s*(SELECT|DELETE|INSERT|UPDATE|ALTER)\b.*\b(FROM|INTO|UPDATE|TABLE) "
    r"(experiments|runs|tags|params|metrics|latest_metrics|version_info|alembic_version|trial_\w+|study_\w+_attributes)\b"
)
_COLLECTOR = {"freeze", "unfreeze", "disable", "enable", "collect", "set_threshold"}


class Use(NamedTuple):
    """One place that leans on something undocumented."""

    line: int
    name: str


def uses(tree: ast.Module, own: frozenset[str] = frozenset()) -> list[Use]:
    """Return each use in a file.

    Args:
        tree: of the file.
        own: private names that the program's classes have; others on ``self`` come from a library's class.
    """
    here, foreign = _defined(tree), _imported_names(tree)
    docstrings = {id(n.value) for n in nodes_of(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
    found = {Use(line, name) for line, name in _imports(tree) if _is_hidden(name)}
    for node in nodes_of(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            found |= {Use(node.lineno, name) for name in _said(node.value)}
        elif isinstance(node, ast.Attribute):
            found |= {Use(node.lineno, name) for name in _reached(node, here, own, foreign)}
        elif isinstance(node, ast.Call):
            found |= {Use(node.lineno, name) for name in _called(node, here, foreign)}
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            found |= {Use(node.lineno, "sys.modules")} if ast.unparse(node.value) == "sys.modules" else set()
    return sorted(found)


def _is_hidden(module: str) -> bool:
    parts = module.split(".")
    return parts[0] in DEPENDENCIES and (
        any(_PRIVATE.fullmatch(part) for part in parts)
        or any(module == hidden or module.startswith(f"{hidden}.") for hidden in HIDDEN_MODULES)
    )


def _imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def _imported_names(tree: ast.Module) -> set[str]:
    """Return under which names a file knows something of a dependency."""
    known = set()
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            known |= {a.asname or a.name.split(".")[0] for a in node.names if a.name.split(".")[0] in DEPENDENCIES}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in DEPENDENCIES:
            known |= {alias.asname or alias.name for alias in node.names}
    return known


def _defined(tree: ast.Module) -> frozenset[str]:
    """Return the private names that a file gives to something itself."""
    names: set[str] = set()
    for node in nodes_of(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value):
            names.add(node.attr)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
    return frozenset(name for name in names if _PRIVATE.fullmatch(name))


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _root(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _dotted(node: ast.expr) -> str:
    """Return a name as it is written, ``a.b.c``; empty for any other expression."""
    if isinstance(node, ast.Attribute):
        return f"{before}.{node.attr}" if (before := _dotted(node.value)) else ""
    return node.id if isinstance(node, ast.Name) else ""


def _reached(node: ast.Attribute, here: frozenset[str], own: frozenset[str], foreign: set[str]) -> Iterator[str]:
    private = _PRIVATE.fullmatch(node.attr) and node.attr not in DOCUMENTED
    of_itself = _is_self(node.value) or (isinstance(node.value, ast.Call) and _dotted(node.value.func) == "super")
    known = here | own if of_itself else here
    if _dotted(node) == "os._exit" or (_root(node) == "gc" and node.attr in _COLLECTOR):
        yield _dotted(node)
    elif node.attr in HIDDEN_ATTRIBUTES or (private and (node.attr not in known or _root(node) in foreign)):
        yield node.attr
    elif not isinstance(node.ctx, ast.Load) and (_root(node) in foreign or node.attr == "__class__"):
        yield ast.unparse(node)


def _called(node: ast.Call, here: frozenset[str], foreign: set[str]) -> Iterator[str]:
    """Yield private arguments, and what changes a module or takes a wrapped function apart."""
    called = _dotted(node.func)
    yield from (k.arg for k in node.keywords if k.arg and _PRIVATE.fullmatch(k.arg) and k.arg not in here | DOCUMENTED)
    texts = [a.value if isinstance(a, ast.Constant) and isinstance(a.value, str) else "" for a in node.args]
    if called in ("unwrap", "inspect.unwrap", "sys.modules.pop", "sys.modules.setdefault"):
        yield called
    if called.endswith("find_spec") and texts and texts[0].split(".")[0] in DEPENDENCIES:
        yield f"find_spec({texts[0]})"
    if called in ("vars", "setattr", "delattr") and node.args and _root(node.args[0]) in foreign:
        yield f"{called}({ast.unparse(node.args[0])})"
    if called in ("getattr", "hasattr", "setattr") and len(texts) > 1 and _PRIVATE.fullmatch(texts[1]):
        yield from [texts[1]] if texts[1] not in here else []


def _said(text: str) -> Iterator[str]:
    """Yield what a string names: a module, a variable of Ray, a foreign table, what only an administrator touches."""
    if "\n" in text and "import " in text:
        try:  # a program for another process
            yield from (name for _, name in uses(ast.parse(text)))
        except SyntaxError:
            return
    if _MODULE.fullmatch(text) and _is_hidden(text):
        yield text
    if re.fullmatch(r"RAY_\w*[^\W_]", text) and text not in RAY_VARIABLES:
        yield text
    if _SQL.match(text):
        yield "SQL"
    if text in ("sudo", "tcp6") or text.startswith("mkfs"):
        yield text


def all_uses(root: Path = ROOT) -> dict[str, list[Use]]:
    """Return the uses in each file that has any, by its path."""
    paths = files(root) + sorted(p for folder in BESIDE for p in (root / folder).rglob("*.py"))
    trees = {str(path.relative_to(root)): tree_of(path) for path in paths}
    own = frozenset[str]().union(*(_defined(tree) for tree in trees.values()))
    found = {name: uses(tree, own) for name, tree in trees.items()}
    return {name: some for name, some in found.items() if some}


def main(root: Path) -> None:
    found = all_uses(root)
    for name, some in found.items():
        print(f"{name}: {', '.join(f'{use.line} {use.name}' for use in some)}")
    print(f"private uses {sum(map(len, found.values()))} in {len(found)} files")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else ROOT)
