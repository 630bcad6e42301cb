"""The separator of a text table: the one by which its lines have as many fields as its header, not the header alone."""

from __future__ import annotations

from pathlib import Path

COMMON = ",;\t"
RARER = "|^~:\x01"
LINES = 200
"""So many records are looked at."""
_NEARLY_ALL = 0.9


def outside_quotes(line: str) -> str:
    """Return a line without what stands in quotes."""
    return "".join(line.split('"')[::2])


def fitting(records: dict[str, list[list[str]]]) -> dict[str, int]:
    """Return by separator the number of columns, where nearly all records have as many, and more than one.

    Args:
        records: the first records of the file by separator, the header first.
    """
    fits = {}
    for mark, some in records.items():
        sizes = [len(record) for record in some if record]
        # A broken line does not speak for another separator: it is named afterwards.
        if sizes and sizes[0] > 1 and sizes.count(sizes[0]) >= _NEARLY_ALL * len(sizes):
            fits[mark] = sizes[0]
    return fits


def chosen(fits: dict[str, int], header: str, path: Path) -> str | None:
    """Return the separator; None where two serve equally well and the file's name does not decide.

    Args:
        fits: as :func:`fitting` returns them.
        header: the first line.
        path: the file, whose name may say ``.tsv``.
    """
    if not fits:
        return max(COMMON, key=outside_quotes(header).count)
    most = max(fits.values())
    best = [mark for mark, columns in fits.items() if columns == most]
    named = "\t" if ".tsv" in path.suffixes or ".tab" in path.suffixes else ""
    if named in fits:
        return named
    return best[0] if len(best) == 1 else None
