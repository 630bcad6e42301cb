"""Base classes of all parsed specs."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator


class Strict(BaseModel):
    """A pydantic model that rejects unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ByName(BaseModel):
    """A pydantic model that may be written as just its name: ``pmc`` for ``{name: pmc}``."""

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value
