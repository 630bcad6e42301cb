"""The problems of a spec as sentences: the field, what is wrong with it, and the nearest known name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError

from tune_vfl.errors import did_you_mean
from tune_vfl.spec.constraints import NAMES

# pydantic names the types of Python.
_EXPECTED = {"tuple_type": "expected a list", "list_type": "expected a list", "dict_type": "expected a mapping"}


def explain(error: ValidationError, model: type[BaseModel] | None = None) -> list[str]:
    """Return one sentence for each problem of a pydantic error; for an unknown field it names the nearest known one.

    A field's place leaves out the tags of unions, which are written ``<so>`` and stand in no file.
    """
    problems = []
    for item in error.errors(include_url=False):
        place = ".".join(str(key) for key in item["loc"] if not str(key).startswith("<"))
        if item["type"] == "extra_forbidden":
            known = _fields_at(model, item["loc"][:-1]) if model else []
            hint = _meant(item["loc"], model) or did_you_mean(str(item["loc"][-1]), known)
            problems.append(f"{place}: no such field.{hint}" + (f" Known: {', '.join(known)}." if known else ""))
        elif item["type"] == "missing":
            problems.append(f"{place}: is required and missing")
        elif item["type"] == "string_type" and item["input"] is None:
            problems.append(f'{place}: has no value; where null is a name, quote it: "null"')
        else:
            message = _EXPECTED.get(item["type"], item["msg"].removeprefix("Value error, "))
            message = message[0].lower() + message[1:]
            # A problem of the whole document has no place, and does not repeat the document.
            problems.append(f"{place}: {message}, got {item['input']!r}" if place else message)
    return problems


def _fields_at(model: type[BaseModel], path: Sequence[int | str]) -> list[str]:
    held: Any = model
    for key in path:
        held = _within(held, key)
    return list(held.model_fields) if _is_model(held) else []


def _within(annotation: Any, key: int | str) -> Any:
    """Return the annotation of what stands at a key: of a field, of a mapping's values, of a union's tagged member."""
    if _is_model(annotation):
        field = annotation.model_fields.get(str(key))
        return field.annotation if field else None
    inner = get_args(annotation)
    if get_origin(annotation) is dict:
        return inner[1]
    if get_origin(annotation) is Annotated:
        tagged = any(isinstance(mark, Tag) and mark.tag == key for mark in inner[1:])
        return inner[0] if tagged else _within(inner[0], key)
    return next((found for one in inner if (found := _within(one, key)) is not None), None)


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _meant(path: Sequence[int | str], model: type[BaseModel] | None) -> str:
    """Return `` budget.seeds is meant?`` for ``seeds`` at the top of a spec; empty for a field of no section."""
    if model is None or len(path) != 1:
        return ""
    parts = {name: field.annotation for name, field in model.model_fields.items()}
    within = {k: a.model_fields for k, a in parts.items() if isinstance(a, type) and issubclass(a, BaseModel)}
    found = [f"{part}.{path[0]}" for part, fields in within.items() if path[0] in fields]
    found += [f"constraints.{path[0]}"] if "constraints" in parts and path[0] in NAMES else []
    return f" {' or '.join(found)} is meant?" if found else ""
