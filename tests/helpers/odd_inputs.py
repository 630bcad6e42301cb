"""Three hundred odd inputs as people's files and specs have them; each is read right, told of, or refused by name.

    python -m tests.helpers.odd_inputs            # prints for each what becomes of it, and how many are wrong

Another version is tried by its own package, with ``PYTHONPATH`` naming its folder first.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, cycle, islice, product
from pathlib import Path

import numpy as np
import pandas as pd

from tests.helpers.odd_files import odd_files
from tests.helpers.odd_specs import odd_specs
from tests.helpers.odd_tables import (
    FORMATS,
    OTHERS,
    PLACES,
    STEPS,
    Judge,
    N,
    Odd,
    Seen,
    Y,
    categories,
    classes,
    found,
    judged,
    noted,
    number,
    table,
    write,
)

OFFSETS: dict[str, Callable[[int], object]] = {
    "seconds since 1970": lambda v: 1_600_000_000 + v,
    "fifteen digits": lambda v: 987_654_321_000_000 + v,
    "a coordinate": lambda v: repr(52.5 + v * 1e-9),
    "tiny": lambda v: v * 1e-44,
    "beyond 32 bits": lambda v: (v + 1) * 1e200,
    "signs": lambda v: f"+{v}",
    "a bare point": lambda v: f"{v}.",
    "no zero": lambda v: f".{v:05}",
    "exponents": lambda v: f"{v:.6e}",
    "blanks": lambda v: f"  {v} ",
}
MARKS = [
    "\\N",
    ".",
    "-",
    "--",
    "?",
    "#NULL!",
    "#DIV/0!",
    "NaT",
    "-1.#IND",
    "None",
    "n/a",
    "NULL",
    "<NA>",
    "missing",
    ".A",
]
CODES = {
    "17 digits": ["10000000000000000", "10000000000000001"],
    "capital exponents": ["1E5", "2E5", "3E4"],
    "leading zeros": ["00", "01", "1"],
    "post codes": ["01067", "10115", "80331"],
    "underscores": ["10", "1_0"],
    "Arabic digits": ["1", "\u0661"],
    "truth values": ["True", "1"],
    "many digits and a letter": ["1000000000000000x", "1000000000000001x"],
}
SLIPS = ["4,5", "12abc", "O.5", "1.2.3", "$7", "7%", "1_000", "\u22125"]
SPELT = [
    ("yes", "Yes"),
    ("a b", "a\u00a0b"),
    ("1", "True"),
    ("\u00e9", "e\u0301"),
    ("7", "07"),
    ("U.S.A.", "USA"),
    ("over 50", "over 50."),
]
COMMAS: dict[str, Callable[[int], str]] = {
    "all": lambda v: f"{v},{v % 7}",
    "beside whole ones": lambda v: f"{v % 9},5" if v % 3 else str(v),
    "signs and exponents": lambda v: f"-{v % 9},25e-3",
}
WORDS = ["unknown", "none", "n.a.", "-", "not available", "k.A."]
READ_AS_NONE = ["missing", "NA", "N/A", "None", "?"]
LISTED: dict[str, tuple[str, Callable[[int], object]]] = {
    "an e-mail address": ("identifier", lambda k: f"u{k}@example.org"),
    "a key": ("identifier", lambda k: f"{k * 2654435761 % 2**32:08x}-x"),
    "a number that counts": ("identifier", lambda k: 5000 + k),
    "dates of Europe": ("date", lambda k: f"{k % 27 + 1:02}.{k % 11 + 1:02}.20{10 + k % 9}"),
    "months": ("date", lambda k: f"20{10 + k % 9}-{k % 11 + 1:02}"),
    "stamps": ("date", lambda k: f"2021-{k % 11 + 1:02}-{k % 27 + 1:02}T08:00:00Z"),
    "one value": ("constant", lambda _: "x"),
    "nearly one value": ("near-constant", lambda k: "y" if k == 7 else "x"),
    "the label in words": ("tells the label", lambda k: ("paid", "default")[Y[k]]),
}
IDS: dict[str, Callable[[int], str]] = {
    "leading zeros": lambda k: f"{k:05}",
    "exponents": lambda k: f"{k:.10e}" if k % 100 == 7 else str(k),
    "some with a point": lambda k: f"{k}.0" if k % 2 else str(k),
    "signs": lambda k: f"+{k}" if k % 2 else str(k),
    "other digits": lambda k: chr(0xFF10 + k) if k < 10 else str(k),
}


def odd_inputs() -> Iterator[Odd]:
    """Yield all inputs."""
    return chain(_columns(), _labels(), _rows(), _ids(), odd_files(), odd_specs())


def _columns() -> Iterator[Odd]:
    """Yield each odd column in three of the formats and places, in turn."""
    where = cycle(product(FORMATS, PLACES))
    for kind, name, cells, judge, words in _odd_columns():
        # A step that is prime to their number leads each column to other ones.
        for form, place in islice(where, 0, 15, 5):
            tried = partial(_column, cells=cells, form=form, place=place, judge=judge, words=words)
            yield Odd(kind, f"{name} ({form}, {place})", tried)


def _column(
    folder: Path, cells: Sequence[object], form: str, place: str, judge: Judge, words: Sequence[str] = ()
) -> str:
    return judged(write(folder, table(cells), form, place), judge, words)


def _odd_columns() -> Iterator[tuple[str, str, list[object], Judge, tuple[str, ...]]]:
    for name, change in OFFSETS.items():
        yield "a number", name, [change(int(v)) for v in STEPS], number(), ()
    for mark in MARKS:
        cells: list[object] = [mark if k % 20 == 3 else v for k, v in enumerate(STEPS)]
        yield "a missing value", mark, cells, number(width=2), ()
    for name, codes in CODES.items():
        yield "categories", name, [codes[k % len(codes)] for k in range(N)], categories(codes), ()
    for slip in SLIPS:
        yield "a slip", slip, [slip if k == 33 else v / 7 for k, v in enumerate(STEPS)], _slip, ()
    for name, form in COMMAS.items():
        yield "decimal commas", name, [form(int(v)) for v in STEPS], found("decimal commas"), ()
    for one, other in SPELT:
        cells = [(one, other, "another", "more")[k % 4] for k in range(N)]
        yield "spellings", f"{one} / {other}", cells, noted(f"{one!r} (60 rows)", f"{other!r} (60 rows)"), ()
    for word in WORDS:
        cells = [("Rome", "Bonn", "", word)[k % 4] for k in range(N)]
        yield "words beside empty fields", word, cells, noted("'t'", repr(word), "list them in `missing`"), ()
    for word in READ_AS_NONE:
        cells = [("Rome", "Bonn", "", word)[k % 4] for k in range(N)]
        yield "words read as no value", word, cells, noted("'t'", repr(word), "`categories`"), ()
    for name, (oddity, form_of) in LISTED.items():
        yield "no feature", name, [form_of(k) for k in range(N)], found(oddity, excluded=True), ()


def _slip(seen: Seen) -> str:
    first = seen.facts.findings[0]
    told = (first.oddity, first.column) == ("slips", "t") and "row 34" in first.why
    return "told" if told else f"wrong: {first}"


def _labels() -> Iterator[Odd]:
    """Yield odd labels in two formats each."""
    forms = cycle(FORMATS)
    for kind, name, labels, judge, words in _odd_labels():
        for form in islice(forms, 0, 4, 2):
            yield Odd(kind, f"{name} ({form})", partial(_label, labels=labels, form=form, judge=judge, words=words))


def _label(folder: Path, labels: Sequence[str], form: str, judge: Judge, words: Sequence[str]) -> str:
    return judged(write(folder, table(STEPS.tolist(), labels), form), judge, words)


def _odd_labels() -> Iterator[tuple[str, str, list[str], Judge, tuple[str, ...]]]:
    for name, codes in CODES.items():
        labels = [codes[k % len(codes)] for k in range(N)]
        told = noted("classes that differ in spelling only")
        alike = name in ("leading zeros", "truth values")
        yield "classes", name, labels, (told if alike else classes(labels)), ()
    for mark in ("\\N", ".", "-", "#NULL!", "NA", "", "null"):
        labels = [("0", "1", mark)[k % 3] for k in range(N)]
        yield "rows without a label", mark, labels, noted("-"), ("is missing in 80 of 240 rows", "row 3")
    for one, other in SPELT:
        labels = [(one, other, "another")[k % 3] for k in range(N)]
        yield "classes of two spellings", f"{one} / {other}", labels, noted(repr(one), repr(other), "`dataset`"), ()
    yield "a number as the label", "prices", [str(k * k) for k in range(N)], noted("-"), ("is the label a number",)
    yield "a number as the label", "shares", [str(k / 8) for k in range(N)], noted("-"), ("above",)
    yield "a number as the label", "counts", [str(k % 30) for k in range(N)], noted("is it a number"), ()
    yield "a rare class", "one row", ["rare" if k == 5 else "ab"[k % 2] for k in range(N)], noted("-"), ("'rare'",)
    yield "a constant label", "yes", ["yes"] * N, noted("-"), ("is constant",)


def _rows() -> Iterator[Odd]:
    for (name, (change, words)), form in product(ROWS.items(), FORMATS):
        yield Odd("rows", f"{name} ({form})", partial(_changed, change=change, words=words, form=form))


def _changed(folder: Path, change: Callable[[pd.DataFrame], pd.DataFrame], words: Sequence[str], form: str) -> str:
    return judged(write(folder, change(table(STEPS.tolist())), form), noted(*words))


def _with_line(frame: pd.DataFrame, line: list[str], place: int) -> pd.DataFrame:
    one = pd.DataFrame([line], columns=frame.columns)
    return pd.concat([frame[:place], one, frame[place:]], ignore_index=True)


def _customers(frame: pd.DataFrame) -> pd.DataFrame:
    who, rng = np.arange(len(frame)) // 4, np.random.default_rng(1)
    return frame.assign(
        t=[str(4000 + 7 * k) for k in who],
        a=rng.integers(18, 90, 100)[who].astype(str),
        b=rng.choice(["u", "v", "w"], 100)[who],
        n=rng.integers(0, 50, len(frame)).astype(str),
        c=rng.choice(["f", "m", "x"], 100)[who],
    )


ROWS: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], tuple[str, ...]]] = {
    "copies of one class": (
        lambda f: pd.concat([f, f[f["y"] == "1"], f[f["y"] == "1"]], ignore_index=True),
        ("copies of one another",),
    ),
    "equal but for the label": (
        lambda f: pd.concat([f, f[:20].assign(y=lambda t: 1 - t["y"].astype(int))], ignore_index=True).astype(str),
        ("of another class in all values",),
    ),
    "a header inside": (lambda f: _with_line(f, [*f.columns], 100), ("repeat the header (first in row 101)",)),
    "a total at the end": (
        lambda f: _with_line(f, [str(f["t"].astype(int).sum()), "", "Total", ""], len(f)),
        ("are totals of others (first in row 241)",),
    ),
}


def _ids() -> Iterator[Odd]:
    for (name, change), form in product(IDS.items(), ("csv", "Parquet")):
        yield Odd("ids", f"{name} ({form})", partial(_joined, first=str, second=change, form=form, words=("spelling",)))
    parts: dict[str, tuple[range, range, tuple[str, ...]]] = {
        "a part of another file": (range(200), range(N), ("its 200 ids are a part of those of",)),
        "most rows of a file lost": (range(160, 400), range(N), ("most rows of", "160 of 240")),
        "none in common": (range(1000, 1200), range(N), ("no id of column",)),
    }
    for (name, (own, other, words)), form in product(parts.items(), ("csv", "tsv", "Parquet")):
        yield Odd("ids", f"{name} ({form})", partial(_joined, own=own, other=other, form=form, words=words))
    for form in ("csv", "Parquet", "Feather"):
        case = partial(_joined, first="c{}".format, second="C{}".format, form=form, words=("spelling",))
        yield Odd("ids", f"case ({form})", case)
        twice = partial(_joined, first=lambda k: str(k // 2), form=form, words=("repeats 120 ids",))
        yield Odd("ids", f"twice in a file ({form})", twice)
        yield Odd("customers", f"by a name that says nothing ({form})", partial(_visits, form=form))


def _visits(folder: Path, form: str) -> str:
    frame = _customers(table(STEPS.tolist()))
    options = write(folder, frame, form) | {"parties": {"p": ["t", "c"], "active": ["a", "b", "n"]}}
    return judged(options, noted("several rows have one value of 't'", "split: {group"))


def _joined(
    folder: Path,
    form: str,
    words: Sequence[str],
    first: Callable[[int], str] = str,
    second: Callable[[int], str] = str,
    own: Sequence[int] = range(N),
    other: Sequence[int] = range(N),
) -> str:
    """Ids that differ are joined, named or refused."""
    frame = pd.DataFrame({"i": [first(k) for k in own], "t": [k * 7 % 31 for k in own]})
    FORMATS[form](frame, folder / "p.csv")
    label = pd.DataFrame({"i": [second(k) for k in other], "a": OTHERS["a"], "y": Y})
    FORMATS[form](label, folder / "q.csv")
    parties = {name: {"path": str(folder / f"{name}.csv")} for name in "pq"}

    def judge(seen: Seen) -> str:
        whole = len(seen.data.y) == N and not seen.has_note(words)
        return "right" if whole else noted(*words)(seen)

    return judged({"id": "i", "label": "y", "parties": parties}, judge, words)


def main() -> int:
    """Print what becomes of each input, and the counts; return 1 where one is wrong."""
    counts: dict[str, Counter[str]] = {}
    for odd in odd_inputs():
        outcome = odd.outcome()
        counts.setdefault(odd.kind, Counter())[outcome.partition(":")[0]] += 1
        print(f"{odd.kind:28} {odd.name:60} {outcome[:200]}", flush=True)
    total = sum(counts.values(), Counter[str]())
    for kind, of in [*counts.items(), (f"all {total.total()}", total)]:
        print(f"{kind:28}", *(f"{of[o]:4} {o}" for o in ("right", "told", "refused", "wrong")))
    return int(bool(total["wrong"]))


if __name__ == "__main__":
    sys.exit(main())
