"""YAML as version 1.2 defines it: names stay the text that stands in the file, no key is given twice."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import yaml
from yaml.resolver import Resolver

from tune_vfl.errors import SpecError, shortened
from tune_vfl.machine.plain_json import MOST_DIGITS
from tune_vfl.spec.not_yaml import not_yaml

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
# Where one reader takes a name for such a value, another may.
_MISTAKEN = frozenset({_INT, _FLOAT, _BOOL, _NULL, _TAG + "timestamp"})
_OLDER: Any = Resolver()
_SHOWN, _CUT = 3, 40
# An escape can write half of the pair that stands for one character elsewhere: no file, path or database takes it.
_HALF = re.compile("[\ud800-\udfff]")
# What is left of a path of Windows where its backslashes were read as escapes.
_WINDOWS = re.compile(r"[A-Za-z]:(?! )[^\n]*?[\x00-\x1f\x7f-\xa0\u2028\u2029]")

MOST_DEPTH = 50
"""How many lists and mappings may stand in one another, the keys that lead to a value included."""
MOST_ALIASED = 50_000
"""Characters that all aliases of a document may stand for together."""


class _LimitError(yaml.YAMLError):
    """What may be valid YAML, and is more than anybody writes."""

    def __init__(self, mark: Any, words: str) -> None:
        super().__init__(f"line {mark.line + 1}: {words}")


class _StrictLoader(yaml.SafeLoader):
    """PyYAML's safe loader with the core schema of YAML 1.2 in place of the types of YAML 1.1.

    An alias becomes a copy of what it names. So a document is a tree, no larger than its text and ``MOST_ALIASED``.

    Args:
        text: the document.
        depth: of the place that its value is for.
    """

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - as PyYAML declares it
    # Every other tag, !!timestamp and !!set among them, is refused by what stands under None.
    yaml_constructors = {  # noqa: RUF012
        tag: yaml.SafeLoader.yaml_constructors[tag] for tag in (_STR, _TAG + "seq", _TAG + "map", None)
    }

    def __init__(self, text: str, depth: int) -> None:
        super().__init__(text)
        self._depth, self._aliased = depth, 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        _refuse_deeper(self._depth, event)
        if isinstance(event, yaml.ScalarEvent) and (half := _HALF.search(event.value)):
            told = f"expected text, got {half[0]!a}, which is half of a character; write the character itself"
            raise _LimitError(event.start_mark, told)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return self._copied(node, event, self._depth) if isinstance(event, yaml.AliasEvent) else node

    def _copied(self, node: Any, alias: yaml.AliasEvent, depth: int) -> yaml.Node:
        _refuse_deeper(depth, alias)
        if node.end_mark is None:
            raise _LimitError(alias.start_mark, f"*{alias.anchor} stands inside of what it names; write a value there")
        self._aliased += 1 + len(node.value)
        if self._aliased > MOST_ALIASED:
            raise _LimitError(
                alias.start_mark,
                f"expected aliases that stand for at most {MOST_ALIASED:,} characters in all, got more with "
                f"*{alias.anchor}; write the values themselves",
            )
        value = node.value
        if isinstance(node, yaml.SequenceNode):
            value = [self._copied(entry, alias, depth + 1) for entry in value]
        elif isinstance(node, yaml.MappingNode):
            value = [tuple(self._copied(part, alias, depth + 1) for part in pair) for pair in value]
        form = node.style if isinstance(node, yaml.ScalarNode) else node.flow_style
        copy: yaml.Node = type(node)(node.tag, value, node.start_mark, node.end_mark, form)
        return copy

    def core_value(self, node: yaml.ScalarNode) -> int | float | bool | None:
        """Construct a number, a truth value or nothing."""
        text = str(node.value)
        kind = node.tag.removeprefix(_TAG)
        if not _PATTERNS[node.tag].match(text):  # which a tag that is written out may claim: `!!int x`
            raise _LimitError(node.start_mark, f"expected a value of the kind {kind}, got {text[:_CUT]!r}")
        if node.tag == _INT:
            if len(text) > MOST_DIGITS:
                told = f"expected a number of at most {MOST_DIGITS} digits, got {len(text):,}; a name is quoted"
                raise _LimitError(node.start_mark, told)
            return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
        if node.tag == _FLOAT:
            found = self.construct_yaml_float(node)
            if math.isinf(found) and "inf" not in text.lower():
                raise _LimitError(node.start_mark, f"expected a number below 1.8e308, got {text[:_CUT]}")
            return found
        return text.lower() == "true" if node.tag == _BOOL else None


def _refuse_deeper(depth: int, event: Any) -> None:
    if depth > MOST_DEPTH:
        raise _LimitError(
            event.start_mark, f"expected at most {MOST_DEPTH} lists and mappings in one another, got more"
        )


_PATTERNS = {tag: re.compile(rf"(?:{pattern})\Z") for tag, (pattern, _) in _CORE.items()}
for _tag, (_, _first) in _CORE.items():
    _StrictLoader.add_implicit_resolver(_tag, _PATTERNS[_tag], list(_first))
for _tag in (_INT, _FLOAT, _BOOL, _NULL):
    _StrictLoader.add_constructor(_tag, _StrictLoader.core_value)


def load_yaml(text: str, where: str, place: Sequence[str] = (), note: Callable[[str], None] | None = None) -> Any:
    """Parse a document.

    Keys are text. Under ``dataset``, and where a study or a column is named, so is a number that is not in its shortest
    form: ``1.10``, ``010`` and ``1e5`` are names there. In lists of a data set ``true`` and ``null`` are text, too.

    Args:
        text: the document.
        where: names it, for messages.
        place: the keys that lead to it in a spec.
        note: gets a sentence on names that other readers of YAML, also those of version 1.1, take for other values.

    Raises:
        SpecError: when it is no YAML, gives a key twice, holds half of a surrogate pair, or is larger than one of the
            limits above.
    """
    try:
        loader = _StrictLoader(text, len(place))
        node = loader.get_single_node()
        if node is None:
            return None
        names = _NameReader()
        names.settle(node, tuple(place))
        if names.problems:
            raise SpecError([f"{where}: {problem}" for problem in names.problems])
        if names.unquoted and note is not None:
            note(
                f"{where}: read as text, where other readers of YAML may see a number, a date, true or false: quote "
                f"{shortened(names.unquoted, _SHOWN)}"
            )
        return loader.construct_document(node)
    except _LimitError as error:
        raise SpecError(f"{where}: {error}") from error
    except yaml.YAMLError as error:
        raise SpecError(f"{where}: {not_yaml(text, error)}") from error


class _NameReader:
    """Makes names of a document text, and collects what is wrong with keys and names, and names to be quoted."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.unquoted: list[str] = []

    def settle(self, node: yaml.Node, place: tuple[str, ...]) -> None:
        if isinstance(node, yaml.ScalarNode):
            tag = node.tag
            if place and _is_name(node, place):
                node.tag = _STR
            if node.tag == _STR and _holds_name(place) and _may_be_mistaken(node, tag):
                self._quote(node, f"{place[-1]}: " if place[-1] else "")
            if node.style == '"' and _WINDOWS.match(node.value):
                told = "expected a path: in double quotes a backslash begins an escape; write it in single quotes"
                self.problems.append(f"line {node.start_mark.line + 1}: {told}, got {node.value!r}")
        elif isinstance(node, yaml.SequenceNode):
            for entry in node.value:
                self.settle(entry, (*place, ""))
        elif isinstance(node, yaml.MappingNode):
            self._settle_mapping(node, place)

    def _settle_mapping(self, node: yaml.MappingNode, place: tuple[str, ...]) -> None:
        lines: dict[str, int] = {}
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if isinstance(key, yaml.ScalarNode) and not key.tag.endswith(":merge"):
                tag, key.tag = key.tag, _STR
                plain_number = tag in (_INT, _FLOAT) and _shortest(name, whole=tag == _INT)
                if _holds_name((*place, "")) and _may_be_mistaken(key, tag) and not plain_number:
                    self._quote(key, "key ")
            if name in lines:
                told = f"is given twice, in line {lines[name]} and in line {line}; remove one"
                self.problems.append(f"key {name!r} {told}")
            lines[name] = line
            self.settle(value, (*place, name))

    def _quote(self, node: yaml.ScalarNode, before: str) -> None:
        name = json.dumps(str(node.value), ensure_ascii=False)
        self.unquoted.append(f"{before}{name} in line {node.start_mark.line + 1}")


