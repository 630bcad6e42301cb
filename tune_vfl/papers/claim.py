"""The form of a claim: an inequality between two rows of a published table."""

from __future__ import annotations

from tune_vfl.spec import Strict


class Claim(Strict):
    """A claim of a paper: the row ``less`` has a lower number in ``column`` than the row ``than``, plus ``within``.

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
