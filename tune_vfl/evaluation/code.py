"""Digests of the source files that a study's numbers come from, by which other code of the same version is noticed."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import resolve_name
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_vfl.attacks.base import ATTACKS
from tune_vfl.data.base import DATASETS
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.evaluation.federations.base import FEDERATIONS
from tune_vfl.evaluation.grants.base import GRANTS
from tune_vfl.models.base import MODELS

if TYPE_CHECKING:
    from tune_vfl.spec.cell import Cell

MEASURING = frozenset(
    {"attacks", "data", "defenses", "evaluation", "horizontal", "kernels", "metrics", "models", "protocol"}
    | {"seeds", "statistics", "trees"}
)
"""The floors of this package whose files change numbers; of other packages every file may."""
_PACKAGE, _TRAINABLES, _LETTERS = "tune_vfl", "trainables", 12


def code_of(cell: Cell, trainable: type[Any]) -> dict[str, str]:
    """Return the digest of each source file that takes part in measuring a cell, by the name of its module.

    These are the trainable, the classes of the cell's names, the grants of its attacks, and what they import. Comments,
    docstrings and layout change no digest.

    Args:
        cell: of the study.
        trainable: runs in the workers.
    """
    attacks = [ATTACKS[attack.name] for attack in cell.attacks]
    grants = [GRANTS[name] for attack in attacks for name in sorted(attack.capabilities.sees)]
    classes = [DEFENSES[cell.defense], DATASETS[cell.dataset.name], MODELS[cell.model.name]]
    kind = FEDERATIONS[cell.federation.name]
    todo = [cls.__module__ for cls in (trainable, kind, *classes, *attacks, *grants)]
    packages = {_PACKAGE, _TRAINABLES, *(name.partition(".")[0] for name in todo)}
    seen: dict[str, str] = {}
    while todo:
        name = todo.pop()
        path = None if name in seen or name.partition(".")[0] not in packages else _source(name)
        if path is not None:
            seen[name], imported = _read(path, name)
            todo += imported
    return {name: digest for name, digest in sorted(seen.items()) if _measures(name)}


@cache
def bytes_of_code() -> str:
    """Return one digest of all files of the floors that measure, as they were when this process first asked."""
    root = Path(__file__).parents[1]
    files = (path for room in sorted(MEASURING) for path in (root / f"{room}.py", *(root / room).rglob("*")))
    whole = hashlib.sha256()
    for path in sorted(path for path in files if path.suffix in {".py", ".cpp", ".h"} and path.is_file()):
        whole.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return whole.hexdigest()[:_LETTERS]


def _measures(name: str) -> bool:
    top, _, rest = name.partition(".")
    return top != _PACKAGE or rest.partition(".")[0] in MEASURING


@cache
def _source(name: str) -> Path | None:
    """Return the source file of a module; None for a name that is none, such as that of a function in it."""
    top, _, rest = name.partition(".")
    loaded = sys.modules.get(top)
    if not getattr(loaded, "__file__", None) and not getattr(loaded, "__path__", None):  # such as a notebook's own
        return None
    places = list(getattr(loaded, "__path__", ())) or [Path(str(getattr(loaded, "__file__", ""))).parent]
    for place in places:
        path = Path(place, *rest.split(".")) if rest else Path(place)
        found = next((f for f in (path.with_suffix(".py"), path / "__init__.py") if f.is_file()), None)
        if found is not None:
            return found
    return Path(str(loaded.__file__)) if loaded is not None and not rest and getattr(loaded, "__file__", None) else None


@cache
def _read(path: Path, name: str) -> tuple[str, tuple[str, ...]]:
    """Return the digest of a module's file and the names that it imports, those for types alone left out."""
    if path.suffix != ".py":  # compiled, without its source
        return hashlib.sha256(path.read_bytes()).hexdigest()[:_LETTERS], ()
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    tree = ast.parse(path.read_bytes())
    whole = hashlib.sha256("\0".join(_shape(tree)).encode())
    if path.parent.name == "kernels":
        for other in sorted([*path.parent.glob("*.cpp"), *path.parent.glob("*.h")]):
            whole.update(other.read_bytes())
    return whole.hexdigest()[:_LETTERS], tuple(_imports(tree, package))


def _shape(node: Any) -> Iterator[str]:
    """Yield what a syntax tree consists of, the same in every version of Python that can read it."""
    if isinstance(node, ast.AST):
        yield type(node).__name__
        for name, value in ast.iter_fields(node):
            if value not in (None, []):
                yield name
                yield from _shape(_without_docstring(node, value) if name == "body" else value)
        yield ")"
    elif isinstance(node, list):
        for part in node:
            yield from _shape(part)
        yield "]"
    else:
        yield repr(node)


def _without_docstring(node: ast.AST, body: Any) -> Any:
    documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    first = body[0] if documented else None
    value = first.value if isinstance(first, ast.Expr) else None
    return body[1:] if isinstance(value, ast.Constant) and isinstance(value.value, str) else body


def _imports(tree: ast.AST, package: str) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield from (name for other in node.orelse for name in _imports(other, package))
        else:
            yield from _imports(node, package)
