"""SplitFed: clients keep the upper part of their model at the server, and their bottom models from it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.spec import HORIZONTAL, Strict


class SplitfedParams(Strict):
    """Parameters of :class:`Splitfed`."""

    version: Literal["v1", "v2"] = Field(
        "v1",
        description="v1: the server has a copy of the upper part for each client and averages them every round; v2: "
        "one, which clients train one after the other, in a new order every round",
    )


@defense("splitfed")
class Splitfed(Defense[SplitfedParams]):
    """Bottom models are averaged by a second server, which tells the main one nothing; the main one has the rest.

    Clients train their bottom models against upper parts that the main server holds: it receives what the bottom models
    make of the rows, and the labels. Under ``v1`` the averages are those of FedAvg, so that utility is that of
    ``none``; only what the server sees differs. Under ``v2`` the upper part is moved by every client that takes part
    in a round, in turn, and their bottom models are averaged. Each seed draws an order of its own for each round, so
    that seeds of ``v2`` are trained one after the other. Nothing is added or noised. Source: Thapa et al. 2022; the
    baseline of FedAdOb, table III.
    """

    summary = "bottom models averaged out of the server's sight; the server trains what lies above them"
    reference = "Thapa et al. 2022, SplitFed: When Federated Learning Meets Split Learning"
    Params = SplitfedParams
    capabilities = DefenseCapabilities(
        stackable=True, run_by="passive", protects=("features",), federations=HORIZONTAL, client_bottom="hidden"
    )

    @classmethod
    def in_turn(cls, params: SplitfedParams) -> bool:
        """Say whether clients train the upper part one after the other: under ``v2``."""
        return params.version == "v2"

    def notes(self, member: int = 0) -> list[str]:
        """Return a note on the labels and embeddings that the main server receives in any case."""
        seen = (
            "splitfed: the main server receives the labels of every batch and what bottom models make of its rows; the "
            "second server is trusted not to hand it the bottom models"
        )
        return [seen]
