"""The form of a paper's file: its tables, where their numbers can be judged, and what it claims of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from tune_vfl.papers.claim import Claim, Headline
from tune_vfl.papers.tables import Data, Grounds, Table, known_in
from tune_vfl.spec import Strict


class Paper(Strict):
    """A paper: its name here, its reference, and its tables by the names that ``reproduce`` takes.

    ``data`` holds for all tables; an entry of a table's own takes its place. ``judging`` says by data set, or by table
    and data set, where numbers can be judged, see :class:`tune_vfl.papers.tables.Grounds`. ``texts`` holds sentences
    that rows repeat, as anchors of YAML. ``claims`` are what it says of its tables, ``headlines`` what it is known for,
    ``disputed`` what is known of published numbers that do not come out of the paper's own method, ``defenses`` its
    own, which the board looks up, ``beyond`` a sentence on what else was found of them.
    """

    paper: str
    reference: str
    texts: dict[str, str] = Field(default_factory=dict)
    data: dict[str, Data] = Field(default_factory=dict)
    judging: dict[str, Grounds] = Field(default_factory=dict)
    tables: dict[str, Table]
    claims: tuple[Claim, ...] = ()
    headlines: tuple[Headline, ...] = ()
    disputed: tuple[str, ...] = ()
    defenses: tuple[str, ...] = ()
    beyond: str = ""

    @model_validator(mode="before")
    @classmethod
    def _share_data(cls, raw: Any) -> Any:
        if not isinstance(raw, Mapping) or not isinstance(raw.get("tables"), Mapping):
            return raw
        shared, judging = (raw.get(key) or {} for key in ("data", "judging"))
        if not isinstance(shared, Mapping) or not isinstance(judging, Mapping):
            return raw
        known = {where: one for where, one in judging.items() if isinstance(one, Mapping)}
        tables = {name: _completed(name, body, shared, known) for name, body in raw["tables"].items()}
        return {**raw, "tables": tables}

    @model_validator(mode="after")
    def _claims_are_of_rows(self) -> Paper:
        for claim in self.claims:
            where = f"claim {claim.says!r}:"
            known_in([claim.table], self.tables, where, "table")
            table = self.tables[claim.table]
            known_in({claim.column, claim.than_column or claim.column}, table.columns, where)
            for words in (claim.less, claim.than):
                if isinstance(words, str) and not any(one.is_named(words) for one in table.evaluations):
                    raise ValueError(f"{where} no row of {claim.table} is named {words!r}")
        for headline in self.headlines:
            known_in([c.says for c in headline.claims], [c.says for c in self.claims], "headlines:", "claim")
        places = [(name, place) for name, table in self.tables.items() for place in table.data]
        known_in(self.judging, dict.fromkeys([*(p for _, p in places), *map(" ".join, places)]), "judging:", "data set")
        return self


def _completed(name: str, body: Any, shared: Mapping[str, Any], judging: Mapping[str, Any]) -> Any:
    """Return a table with the data that all tables share, and what is known of each for judging."""
    if not isinstance(body, Mapping):
        return body

    def known(where: str, data: Any) -> Any:
        grounds = {**judging.get(where, {}), **judging.get(f"{name} {where}", {})}
        return {**data, "grounds": grounds} if grounds and isinstance(data, Mapping) else data

    own = {where: known(where, one) for where, one in {**shared, **(body.get("data") or {})}.items()}
    others = body.get("instead") or []
    instead = [known(str(one.get("dataset")), one) if isinstance(one, Mapping) else one for one in others]
    return {**body, "data": own, "instead": instead}
