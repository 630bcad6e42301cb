"""A passive party without a federation: its own columns, and the labels that the threat model grants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch

from tune_vfl.attacks.base import Attack, AttackCapabilities, AuxiliaryRequest
from tune_vfl.attacks.parts.own_columns import ColumnRegression
from tune_vfl.protocol.answers import Answer
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
        stacked = ids.reshape(-1, ids.shape[-1])
        rows = view.features.train.reshape(len(stacked), count, -1)
        rows = rows.gather(1, stacked.unsqueeze(-1).expand(*stacked.shape, rows.shape[-1]))
        labels = known.labels.reshape(len(stacked), -1)
        at = torch.arange(len(spread), ids.shape[-1]).expand(labels.shape)
        taught = (at, labels, view.num_classes)
        scores = ColumnRegression.held(rows, known=taught).by_known(*taught)
        hidden = ~torch.zeros(*view.lead, count, dtype=torch.bool).scatter(-1, known.ids, True)
        return {"ridge": Answer(scores.view(*ids.shape, -1), ids, oriented=True, counted=hidden.gather(-1, ids))}
