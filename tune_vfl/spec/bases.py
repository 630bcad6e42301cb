"""Base classes of all parsed specs."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, model_validator

from tune_vfl.machine.passwords import checked

Address = Annotated[str, AfterValidator(checked)]
"""A path or URL of a study file, a :class:`tune_vfl.machine.passwords.StudyUrl`."""


class Strict(BaseModel):
    """A pydantic model that rejects unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ByName(BaseModel):
    """A pydantic model that may be written as just its name: ``pmc`` for ``{name: pmc}``."""

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value
