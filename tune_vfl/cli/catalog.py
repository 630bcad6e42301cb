"""``tune-vfl list``: data sets, models, defenses, attacks and samplers, with capabilities and references."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tune_vfl.cli.options import Json
from tune_vfl.cli.output import emit_json, emit_table
from tune_vfl.errors import UnknownNameError

if TYPE_CHECKING:
    from pydantic import BaseModel

SCHEMA = "tune-vfl/list/1"
Entry = dict[str, Any]


def list_kind(
    kind: Annotated[str, typer.Argument(help="datasets, models, defenses, attacks, spaces or samplers.")],
    json: Json = False,
) -> None:
    """List datasets, models, defenses, attacks, spaces or samplers.

    Example: `tune-vfl list defenses`
    """
    if kind not in _KINDS:
        raise UnknownNameError("kind", kind, _KINDS)
    entries = _KINDS[kind]()
    if json:
        emit_json({"schema": SCHEMA, "kind": kind, "items": entries})
        return
    columns = _COLUMNS[kind]
    cells = ([entry.get(column) for column in columns] for entry in entries)
    emit_table(columns, [[", ".join(map(str, v)) if isinstance(v, list) else v for v in row] for row in cells])


def _fields(model: type[BaseModel]) -> Entry:
    """Return the options of a registered thing by name: type, default, description and limits, as JSON schema."""
    schema = model.model_json_schema()
    required = set(schema.get("required", ()))
    return {
        name: {**{k: v for k, v in field.items() if k != "title"}, "required": name in required}
        for name, field in schema.get("properties", {}).items()
        if not model.model_fields[name].exclude
    }


def _registered(module: str, registry: str) -> list[Entry]:
    """Return what a registry has: names, abilities, and what can be set."""
    known, entries = getattr(import_module(module), registry), []
    for name in known:
        cls = known[name]
        can = getattr(cls, "capabilities", None)
        able = {f.name: getattr(can, f.name) for f in dataclasses.fields(can)} if can else {}
        able |= {key: getattr(cls, key) for key in ("modalities", "stackable") if hasattr(cls, key)}
        plain = {
            k: sorted(v) if isinstance(v, frozenset) else [*v] if isinstance(v, tuple) else v for k, v in able.items()
        }
        entry = {"name": name, **plain, "summary": cls.summary, "reference": cls.reference}
        for options, short, full in (("Params", "params", "parameters"), ("Options", "options", "fields")):
            if hasattr(cls, options):
                entry[full] = _fields(getattr(cls, options))
                entry[short] = list(entry[full])
        entries.append(entry)
    return entries


def _spaces() -> list[Entry]:
    from tune_vfl.spaces.named import named_spaces, space_files

    def one(defense: str, name: str, space: Any) -> Entry:
        dimensions = {
            k: d.model_dump(mode="json", by_alias=True, exclude_defaults=True) for k, d in space.params.items()
        }
        size = None if math.isinf(space.size) else int(space.size)
        named = {"name": f"{defense}/{name}", "defense": defense, "space": name}
        return {
            **named,
            "searches": [f"{k} {_range(d)}" for k, d in dimensions.items()],
            "published": len(space.published),
            "size": size,
            "parameters": dimensions,
            "published_settings": [p.model_dump(mode="json") for p in space.published],
        }

    return [one(defense, name, space) for defense in space_files() for name, space in named_spaces(defense).items()]


def _range(dimension: Entry) -> str:
    for kind in ("float", "int"):
        if kind in dimension:
            low, high = dimension[kind]
            return f"{low:g}..{high:g}{' log' if dimension.get('log') else ''}"
    return "{" + ", ".join(str(v) for v in dimension["choice"]) + "}"


_KINDS: dict[str, Callable[[], list[Entry]]] = {
    "datasets": lambda: _registered("tune_vfl.data.base", "DATASETS"),
    "models": lambda: _registered("tune_vfl.models.base", "MODELS"),
    "defenses": lambda: _registered("tune_vfl.defenses.base", "DEFENSES"),
    "attacks": lambda: _registered("tune_vfl.attacks.base", "ATTACKS"),
    "spaces": _spaces,
    "samplers": lambda: _registered("tune_vfl.samplers.base", "SAMPLERS"),
}
_COLUMNS = {
    "datasets": ("name", "summary", "options", "reference"),
    "models": ("name", "modalities", "stackable", "options", "summary", "reference"),
    "defenses": ("name", "classes", "modes", "run_by", "protects", "stackable", "params", "summary", "reference"),
    "attacks": ("name", "classes", "modes", "who", "oracle", "sees", "params", "summary", "reference"),
    "spaces": ("name", "searches", "published", "size"),
    "samplers": ("name", "summary", "reference"),
}
