"""Base classes of all parsed specs."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, model_validator

from tune_vfl.machine.passwords import password_of


def _names_passwords_alone(text: str) -> str:
    password_of(text)
    return text


Address = Annotated[str, AfterValidator(_names_passwords_alone)]
"""A path or URL in which ``${env:NAME}`` may stand in the place of a password, and nowhere else."""


class Strict(BaseModel):
    """A pydantic model that rejects unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ByName(BaseModel):
    """A pydantic model that may be written as just its name: ``pmc`` for ``{name: pmc}``."""

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value
