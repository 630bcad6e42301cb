"""More than a hundred odd inputs; each must be read right, or refused (or told of) by name.

    python -m tests.helpers.odd_inputs            # prints for each what becomes of it, and how many are wrong

Another version is tried by its own copy, with ``PYTHONPATH`` naming its folder first.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tune_vfl.data import load
from tune_vfl.data.base import Dataset
from tune_vfl.data.check import examine
from tune_vfl.errors import TuneVflError
from tune_vfl.spec import Named
from tune_vfl.spec.raw import read_yaml

N = 400
RNG = np.random.default_rng(7)
Y = RNG.integers(0, 2, N)
STEPS = RNG.integers(0, 300, N) + 150 * Y
TABLES = ("csv", "parquet", "joined")


@dataclass(frozen=True)
class Odd:
    """An input: what it is of, its name, and a function that reads it in a folder: ``right``, ``told`` or ``wrong``."""

    kind: str
    name: str
    tried: Callable[[Path], str]

    def outcome(self) -> str:
        """Read it; a refusal that says where is a right answer, too."""
        with tempfile.TemporaryDirectory() as folder:
            return self.tried(Path(folder))


def table(folder: Path, kind: str, cells: list[Any], labels: list[Any] | None = None, **options: Any) -> Dataset:
    """Read a table whose column ``t`` has these cells, from a file of a kind."""
    n = len(cells)
    frame = pd.DataFrame({"a": np.linspace(0, 1, n), "t": cells, "y": Y[:n] if labels is None else labels})
    if kind == "joined":
        frame.assign(i=range(n))[["i", "t"]].to_csv(folder / "p.csv", index=False)
        frame.assign(i=range(n)).drop(columns="t").to_csv(folder / "q.csv", index=False)
        where: dict[str, Any] = {"id": "i", "parties": {k: {"path": str(folder / f"{k}.csv")} for k in "pq"}}
    else:
        path = folder / f"t.{kind}"
        frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path, index=False)
        where = {"path": str(path), "parties": {"p": ["t"], "q": ["a"]}}
    return load(Named.model_validate({"name": "csv", "label": "y", **where, **options}))


def everywhere(folder: Path, judge: Callable[[Dataset], str], cells: list[Any], word: str = "'t'") -> str:
    """Return the worst outcome over the kinds of table."""
    found = []
    for kind in TABLES:
        (folder / kind).mkdir()
        try:
            found.append(judge(table(folder / kind, kind, cells)))
        except TuneVflError as error:
            found.append("refused" if word in str(error) else "wrong")
    return max(found, key=["right", "told", "refused", "wrong"].index)


def alone(data: Dataset) -> tuple[str, float]:
    column = next(c for p in examine(data).parties for c in p.columns if c.name == "t")
    return column.kind, column.alone or 0.0


def number(folder: Path, cells: list[str], width: int = 1) -> str:
    """The column is one of numbers and tells what the plain one tells."""
    (folder / "plain").mkdir()
    plain = alone(table(folder / "plain", "csv", STEPS.tolist()))[1]

    def judge(data: Dataset) -> str:
        kind, score = alone(data)
        right = kind == "number" and abs(score - plain) < 0.03 and data.passive[0].x.shape[1] == width
        return "right" if right else "wrong"

    return everywhere(folder, judge, cells)


def category(folder: Path, codes: list[str]) -> str:
    """The column has the categories that stand in the file."""
    wanted = tuple(f"t={code}" for code in sorted(codes))
    return everywhere(
        folder,
        lambda data: "right" if data.passive[0].names == wanted else "wrong",
        [codes[k % len(codes)] for k in range(N)],
    )


def slip(folder: Path, text: str) -> str:
    """A column that one text made categories is named first, with the row."""

    def judge(data: Dataset) -> str:
        first = examine(data).findings[:1]
        return "told" if first and first[0].column == "t" and "row 34" in first[0].why else "wrong"

    return everywhere(folder, judge, [text if k == 33 else str(v / 7) for k, v in enumerate(STEPS)])


def commas(folder: Path, form: Callable[[int], str]) -> str:
    """Numbers with decimal commas are named, and numbers with the option that the note gives."""
    cells = [form(int(v)) for v in STEPS]
    found = []
    for kind in TABLES:
        (folder / kind).mkdir()
        told = any("decimal commas" in note for note in table(folder / kind, kind, cells).notes)
        right = table(folder / kind, kind, cells, decimal=",").passive[0].sources[0].kind == "number"
        found.append(told and right)
    return "told" if all(found) else "wrong"


def spelt(folder: Path, first: str, second: str) -> str:
    """Categories that differ in spelling only are named in a note."""
    cells = [(first, second, "other", "another")[k % 4] for k in range(N)]
    named = [f"{name!r} (100 rows)" for name in (first, second)]
    return everywhere(
        folder,
        lambda data: "told" if any(all(name in note for name in named) for note in data.notes) else "wrong",
        cells,
    )


def classes(folder: Path, names: list[str], kind: str) -> str:
    """The classes are those that stand in the file, and each row has its own."""
    labels = [names[k % len(names)] for k in range(N)]
    try:
        if kind.startswith("npz"):
            y = np.array(labels) if kind == "npz" else np.char.encode(np.array(labels))
            np.savez(folder / "a.npz", x=np.zeros((N, 4, 4)), y=y)
            data = load(Named.model_validate({"name": "npz", "path": str(folder / "a.npz")}))
        else:
            data = table(folder, kind, STEPS.tolist(), labels)
    except TuneVflError as error:
        return "refused" if "label" in str(error) else "wrong"
    return "right" if [data.class_names[k] for k in data.y.tolist()] == labels else "wrong"


def no_class(folder: Path, mark: str) -> str:
    """A mark of nothing among labels that are numbers is refused."""
    try:
        table(folder, "csv", STEPS.tolist(), ["0", "1", mark] * 133 + ["1"])
    except TuneVflError as error:
        return "refused" if "missing" in str(error) else "wrong"
    return "wrong"


def spellings(folder: Path, first: str, second: str) -> str:
    """Classes that differ in spelling only are named in a note."""
    try:
        data = table(folder, "csv", STEPS.tolist(), ([first] * 3 + [second] + ["other"] * 4) * 50)
    except TuneVflError as error:
        return "refused" if first in str(error) else "wrong"
    return "told" if any(repr(first) in n and repr(second) in n for n in data.notes) else "wrong"


def name_in_spec(folder: Path, text: str, place: str) -> str:
    """A name in a spec is the text that stands there."""
    column = {"exclude": f"exclude: [{text}]", "label": f"label: {text}", "party": f"parties: {{p: [{text}], q: [a]}}"}
    (folder / "s.yaml").write_text(f"study: s\ndataset: {{name: csv, {column[place]}}}\n")
    try:
        read = read_yaml(folder / "s.yaml")["dataset"]
    except TuneVflError as error:
        return "refused" if "quot" in str(error) else "wrong"
    name = {
        "exclude": lambda: read["exclude"][0],
        "label": lambda: read["label"],
        "party": lambda: read["parties"]["p"][0],
    }
    return "right" if str(name[place]()) == text else "wrong"


def quoted(folder: Path, text: str) -> str:
    """A study or a label that other readers take for another value is its text, and told to be quoted."""
    (folder / "s.yaml").write_text(f"dataset: {{name: csv, label: {text}}}\nstudy: {text}\n")
    notes: list[str] = []
    read = read_yaml(folder / "s.yaml", notes.append)
    told = [f'label: "{text}" in line 1', f'study: "{text}" in line 2']
    right = read["study"] == read["dataset"]["label"] == text and len(notes) == 1
    return "told" if right and all(said in notes[0] for said in told) else "wrong"


def lacking(folder: Path, by: str, part: str) -> str:
    """A part of the rows that has no row of a class is refused or told by that class, before any training."""
    n = 2000
    late = {"training": range(1450, n), "test": range(1300), "reserve": range(1700)}[part]
    labels = ["rare" if k in late and k % 2 else "usual" for k in range(n)]
    frame = pd.DataFrame({"a": np.linspace(0, 1, n), "w": np.arange(n) // 10, "y": labels})
    if by == "npz":
        x, y = np.zeros((n, 4, 4)), frame["y"].to_numpy(dtype=str)
        cut = 1400 if part == "test" else 1500
        np.savez(folder / "a.npz", x_train=x[:cut], y_train=y[:cut], x_test=x[cut:], y_test=y[cut:])
        where: dict[str, Any] = {"name": "npz", "path": str(folder / "a.npz")}
    else:
        frame.to_csv(folder / "t.csv", index=False)
        parties = {"p": ["a"]}
        where = {"name": "csv", "path": str(folder / "t.csv"), "label": "y", "split": {by: "w"}, "parties": parties}
    try:
        notes = load(Named.model_validate(where)).notes
    except TuneVflError as error:
        return "refused" if "'rare'" in str(error) and part in str(error) else "wrong"
    return "told" if any("'rare'" in note and part in note for note in notes) else "wrong"


def twice(folder: Path, text: str, key: str) -> str:
    """A key given twice is refused by its name."""
    (folder / "s.yaml").write_text(text)
    try:
        read_yaml(folder / "s.yaml")
    except TuneVflError as error:
        return "refused" if key in str(error) and "twice" in str(error) else "wrong"
    return "wrong"


def ids(folder: Path, change: Callable[[int], str]) -> str:
    """Ids that one party spells in another way are joined, or named."""
    pd.DataFrame({"i": [f"{k}" for k in range(N)], "t": STEPS}).to_csv(folder / "p.csv", index=False)
    pd.DataFrame({"i": [change(k) for k in range(N)], "y": Y}).to_csv(folder / "q.csv", index=False)
    parties = {k: {"path": str(folder / f"{k}.csv")} for k in "pq"}
    try:
        data = load(Named.model_validate({"name": "csv", "id": "i", "label": "y", "parties": parties}))
    except TuneVflError as error:
        return "refused" if "spelling" in str(error) else "wrong"
    return "right" if len(data.y) == N else "told" if any("spelling" in note for note in data.notes) else "wrong"


def file(folder: Path, content: bytes, word: str) -> str:
    """A file is read right, or refused by its name and the reason."""
    (folder / "a.csv").write_bytes(content)
    where = {"path": str(folder / "a.csv"), "label": "y", "parties": {"p": ["t"]}}
    try:
        data = load(Named.model_validate({"name": "csv", **where}))
    except TuneVflError as error:
        return "refused" if "a.csv" in str(error) and word in str(error) else "wrong"
    except Exception:  # a traceback for the user
        return "wrong"
    return "right" if data.passive[0].names == ("t=x", "t=\u00e9") else "wrong"


OFFSETS: dict[str, Callable[[Any], Any]] = {
    "seconds since 1970": lambda t: t + 1_600_000_000,
    "milliseconds since 1970": lambda t: t + 1_600_000_000_000,
    "fifteen digits": lambda t: t + 987_654_321_000_000,
    "before 1970": lambda t: t - 2_000_000_000,
    "a thousand million less a half": lambda t: t - 1e9 + 0.5,
    "a coordinate in nanodegrees": lambda t: 52.5 + t * 1e-9,
    "a rate around 1": lambda t: 1 + t * 1e-12,
    "tiny": lambda t: t * 1e-44,
    "tinier": lambda t: t * 1e-300,
    "huge": lambda t: (t + 1) * 1e35,
    "beyond 32 bits": lambda t: (t + 1) * 1e200,
    "huge, and centered": lambda t: (t - 150) * 1e300,
}
FORMS: dict[str, Callable[[int], str]] = {
    "signs": lambda v: f"+{v}",
    "a bare point": lambda v: f"{v}.",
    "no zero": lambda v: f".{v:05}",
    "exponents of C": lambda v: f"{v:.6e}",
    "exponents of Java": lambda v: f"{v / 100}E2",
    "blanks": lambda v: f"  {v} ",
    "many decimals": lambda v: f"{v}.{'0' * 25}",
}
MARKS = ["\\N", ".", "-", "--", "?", "#NULL!", "#DIV/0!", "#VALUE!", "NaT", "-1.#IND", "1.#QNAN", "None", "none", "n/a"]
MARKS += ["N/A", "n.a.", "NULL", "(null)", "<NA>", "-nan", "missing", "Unknown", "*", "\u2014", ".A", "[NULL]", ".."]
CODES = {
    "17 digits": ["10000000000000000", "10000000000000001"],
    "capital exponents": ["1E5", "2E5", "3E4"],
    "exponents beyond numbers": ["1E50", "1E51"],
    "leading zeros": ["00", "01", "1"],
    "post codes": ["01067", "10115", "80331"],
    "underscores": ["10", "1_0"],
    "Arabic digits": ["1", "\u0661"],
    "hexadecimal": ["0x10", "16"],
    "truth values": ["True", "1"],
    "texts of bytes": ["b'x'", "x"],
}
SLIPS = ["4,5", "1 234", "12abc", "O.5", "1.2.3", "$7", "7%", "~3", "1_000", "\u22125"]
COMMAS: dict[str, Callable[[int], str]] = {
    "a few": lambda v: f"{v % 9},5",
    "many": lambda v: f"{v},{v % 7}",
    "beside whole ones": lambda v: f"{v % 9},5" if v % 3 else str(v),
    "signs and exponents": lambda v: f"-{v % 9},25e-3",
}
SPELT = [
    ("yes", "Yes"),
    ("yes", "ye s"),
    ("a b", "a\u00a0b"),
    ("1", "True"),
    ("0", "FALSE"),
    ("\u00e9", "e\u0301"),
    ("7", "07"),
]
TEXTS = ["1.10", "010", "no", "on", "1e5", "1_0", "0x1F", "2024-01-02", "1:30", "007", "yes", "+1", "1.0"]
QUOTED = ["2024", "on", "no", "yes", "1.10", "true", "1e5", "010", "2024-01-02"]
LACKING = [("time", "training"), ("time", "test"), ("time", "reserve"), ("npz", "test")]
TWICE = {
    "a section": ("attacks: [a]\nstudy: s\nattacks: [b]\n", "attacks"),
    "a field": ("training:\n  epochs: 2\n  lr: 1\n  epochs: 3\n", "epochs"),
    "in one line": ("dataset: {name: csv, label: y, label: z}\n", "label"),
    "a party": ("dataset:\n  parties:\n    p: [a]\n    p: [b]\n", "p"),
    "quoted": ("study: a\n'study': b\n", "study"),
}
IDS: dict[str, Callable[[int], str]] = {
    "leading zeros": lambda k: f"{k:05}",
    "exponents": lambda k: f"{k:.10e}" if k % 100 == 0 else str(k),
    "some with a point": lambda k: f"{k}.0" if k % 2 else str(k),
    "signs": lambda k: f"+{k}" if k % 2 else str(k),
    "other digits": lambda k: chr(0xFF10 + k) if k < 10 else str(k),
}
ROWS = [("t", "y"), *[("x\u00e9"[k % 2], str(k // 20)) for k in range(40)]]
TEXT = "\n".join(",".join(row) for row in ROWS) + "\n"
FILES = {
    "utf-8": (TEXT.encode(), ""),
    "a byte order mark": (TEXT.encode("utf-8-sig"), ""),
    "Windows lines": (TEXT.replace("\n", "\r\n").encode(), ""),
    "cp1252": (TEXT.encode("cp1252"), "encoding"),
    "utf-16": (TEXT.encode("utf-16"), "encoding"),
    "pipes": (TEXT.replace(",", "|").encode(), "separator"),
    "a null byte": (TEXT.replace("x,0", "x\0,0", 1).encode(), "null"),
    "a long text": (
        TEXT.replace("\n", ",z\n").replace("y,z", "y,z", 1).replace("x,0,z", f"x,0,{'z' * 140_000}", 1).encode(),
        "",
    ),
}


def odd_inputs() -> Iterator[Odd]:
    """Yield all inputs."""
    yield from _odd_columns()
    yield from _odd_labels()
    yield from _odd_specs_and_files()


def _odd_columns() -> Iterator[Odd]:
    for name, change in OFFSETS.items():
        yield Odd("a number", name, partial(number, cells=[repr(v) for v in change(STEPS).tolist()]))
    for name, form in FORMS.items():
        yield Odd("a number", name, partial(number, cells=[form(int(v)) for v in STEPS]))
    for mark in MARKS:
        cells = [mark if k % 20 == 3 else str(v) for k, v in enumerate(STEPS)]
        yield Odd("a missing value", mark, partial(number, cells=cells, width=2))
    for name, codes in CODES.items():
        yield Odd("categories", name, partial(category, codes=codes))
    for name, form in COMMAS.items():
        yield Odd("decimal commas", name, partial(commas, form=form))
    for first, second in SPELT:
        yield Odd("categories of two spellings", f"{first} / {second}", partial(spelt, first=first, second=second))
    for text in SLIPS:
        yield Odd("a slip", text, partial(slip, text=text))


def _odd_labels() -> Iterator[Odd]:
    for name, codes in CODES.items():
        for kind in ("csv", "parquet", "npz", "npz of bytes"):
            yield Odd(f"classes ({kind})", name, partial(classes, names=codes, kind=kind))
    for mark in ("\\N", ".", "-", "None", "#NULL!"):
        yield Odd("a missing label", mark, partial(no_class, mark=mark))
    for first, second in SPELT:
        yield Odd("two spellings", f"{first} / {second}", partial(spellings, first=first, second=second))


def _odd_specs_and_files() -> Iterator[Odd]:
    for text in TEXTS:
        for place in ("exclude", "label", "party"):
            yield Odd(f"a name in a spec ({place})", text, partial(name_in_spec, text=text, place=place))
    for text in QUOTED:
        yield Odd("a name to quote", text, partial(quoted, text=text))
    for by, part in LACKING:
        yield Odd("a part without a class", f"{by}: {part}", partial(lacking, by=by, part=part))
    for name, (text, key) in TWICE.items():
        yield Odd("a key given twice", name, partial(twice, text=text, key=key))
    for name, spelt in IDS.items():
        yield Odd("ids", name, partial(ids, change=spelt))
    for name, (content, word) in FILES.items():
        yield Odd("a file", name, partial(file, content=content, word=word))


def main() -> None:
    """Print what becomes of each input, and the counts."""
    counts: dict[str, Counter[str]] = {}
    for odd in odd_inputs():
        try:
            outcome = odd.outcome()
        except Exception as error:  # a traceback for the user
            outcome = f"wrong ({type(error).__name__})"
        counts.setdefault(odd.kind, Counter())[outcome.split(" ")[0]] += 1
        print(f"{odd.kind:32} {odd.name!r:32} {outcome}")
    print()
    for kind, found in counts.items():
        print(f"{kind:32}", *(f"{found[o]:4} {o}" for o in ("right", "told", "refused", "wrong")))
    total = sum(counts.values(), Counter[str]())
    print(f"{'all ' + str(total.total()):32}", *(f"{total[o]:4} {o}" for o in ("right", "told", "refused", "wrong")))


if __name__ == "__main__":
    sys.exit(main())
