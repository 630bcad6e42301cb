"""Errors for fields at the top of a spec that belong into one of its sections."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from tune_vfl.spec.constraints import NAMES


def meant(path: Sequence[int | str], model: type[BaseModel] | None) -> str:
    """Return `` budget.seeds is meant?`` for ``seeds`` at the top of a spec; empty for a field of no section."""
    if model is None or len(path) != 1:
        return ""
    parts = {name: field.annotation for name, field in model.model_fields.items()}
    within = {k: a.model_fields for k, a in parts.items() if isinstance(a, type) and issubclass(a, BaseModel)}
    found = [f"{part}.{path[0]}" for part, fields in within.items() if path[0] in fields]
    found += [f"constraints.{path[0]}"] if "constraints" in parts and path[0] in NAMES else []
    return f" {' or '.join(found)} is meant?" if found else ""
