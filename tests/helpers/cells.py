"""Small cells on bundled data, for tests of what is evaluated."""

from collections.abc import Sequence
from typing import Any, Protocol

from tune_vfl.evaluation.resolving import resolve
from tune_vfl.spec import parse
from tune_vfl.spec.cell import Cell
from tune_vfl.spec.raw import apply_settings


class CellOf(Protocol):
    """Resolve a cell: the attacks, then settings as ``--set`` writes them, and fields of the spec to replace."""

    def __call__(self, *attacks: Any, settings: Sequence[str] = (), **changes: Any) -> Cell: ...


def cells(*usual: str, **fields: Any) -> CellOf:
    """Return a ``cell_of`` for one file of tests: ``laplace`` on ``breast_cancer`` with two seeds, changed as given.

    Args:
        usual: settings of every cell, such as ``training.epochs=4``.
        fields: fields of every cell's spec.
    """

    def cell_of(*attacks: Any, settings: Sequence[str] = (), **changes: Any) -> Cell:
        raw = {"study": "s", "dataset": "breast_cancer", "defense": "laplace", "budget": {"trials": 1, "seeds": 2}}
        raw |= fields | ({"attacks": list(attacks)} if attacks else {}) | changes
        return resolve(parse(apply_settings(raw, [*usual, *settings])))

    return cell_of
