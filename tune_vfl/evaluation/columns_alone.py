"""A passive party without a federation: its own columns, and the labels that the threat model grants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch

from tune_vfl.attacks.base import Attack, AttackCapabilities, AuxiliaryRequest
from tune_vfl.attacks.parts.own_columns import by_columns
from tune_vfl.protocol.answers import Answer
from tune_vfl.protocol.granted import Auxiliary
from tune_vfl.protocol.members import gather_rows
from tune_vfl.protocol.view import View
from tune_vfl.spec import Strict

MOST = 20_000
"""Rows that are scored, evenly spread over the order of the split; the success on more hardly differs."""


class ColumnsAlone(Attack[Strict]):
    """Guesses labels by a kernel ridge regression on the party's columns; no attack of the registry but a floor.

    Tokens of a text stand for words, and their numbers say nothing: there is none on texts.

    Args:
        among: the party's attacks: it knows as many rows of a class as one of them was given, or the threat's number.
    """

    name = "own columns"
    capabilities: ClassVar = AttackCapabilities(sees=frozenset({"features", "auxiliary"}), parties="joined")

    def __init__(self, among: Sequence[Attack[Strict]] = ()) -> None:
        super().__init__()
        asked = [request.per_class for a in among if (request := a.auxiliary_request()) and request.how == "per_class"]
        numbers = [number for number in asked if number is not None]
        self._known = max(numbers, default=None) if len(numbers) == len(asked) else None

    def auxiliary_request(self) -> AuxiliaryRequest:
        """Return the largest number of labeled rows that these attacks ask for."""
        return AuxiliaryRequest(per_class=self._known)

    @property
    def draws(self) -> int:
        """Two draws of known rows, as many as of the attacks that know such rows."""
        return 2

    def run(self, view: View) -> dict[str, Answer]:
        """Return scores ``(*trials, M, K)``, oriented; known rows are not counted."""
        known, count = view.auxiliary, view.features.train.shape[len(view.lead)]
        spread = torch.arange(count) if count <= MOST else torch.arange(MOST) * count // MOST
        ids = torch.cat([spread.expand(*view.lead, len(spread)), known.ids], -1)
        rows = gather_rows(view.features.train.flatten(len(view.lead) + 1), ids)
        at = torch.arange(len(spread), ids.shape[-1]).expand(known.labels.shape)
        scores = by_columns(rows, Auxiliary(at, known.labels), view.num_classes)
        hidden = ~torch.zeros(*view.lead, count, dtype=torch.bool).scatter(-1, known.ids, True)
        return {"ridge": Answer(scores, ids, oriented=True, counted=hidden.gather(-1, ids))}
