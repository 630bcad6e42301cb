"""The form of a claim: an inequality between two rows of a published table, and what a paper is known for."""

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


class Headline(Strict):
    """A claim that a paper is known for, and what stands of it here.

    Attributes:
        says: what is claimed, in this project's words.
        on: on what data, by the paper.
        claims: those of its claims that it rests on; without any nothing of it is measured here.
        board: whether attacks on labels of ``default`` answer it, too.
        verdict: of our numbers, for which ``review`` was written.
        review: what a reviewer would write of it.
    """

    says: str
    on: str
    claims: tuple[Claim, ...] = ()
    board: bool = False
    verdict: str
    review: str
