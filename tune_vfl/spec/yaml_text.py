"""YAML as version 1.2 defines it: names stay the text that stands in the file, no key is given twice."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from tune_vfl.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

_TAG = "tag:yaml.org,2002:"
_STR, _INT, _FLOAT, _BOOL, _NULL = (_TAG + kind for kind in ("str", "int", "float", "bool", "null"))
# The core schema of YAML 1.2: `no`, `on`, `1_000`, `1:30` and dates are text, `1e-3` is a number.
_CORE = {
    _BOOL: (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    _NULL: (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    _INT: (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    _FLOAT: (
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+.0123456789",
    ),
    _TAG + "merge": (r"<<", "<"),
}
# Fields whose value is one name, whatever it looks like.
_NAMES = frozenset({"study", "label", "id", "client", "column", "time", "group"})
_HOLD_NAMES = frozenset({"study", "dataset", "federation"})


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the core schema of YAML 1.2 in place of the types of YAML 1.1."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - as PyYAML declares it


def _whole(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node))
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


for _tag, (_pattern, _first) in _CORE.items():
    _Loader.add_implicit_resolver(_tag, re.compile(rf"(?:{_pattern})\Z"), list(_first))
_Loader.add_constructor(_INT, _whole)


def load_yaml(text: str, where: str, place: Sequence[str] = ()) -> Any:
    """Parse a document.

    Keys are text. Under ``dataset``, and where a study or a column is named, so is a number that is not in its shortest
    form: ``1.10``, ``010`` and ``1e5`` are names there. In lists of a data set ``true`` and ``null`` are text, too.

    Args:
        text: the document.
        where: names it, for messages.
        place: the keys that lead to it in a spec.

    Raises:
        SpecError: when it is no YAML, or gives a key twice.
    """
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        twice: list[str] = []
        _settle(node, tuple(place), twice, set())
        if twice:
            raise SpecError([f"{where}: {problem}" for problem in twice])
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        raise SpecError(f"{where}: is not valid YAML: {error}") from error
    finally:
        loader.dispose()


def _settle(node: yaml.Node, place: tuple[str, ...], twice: list[str], seen: set[int]) -> None:
    """Make names text, and collect keys that are given twice."""
    if id(node) in seen:  # an alias
        return
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode):
        if place and _is_name(node, place):
            node.tag = _STR
    elif isinstance(node, yaml.SequenceNode):
        for entry in node.value:
            _settle(entry, (*place, ""), twice, seen)
    elif isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if isinstance(key, yaml.ScalarNode) and not key.tag.endswith(":merge"):
                key.tag = _STR
            if name in lines:
                twice.append(f"key {name!r} is given twice, in line {lines[name]} and in line {line}; remove one")
            lines[name] = line
            _settle(value, (*place, name), twice, seen)


def _is_name(node: yaml.ScalarNode, place: tuple[str, ...]) -> bool:
    inside = place[1:] if place[0] == "matrix" else place
    if not inside or inside[0] not in _HOLD_NAMES or (inside[0] != "dataset" and inside[-1] not in _NAMES):
        return False
    if node.tag in (_BOOL, _NULL):
        return (inside[-1] in _NAMES and node.tag == _BOOL) or (not inside[-1] and bool(node.value))
    if node.tag in (_INT, _FLOAT):
        return inside[-1] in _NAMES or not _shortest(str(node.value), whole=node.tag == _INT)
    return False


def _shortest(text: str, *, whole: bool) -> bool:
    """Whether a number is written as YAML is written by this program: without an exponent, without spare zeros."""
    if "e" in text:
        return False
    try:
        return text == (str(int(text)) if whole else repr(float(text)))
    except ValueError:  # .inf, 0x1f
        return False
