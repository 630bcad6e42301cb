"""Options that data sets share, and the utility metric that follows from them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from tune_vfl.errors import SpecError
from tune_vfl.spec import Listed, Strict


def _text(value: Any) -> Any:
    # YAML reads the name of a column that is called 1 as a number, and true as a truth value.
    return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, (int, float)) else value


Column = Annotated[str, BeforeValidator(_text)]
ColumnList = Listed[Column]
MetricChoice = Literal["auto", "accuracy", "balanced_accuracy", "f1", "auc", "top5"]


class ByImportance(Strict):
    """Partition by importance: the passive side has a share of the columns' importance, not of their number."""

    importance: float = Field(gt=0, lt=1, description="the passive side's share of the importance of all columns")


def _split(value: Any) -> float | ByImportance:
    try:
        if isinstance(value, ByImportance):
            return value
        if isinstance(value, dict) and set(value) == {"importance"}:
            return ByImportance(importance=value["importance"])
        if not isinstance(value, bool) and 0 < float(value) <= 1:
            return float(value)
    except (TypeError, ValueError):
        pass
    raise ValueError(
        "expected a share of the columns, greater than 0 and less than or equal to 1, or {importance: SHARE}, a share "
        "of their importance between 0 and 1"
    )


SplitChoice = Annotated[float | ByImportance, BeforeValidator(_split)]


def share_in_order(split: float | ByImportance) -> float:
    """Return the share of columns to cut off in file order: all, if importance repartitions them afterwards."""
    return 1.0 if isinstance(split, ByImportance) else split


class MissingOptions(Strict):
    """Option of a user's own data: the texts that mean a missing value."""

    missing: ColumnList = Field((), description="texts that mean a missing value, beside the usual ones")


class PartyOptions(Strict):
    """Options of data sets whose columns are partitioned in file order.

    ``split`` divides columns between the parties. It has nothing to do with training and test rows, or with the mode.
    """

    split: SplitChoice = Field(
        0.5, description="share of the columns, in file order, that the passive side holds; or {importance: share}"
    )
    passive_parties: int = Field(1, ge=1, description="number of passive parties that divide that share")
    metric: MetricChoice = Field("auto", description="utility metric; auto: AUC, accuracy, top-5 above 50 classes")

    @property
    def share(self) -> float:
        """The share of the columns that is cut off in file order, in (0, 1]."""
        return share_in_order(self.split)


def choose_metric(asked: MetricChoice, num_classes: int) -> str:
    """Return the utility metric: the given one, else binary AUC, multi-class accuracy, top-5 above 50 classes.

    Raises:
        SpecError: for ``auc`` on more than two classes, or ``top5`` on at most five, where it is always 1.
    """
    if asked == "auto":
        return "auc" if num_classes == 2 else "accuracy" if num_classes <= 50 else "top5"
    if asked == "auc" and num_classes > 2:
        raise SpecError(f"dataset.metric: auc is for two classes and the data have {num_classes}; use accuracy or f1")
    if asked == "top5" and num_classes <= 5:
        raise SpecError(f"dataset.metric: top5 is always 1 with {num_classes} classes; use accuracy")
    return asked
