"""Each dangerous thing has one function in the shipped code, which decides; nothing goes past it."""

import ast
from functools import cache

import pytest

from benchmarks.house import ROOT, files, tree_of

# By file: what may be named nowhere else. A module is meant with all that is in it.
ALONE = {
    "tune_vfl/machine/children.py": (
        "subprocess multiprocessing pty os.system os.popen os.execv os.execve os.spawnv os.fork os.posix_spawn"
    ),
    "tune_vfl/machine/web.py": "http.client urllib.request requests httpx aiohttp urllib3 socket.AF_UNIX",
    "tune_vfl/ledger/database.py": "create_engine",
    "tune_vfl/tracking/store.py": "MlflowClient set_tracking_uri",
    "tune_vfl/machine/removing.py": "unlink rmtree rmdir os.remove os.removedirs",
    "tune_vfl/machine/streams.py": "sys.stderr.write",
}
# What is said before anything of this program is imported.
EXCEPT = {("tune_vfl/__main__.py", "sys.stderr.write")}


@cache
def names(tree: ast.AST) -> set[str]:
    """Every dotted name that a module imports or uses, from its end too: ``a.b.c`` is also ``b.c`` and ``c``."""
    found: set[str] = set()
    typed = {id(n) for node in ast.walk(tree) if is_for_types(node) for part in node.body for n in ast.walk(part)}  # type: ignore[attr-defined]
    for node in ast.walk(tree):
        if id(node) in typed:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {
                node.module,
                *(f"{node.module}.{alias.name}" for alias in node.names),
                *(a.name for a in node.names),
            }
        elif isinstance(node, ast.Attribute):
            parts = ast.unparse(node).split(".")
            found |= {".".join(parts[k:]) for k in range(len(parts))}
    return found


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def past(tree: ast.AST, alone: str) -> set[str]:
    return {word for name in names(tree) for word in alone.split() if name == word or name.startswith(f"{word}.")}


@pytest.mark.parametrize("place", ALONE)
def test_nothing_goes_past_the_one_function(place: str) -> None:
    trees = {str(path.relative_to(ROOT)): tree_of(path) for path in files()}
    found = {(name, word) for name, tree in trees.items() if name != place for word in past(tree, ALONE[place])}
    assert found - EXCEPT == set()
    assert past(trees[place], ALONE[place]), "it is still there"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("import subprocess", "children"),
        ("from subprocess import run", "children"),
        ("def f():\n    import os\n    os.execv('a', [])", "children"),
        ("import urllib.request as r\nr.urlopen('x')", "web"),
        ("from urllib.request import urlopen", "web"),
        ("import requests", "web"),
        ("import sqlalchemy\nsqlalchemy.create_engine('x')", "database"),
        ("import mlflow\nmlflow.MlflowClient()", "store"),
        ("from mlflow import MlflowClient", "store"),
        ("path.unlink()", "removing"),
        ("import shutil\nshutil.rmtree(p)", "removing"),
        ("map(Path.rmdir, p)", "removing"),
        ("import sys\nsys.stderr.write('x')", "streams"),
    ],
)
def test_every_way_past_it_is_seen(text: str, place: str) -> None:
    alone = next(words for name, words in ALONE.items() if name.endswith(f"/{place}.py"))
    assert past(ast.parse(text), alone)


def test_a_name_for_types_and_a_list_s_own_method_are_none() -> None:
    text = "if TYPE_CHECKING:\n    from mlflow import MlflowClient\nthings.remove(x)\nremove(path, below)"
    assert not any(past(ast.parse(text), words) for words in ALONE.values())
