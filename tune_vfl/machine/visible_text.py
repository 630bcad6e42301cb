"""Escape hidden characters in text of others: on a terminal they would move the cursor, hide letters or turn them."""

from __future__ import annotations

import re

# Control characters but newline and tab (a terminal obeys ESC and the C1 controls), marks and overrides of the
# direction of writing, breaks of a line that only some programs see, and letters without a shape. Joiners, which
# scripts need, stay.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    r"""Return a text in which each hidden character is written as Python writes it; most texts have none.

    >>> print(visible("a\x1b[31mb\u202ec"))
    a\x1b[31mb\u202ec
    """
    return _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
