"""Give Me Some Credit under the name that the papers of this field call it by."""

from __future__ import annotations

from tune_vfl.data.base import dataset
from tune_vfl.data.give_me_some_credit import GiveMeSomeCredit


@dataset("loan")
class Loan(GiveMeSomeCredit):
    """The same file and recipe as ``give_me_some_credit``, the loan data that LADSG cites.

    LADSG counts 156 features; the file it cites has ten. One's own loans of any width are read by ``csv``.
    """

    summary = "the same as give_me_some_credit, by the name LADSG uses"