def _may_be_mistaken(node: yaml.ScalarNode, tag: str) -> bool:
    """Return whether an unquoted scalar is no text to a reader of YAML 1.2, which gives it ``tag``, or of YAML 1.1."""
    older = _OLDER.resolve(yaml.ScalarNode, node.value, (True, False))
    return node.style is None and bool({tag, older} & _MISTAKEN)


def _holds_name(place: tuple[str, ...]) -> bool:
    """Return whether a name stands at a place: anywhere under ``dataset``, or where a study or a column is named."""
    inside = place[1:] if place[:1] == ("matrix",) else place
    return bool(inside) and inside[0] in _HOLD_NAMES and (inside[0] == "dataset" or inside[-1] in _NAMES)


def _is_name(node: yaml.ScalarNode, place: tuple[str, ...]) -> bool:
    if not _holds_name(place):
        return False
    if node.tag in (_BOOL, _NULL):
        return (place[-1] in _NAMES and node.tag == _BOOL) or (not place[-1] and bool(node.value))
    if node.tag in (_INT, _FLOAT):
        return place[-1] in _NAMES or not _shortest(str(node.value), whole=node.tag == _INT)
    return False


def _shortest(text: str, *, whole: bool) -> bool:
    """Whether a number is written as YAML is written by this program: without an exponent, without spare zeros."""
    if "e" in text:
        return False
    try:
        return text == (str(int(text)) if whole else repr(float(text)))
    except ValueError:  # .inf, 0x1f
        return False
