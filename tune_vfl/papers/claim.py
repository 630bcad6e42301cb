"""The form of a claim: an inequality between two rows of a published table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tune_vfl.spec import Strict

if TYPE_CHECKING:
    from tune_vfl.papers.tables import Evaluation


class Claim(Strict):
    """What a paper says of one of its tables: ``less`` has less in ``column`` than ``than`` has, plus ``within``.

    Attributes:
        says: the claim in a sentence, in this project's words.
        table: the table that shows it.
        column: of both rows, unless ``than_column`` is given for the second.
        less, than: words of the rows' names, such as ``kdk epsilon=0.85``; ``than`` may be a number.
        within: what may lie between them; below 0 the least difference that is claimed.
        on: the data sets that it is claimed for; without any all of the table.
    """

    says: str
    table: str
    column: str
    less: str
    than: str | float
    than_column: str | None = None
    within: float = 0.0
    on: tuple[str, ...] = ()


def is_named(evaluation: Evaluation, words: str) -> bool:
    """Whether all words stand in the name of an evaluation's row, behind its data set."""
    name = evaluation.label.partition(": ")[2]
    return set(words.split()) <= {word.strip("(),") for word in re.split(r"\s+", name)}
