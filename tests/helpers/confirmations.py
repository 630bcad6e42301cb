"""A made-up answer of a confirmation, for tests of what shows it, and the name of a point in one."""

from typing import Any

from tune_vfl.evaluation.checks import Check
from tune_vfl.records.answers import Confirmation, Line, PointName
from tune_vfl.records.confirmations import ConfirmedPoint, UndefendedModel
from tune_vfl.spec.cell import MEASURE


def knee_named(study: str, number: int) -> dict[str, PointName]:
    """Return the best compromise of an answer on breast_cancer."""
    return {"breast_cancer": PointName(study=study, number=number)}


def made_up_confirmation(name: str = "test-study", **fields: Any) -> Confirmation:
    """Of three points: one that stays, one that goes, one that was lost."""
    about: dict[str, Any] = {"study": name, "dataset": "breast_cancer", "defense": "laplace"}
    numbers: dict[str, Any] = {
        "utility": 0.91,
        "utility_interval": (0.9, 0.92),
        "leakage": 0.3,
        "leakage_interval": (0.2, 0.4),
    }
    point = {**about, **numbers, "seeds": 10, "on_front": True, "searched": {"utility": 0.93, "leakage": 0.25}}
    point |= {"leakage_upper_90": 0.38, "leakage_worst_seed": 0.35, "attack": "norm"}
    lost = {**about, "number": 12, "params": {"scale": 0.3}, "seeds": 1, "on_front": True, "outcome": "diverged"}
    of: dict[str, Any] = {"dataset": "breast_cancer", "studies": (name,) * 2, "leakage": (0.2, 0.3)}
    return Confirmation(
        schema="tune-vfl/confirmation/1",
        name=name,
        measure=MEASURE,
        seeds=tuple(range(1000, 1010)),
        points=(
            ConfirmedPoint(**point, number=10, params={"scale": 0.001}, stays=0.91, confirmed=True),
            ConfirmedPoint(**point, number=11, params={"scale": 0.002}, stays=0.12),
            ConfirmedPoint(**lost, reason="NaN", searched={"utility": 0.8, "leakage": 0.1}),
        ),
        baseline={"breast_cancer": UndefendedModel(seeds=20, **numbers)},
        lines=(Line(numbers=(10, 13), params={"scale": [0.001, 0.003]}, utility=(0.9, 0.91), **of),),
        checks=(Check(name="reserve", ok=False, says="no reserve: few rows: <the seeds> are fresh"),),
        knee={},
        joint=False,
        **{"reserve": {"breast_cancer": 0}, "gap": {"breast_cancer": {"utility": 0.02, "leakage": 0.05}}, **fields},
    )
