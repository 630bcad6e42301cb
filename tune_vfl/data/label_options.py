"""Options of a user's own labels and rows: which labels are which class, and how many rows are used."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from tune_vfl.data.options import Column, ColumnList, MissingOptions
from tune_vfl.spec import Strict


def _several(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(value)
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise ValueError("expected a label, or a list of labels")


Positive = Annotated[tuple[Column, ...] | str | int | float | bool | None, BeforeValidator(_several)]


class RowOptions(Strict):
    """Option of a data set whose rows may be sampled."""

    rows: int | None = Field(
        None, ge=4, description="use a stratified sample of so many rows, the same for every seed; none: all"
    )


class LabelOptions(MissingOptions, RowOptions):
    """Options of a user's own labels."""

    positive: Positive = Field(
        None,
        description="the positive one of two classes, by default the larger number or the later name; or a list of "
        "labels that are the positive class",
    )
    negative: ColumnList = Field(
        (), description="the labels that are the negative class; rows of others are left out; none: all others are"
    )
    classes: dict[Column, Column] = Field(
        {}, description="labels that count as another class: {label in the file: class}"
    )
    drop_unlabeled: bool = Field(False, description="leave out rows without a label, which are refused otherwise")

    @property
    def positives(self) -> tuple[str, ...]:
        """The labels that are the positive class where classes are grouped; empty where they are not."""
        if isinstance(self.positive, tuple):
            return self.positive
        return (str(self.positive),) if self.negative else ()

    @model_validator(mode="after")
    def _groups(self) -> LabelOptions:
        if self.negative and (self.positive is None or isinstance(self.positive, bool)):
            raise ValueError("negative goes with positive: list the labels of both classes")
        both = sorted({*self.positives} & {*self.negative})
        if both:
            raise ValueError(f"label {both[0]!r} is listed as positive and as negative; list it once")
        if self.positive == ():
            raise ValueError("positive is an empty list; list the labels that are the positive class")
        return self


class Threshold(Strict):
    """Two classes made of a number: rows above a bound are positive, all others negative."""

    column: Column
    above: float = Field(allow_inf_nan=False)
