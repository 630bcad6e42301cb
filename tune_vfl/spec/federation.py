"""Federation of the data: columns of the same rows by party, for networks, trees or sums, or rows by client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from tune_vfl.spec.bases import ByName, Strict

FederationName = Literal["vertical", "horizontal", "trees", "sums"]
"""``vertical``: parties hold different columns of the same rows, one of them the labels. ``horizontal``: clients hold
different rows with all columns and labels, and a server averages what they train. ``trees``: data as in ``vertical``,
and boosted trees in the place of networks, grown on sums of encrypted gradients. ``sums``: data as in ``vertical``, and
a logistic regression whose residuals are encrypted: a passive party learns the sum over each batch alone."""
VERTICAL: frozenset[FederationName] = frozenset({"vertical"})
HORIZONTAL: frozenset[FederationName] = frozenset({"horizontal"})
TREES: frozenset[FederationName] = frozenset({"trees"})
SUMS: frozenset[FederationName] = frozenset({"sums"})
BOTH: frozenset[FederationName] = VERTICAL | HORIZONTAL


class Shards(ByName, Strict):
    """The partition of rows among clients.

    ``iid``: rows at random. ``dirichlet``: each class is shared out by shares drawn from Dirichlet(``alpha``), so that
    clients differ in how many rows they hold and of which classes. ``classes``: each client holds rows of
    ``per_client`` classes alone. ``column``: a column of the data set says whose a row is, and each of its values is a
    client. Written as ``iid``, ``{dirichlet: 0.5}``, ``{classes: 2}`` or ``{column: hospital}``.
    """

    name: Literal["iid", "dirichlet", "classes", "column"] = "iid"
    alpha: float = Field(0.5, gt=0, allow_inf_nan=False)
    per_client: int = Field(2, ge=1)
    column: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _in_short(cls, value: Any) -> Any:
        short = {"dirichlet": "alpha", "classes": "per_client", "column": "column"}
        if isinstance(value, dict) and len(value) == 1 and (kind := next(iter(value))) in short:
            return {"name": kind, short[kind]: str(value[kind]) if kind == "column" else value[kind]}
        return value

    @model_validator(mode="after")
    def _column_where_it_counts(self) -> Shards:
        if (self.name == "column") != (self.column is not None):
            raise ValueError("write {column: NAME} for rows by a column, and no column otherwise")
        return self

    @property
    def equal(self) -> bool:
        """Whether all clients have equally many rows, so that they can be trained in one pass."""
        return self.name in ("iid", "classes")


class Federation(ByName, Strict):
    """Vertical or horizontal federation, of trees or of sums; all fields but the name belong to the horizontal setting.

    ``rounds``: how often the server averages (none: as many as make ``training.epochs`` passes over each client's
    rows). A client trains ``local_epochs`` passes over its rows in a round, or ``local_steps`` batches. In each round a
    share ``participation`` of the clients, drawn anew, takes part. ``secure``: the server receives sums over clients
    and no client's own update.
    """

    name: FederationName = "vertical"
    clients: int = Field(10, ge=1, le=1000)
    rounds: int | None = Field(None, ge=1)
    local_epochs: int = Field(1, ge=1)
    local_steps: int | None = Field(None, ge=1)
    participation: float = Field(1.0, gt=0, le=1)
    shards: Shards = Field(default_factory=Shards)
    secure: bool = False

    @field_validator("local_steps")
    @classmethod
    def _steps_or_epochs(cls, steps: int | None, info: Any) -> int | None:
        if steps is not None and info.data.get("local_epochs", 1) != 1:
            raise ValueError("give local_epochs or local_steps, not both")
        return steps

    @model_validator(mode="after")
    def _vertical_has_no_clients(self) -> Federation:
        given = sorted(self.model_fields_set - {"name"})
        if not self.horizontal and given:
            raise ValueError(f"{', '.join(given)} belong to federation: horizontal, which is not asked for")
        return self

    @model_serializer(mode="wrap")
    def _name_alone_where_vertical(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        whole: dict[str, Any] = handler(self)
        return whole if self.horizontal else {k: v for k, v in whole.items() if k == "name"}

    @property
    def horizontal(self) -> bool:
        """Whether clients have different rows."""
        return self.name == "horizontal"

    @property
    def pass_name(self) -> str:
        """The name of one pass over the training rows: ``epoch``, or ``round`` where a tree grows in each."""
        return "round" if self.name == "trees" else "epoch"

    @property
    def by_itself(self) -> str:
        """The participant that could train without the federation, in words."""
        return "one client" if self.horizontal else "the label party"

    @property
    def goal(self) -> Literal["labels", "features"]:
        """The goal of ``default`` and ``thorough``: a server, whose clients have labels too, reconstructs features."""
        return "features" if self.horizontal else "labels"

    @property
    def participants(self) -> int:
        """The number of clients in a round, at least 1."""
        return max(1, round(self.participation * self.clients))

    def rounds_of_a_client(self, rounds: int) -> list[int]:
        """Return the rounds, from 0, of one client if all clients' turns are evenly spread.

        Those are ``participants / clients`` of them, rounded up; the first one is always among them.
        """
        return [r for r in range(rounds) if r * self.participants % self.clients < self.participants]

    def passes(self, rounds: int) -> int:
        """Return a client's number of passes over its rows in so many rounds; a round's steps count as one pass."""
        return rounds * (1 if self.local_steps is not None else self.local_epochs)


_FIELDS = frozenset(Federation.model_fields) - {"name"}


def gathered(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a raw spec with ``clients``, ``rounds`` and the like moved from its top into ``federation``."""
    beside = {name: raw[name] for name in _FIELDS & set(raw)}
    if not beside:
        return dict(raw)
    named = raw.get("federation", {})
    inside = {"name": named} if isinstance(named, str) else named
    if not isinstance(inside, dict):
        return dict(raw)
    return {**{k: v for k, v in raw.items() if k not in beside}, "federation": {**inside, **beside}}
