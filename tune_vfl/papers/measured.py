"""Formulas of the columns of a published table: arithmetic over the scores of one evaluation."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING

from tune_vfl.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tune_vfl.outcome import Outcome

_DO: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
OWN = ("utility", "training_utility")
"""The names of scores that belong to no attack."""


def names_in(formula: str) -> list[str]:
    """Return the scores that a formula reads: ``utility``, ``training_utility``, ``ATTACK``, ``ATTACK.SCORE``.

    Raises:
        ValueError: when it is no arithmetic over scores.
    """
    names: list[str] = []

    def collect(name: str) -> float:
        names.append(name)
        return 1.0

    _value(_parsed(formula), collect)
    return names


def quantity(formula: str) -> str:
    """Return what a formula measures: ``utility``, ``leakage``, or a ``ratio`` of both."""
    found = {name.rpartition(".")[2] in OWN for name in names_in(formula)}
    return "ratio" if len(found) > 1 else "utility" if True in found else "leakage"


def measure(formula: str, scores: Mapping[str, float]) -> float:
    """Compute a formula such as ``1 - pmc.logreg`` or ``utility / median`` from an evaluation's scores.

    Raises:
        SpecError: for a score that the evaluation does not have; the message lists those of its attack.
    """

    def look_up(name: str) -> float:
        if name not in scores:
            near = [n for n in scores if n.partition(".")[0] == name.partition(".")[0]] or list(scores)
            raise SpecError(f"the evaluation has no score {name!r}; it has {', '.join(near)}")
        return scores[name]

    return _value(_parsed(formula), look_up)


def kept_of(scores: Mapping[str, float], formulas: Iterable[str]) -> dict[str, float]:
    """Return the scores that are kept: the model's own, each attack's success, and what formulas read.

    Raises:
        SpecError: for a score that a formula reads and the evaluation does not have.
    """
    for formula in formulas:
        measure(formula, scores)
    read = {name for formula in formulas for name in names_in(formula)}
    return {name: round(value, 5) for name, value in scores.items() if name in read or "." not in name}


def scores_of(outcome: Outcome) -> dict[str, float]:
    """Return the scores of an outcome of one seed by the names that formulas use.

    An attack's own success is ``ATTACK``, and by its metric ``ATTACK.leak_auc``; what was measured beside it is
    ``ATTACK.top1``, one of its variants ``ATTACK.VARIANT``, and what was measured beside that ``ATTACK.VARIANT.test``.
    """
    found: dict[str, float] = {}
    if outcome.utility is not None:
        found["utility"] = outcome.utility.mean
    if outcome.training_utility:
        found["training_utility"] = outcome.training_utility[0]
    for name, score in outcome.attacks.items():
        found[name] = found[f"{name}.{score.metric}"] = score.mean
        found |= {f"{name}.{key}": value for key, value in score.extra.items()}
        for variant, beside in score.variants.items():
            found[f"{name}.{variant}"] = found[f"{name}.{variant}.{beside['metric']}"] = beside["mean"]
            numbers = {k: v for k, v in beside.items() if isinstance(v, (int, float)) and k not in {"mean", "std"}}
            found |= {f"{name}.{variant}.{k}": float(v) for k, v in numbers.items()}
    return found


def _parsed(formula: str) -> ast.expr:
    try:
        return ast.parse(formula, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"{formula!r} is no arithmetic over scores: {error.msg}") from error


def _value(node: ast.expr, look_up: Callable[[str], float]) -> float:
    if isinstance(node, ast.BinOp) and type(node.op) in _DO:
        return _DO[type(node.op)](_value(node.left, look_up), _value(node.right, look_up))
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return float(node.value)
    name = ast.unparse(node)
    if not all(part.isidentifier() for part in name.split(".")):
        raise ValueError(f"{name!r} is no arithmetic over scores such as utility, norm or pmc.logreg")
    return look_up(name)
