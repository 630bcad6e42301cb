"""Advice is followed: what a message says to paste or to set is put into a copy of the spec, which is read again.

The next message is then another one, or none. A message with advice in the source that no case meets fails too.
"""

import ast
import gzip
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from benchmarks.house import ROOT

Run = Callable[..., tuple[int, str, str]]
Spec = dict[str, Any]


class Case(NamedTuple):
    """Files, what the spec has beside the usual, and the advice: a pattern and what follows from it."""

    files: dict[str, bytes]
    spec: Spec
    pattern: str
    follow: Callable[[Spec, re.Match[str]], None]
    verb: tuple[str, ...] = ("data", "check")


def csv(column: list[str], label: list[str] | None = None, rows: int = 120, sep: str = ",", name: str = "y") -> bytes:
    labels = label or ["0", "1", "1"]
    lines = [
        ["a", "t", name],
        *([f"{k * 37 % 101}", column[k % len(column)], labels[k % len(labels)]] for k in range(rows)),
    ]
    return "".join(sep.join(line) + "\n" for line in lines).encode()


def pasted(spec: Spec, found: re.Match[str]) -> None:
    spec["dataset"] |= yaml.safe_load(found[1])


def option(name: str, value: Any = None) -> Callable[[Spec, re.Match[str]], None]:
    def follow(spec: Spec, found: re.Match[str]) -> None:
        spec["dataset"][name] = yaml.safe_load(found[1]) if value is None else value

    return follow


def without(name: str) -> Callable[[Spec, re.Match[str]], None]:
    return lambda spec, _: spec["dataset"].pop(name)


def field(spec: Spec, found: re.Match[str]) -> None:
    part, _, name = found[1].partition(".")
    spec.setdefault(part, {})[name] = yaml.safe_load(found[2])


def slips(spec: Spec, found: re.Match[str]) -> None:
    spec["dataset"]["missing"] = re.findall(r"'([^']*)' in row", found[0])


def renamed(spec: Spec, _: re.Match[str]) -> None:
    Path("t.csv.gz").rename("t.csv")
    spec["dataset"]["path"] = "t.csv"


def unpacked(*_: Any) -> None:
    Path("t.csv").write_bytes(gzip.decompress(Path("t.csv").read_bytes()))


BLOCK = r"(?:paste this into|put this in the place of `{0}` in) `dataset`[^:\n]*:\n((?:  .*\n)+)"
INLINE = r"(?:paste this into|put this in the place of `classes` in) `dataset`: (classes: \{[^}]*\})"
SET = r"set (label: \{.*?\}) in `dataset`"
CITIES = ["Rome", "Rome", "rome", "Bonn", "Paris"]
BOTH = {
    "shop.csv": b"id,city,age\n" + b"".join(b"%d,%s,%d\n" % (k, CITIES[k % 5].encode(), k % 71) for k in range(100)),
    "bank.csv": b"id,city,y\n"
    + b"".join(b"%d,%s,%d\n" % (k, (b"ROME", b"Rome", b"Oslo")[k % 3], k % 2) for k in range(100)),
}
PARTIES = {"id": "id", "path": None, "parties": {"shop": {"path": "shop.csv"}, "bank": {"path": "bank.csv"}}}
VISITS = b"kd,age,city,band,n,m,y\n" + b"".join(
    b"%d,%d,%s,%s,%d,%d,%d\n"
    % (4000 + who, who * 7 % 61, (b"Rome", b"Bonn", b"Oslo")[who % 3], b"abcd"[who % 4 : who % 4 + 1], *rest)
    for who, rest in ((k // 4, (k * 37 % 101, k * 11 % 53, k * 5 % 7 % 2)) for k in range(240))
)
WEST = csv(["Köln", "Bonn"]).decode().encode("cp1252")
FEW = {"threat": {}, "attacks": ["pmc"]}

CASES = {
    "columns that are no features": Case({"t.csv": csv(["x"])}, {}, BLOCK.format("exclude"), pasted),
    "more of them": Case(
        {"t.csv": b"a,b,c,y\n" + b"".join(b"%d,%d,x,%d\n" % (k % 41, k % 7, k % 2) for k in range(120))},
        {"dataset": {"exclude": ["b"], "split": 1.0}},
        BLOCK.format("exclude"),
        pasted,
    ),
    "spellings": Case({"t.csv": csv(CITIES)}, {}, BLOCK.format("categories"), pasted),
    "spellings of two files": Case(BOTH, {"dataset": PARTIES}, BLOCK.format("categories"), pasted),
    "more spellings": Case(
        {"t.csv": csv([*CITIES, "Roma"])},
        {"dataset": {"categories": {"t": {"Roma": "Rome"}}}},
        BLOCK.format("categories"),
        pasted,
    ),
    "spellings of the label": Case({"t.csv": csv(["u", "v"], ["yes", "Yes", "no", "no"])}, {}, INLINE, pasted),
    "more of the label": Case(
        {"t.csv": csv(["u", "v"], ["yes", "Yes", "no", "nope"])},
        {"dataset": {"classes": {"nope": "no"}}},
        INLINE,
        pasted,
    ),
    "spellings and positive": Case(
        {"t.csv": csv(["u", "v"], ["yes", "Yes", "no", "no"])}, {"dataset": {"positive": "yes"}}, INLINE, pasted
    ),
    "a class called NA": Case({"t.csv": csv(["u", "v"], ["NA", "EU", "AS"])}, {}, INLINE, pasted),
    "rows without a label": Case(
        {"t.csv": csv(["u", "v"], ["", "0", "1"])},
        {},
        r"leave them out with drop_unlabeled: (true)",
        option("drop_unlabeled"),
    ),
    "rows without a number": Case(
        {"t.csv": csv(["u", "v"], ["", "0", "1"])},
        {"dataset": {"label": {"column": "y", "above": 0.5}}},
        r"leave such rows out with drop_unlabeled: (true)",
        option("drop_unlabeled"),
    ),
    "a word among numbers": Case(
        {"t.csv": csv(["u", "v"], ["sold", "0", "1"])},
        {"dataset": {"label": {"column": "y", "above": 0.5}}},
        r"holds ('sold') in row .*list it in (missing)",
        lambda spec, found: spec["dataset"].update(missing=[yaml.safe_load(found[1])], drop_unlabeled=True),
    ),
    "a price": Case({"t.csv": csv(["u", "v"], [str(k * k) for k in range(120)])}, {}, SET, pasted),
    "a share": Case({"t.csv": csv(["u", "v"], [str(k / 8) for k in range(120)])}, {}, SET, pasted),
    "many whole numbers": Case({"t.csv": csv(["u", "v"], [str(k) for k in range(24)], 480)}, {}, SET, pasted),
    "slips": Case(
        {"t.csv": csv([*map(str, range(1, 50)), "n.b.", "1.5 m"])},
        {},
        r"read as categories for .*list them in `missing`",
        slips,
    ),
    "a word beside empty fields": Case(
        {"t.csv": csv(["Rome", "Bonn", "", "unknown"])},
        {},
        r"list them in `missing`: column 't' \('(\w+)' in 30 rows",
        lambda spec, found: spec["dataset"].update(missing=[found[1]]),
    ),
    "a code for nothing beside empty fields": Case(
        {"t.csv": csv(["EU", "AS", "", "NA"])},
        {},
        r"give it another name by `categories`: column 't' \('(NA)' in 30 rows",
        lambda spec, found: spec["dataset"].update(categories={"t": {found[1]: "North America"}}),
    ),
    "a class called unknown": Case(
        {"t.csv": csv(["u", "v"], ["0", "1", "", "unknown"])},
        {"dataset": {"drop_unlabeled": True, "classes": {"0": "no", "1": "yes"}}},
        r"'(unknown)' \(30 rows\) is a class beside .* list it in `missing`",
        lambda spec, found: spec["dataset"].update(missing=[found[1]]),
    ),
    "customers by another name": Case(
        {"t.csv": VISITS},
        {"dataset": {"split": 1.0}},
        r'name it: (split: \{group: "kd"\})',
        pasted,
    ),
    "decimal commas": Case({"t.csv": csv([f"{k},5" for k in range(40)], sep=";")}, {}, r'has (decimal: ",")', pasted),
    "decimal commas in the label": Case(
        {"t.csv": csv(["u", "v"], [f"{k},5" for k in range(40)], sep=";")},
        {},
        r'set `decimal` to (",")',
        option("decimal"),
    ),
    "another separator": Case(
        {"t.csv": csv(["u,w", "v"], sep="|")}, {}, r"set `separator` to ('[^']+')", option("separator")
    ),
    "two separators": Case(
        {"t.csv": b"a,x;y\n" + b"".join(b"%d,5;%d\n" % (k % 41, k % 2) for k in range(120))},
        {"dataset": {"split": 1.0}},
        r"set `separator` to one of them",
        option("separator", ";"),
    ),
    "one column": Case({"t.csv": csv(["u", "v"], sep="|")}, {}, r"or set `separator`", option("separator", "|")),
    "imbalanced": Case(
        {"t.csv": csv(["u", "v"], ["1", *["0"] * 11])}, {}, r"set dataset\.metric to (f1)", option("metric")
    ),
    "nobody's columns": Case(
        {"t.csv": csv(["u", "v"])},
        {},
        r"set dataset\.parties to \{passive: \[\.\.\.\],\s+active: \[\.\.\.\]\}",
        option("parties", {"passive": ["a"], "active": ["t"]}),
    ),
    "another encoding": Case({"t.csv": WEST}, {}, r"say its `encoding`, such as (cp1252)", option("encoding")),
    "a null character": Case(
        {"t.csv": csv(["u", "v"]).decode().replace("\n50", "\n\x0050").encode()},
        {},
        r"another `encoding`, such as (utf-16)",
        option("encoding"),
    ),
    "an encoding for UTF-8": Case(
        {"t.csv": csv(["Köln", "Bonn"])},
        {"dataset": {"encoding": "ascii"}},
        "leave `encoding` out",
        without("encoding"),
    ),
    "an encoding that lacks a byte": Case(
        {"t.csv": WEST.replace(b"K\xf6ln", b"K\x81ln")},
        {"dataset": {"encoding": "cp1252"}},
        r"correct that line, or `encoding`: usual ones are cp1252, utf-16, (gb18030)",
        option("encoding", "latin-1"),
    ),
    "labels that attackers know": Case(
        {"t.csv": csv(["u", "v"], ["1", *["0"] * 11])},
        FEW,
        r"set (threat\.labels_per_class) to (\d+)",
        field,
        ("validate",),
    ),
    "rows that attackers know": Case(
        {"t.csv": csv(["u", "v"], rows=60)},
        {"attacks": ["bmi"]},
        r"set attacks\.bmi\.(aux) to (\d+)",
        lambda spec, found: spec.update(attacks=[{"name": "bmi", found[1]: int(found[2])}]),
        ("validate",),
    ),
    "a batch of a client's rows": Case(
        {"t.csv": csv(["u", "v"])},
        {
            "defense": "none",
            "attacks": [{"name": "wgi", "rows": 8, "batch": 8}],
            "federation": {"name": "horizontal", "clients": 6},
        },
        r"set attacks\.wgi\.(batch) to (\d+)",
        lambda spec, found: spec.update(attacks=[{"name": "wgi", "rows": 8, found[1]: int(found[2])}]),
        ("validate",),
    ),
    "percent": Case(
        {"t.csv": csv(["u", "v"])},
        {"constraints": {"leakage": 20}},
        r"(constraints\.leakage): .*20% is ([0-9.]+)",
        field,
        ("validate",),
    ),
    "a table that is packed by its name only": Case(
        {"t.csv.gz": csv(["u", "v"])},
        {"dataset": {"path": "t.csv.gz"}},
        r"take \.gz off its name",
        renamed,
    ),
    "what is packed twice": Case(
        {"t.csv": gzip.compress(gzip.compress(csv(["u", "v"])))},
        {},
        r"not UTF-8|packed once more; (unpack it)",
        unpacked,
    ),
}


def said(run: Run, spec: Spec, verb: tuple[str, ...]) -> tuple[int, str]:
    Path("s.yaml").write_text(yaml.safe_dump(spec, allow_unicode=True))
    code, out, err = run(*verb, "s.yaml")
    assert code in (0, 2), err
    return code, out + err


def looked_for(pattern: str, text: str) -> re.Match[str] | None:
    """Find advice as it is printed, or, where lines were broken to fit a screen, in one line."""
    return re.search(pattern, text) or re.search(pattern, " ".join(text.split()))


MET: dict[str, str] = {}


@pytest.mark.parametrize("case", CASES)
def test_advice_that_is_followed_leads_on(case: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, changes, pattern, follow, verb = CASES[case]
    monkeypatch.chdir(tmp_path)
    for name, content in files.items():
        Path(name).write_bytes(content)
    dataset = {"name": "csv", "path": "t.csv", "label": "y", **changes.get("dataset", {})}
    spec = {"study": "s", "defense": "laplace", "attacks": ["norm"], **changes}
    spec["dataset"] = {name: value for name, value in dataset.items() if value is not None}
    _, before = said(run, spec, verb)
    MET[case] = " ".join(before.split())
    found = looked_for(pattern, before)
    assert found, before
    follow(spec, found)
    _, after = said(run, spec, verb)
    again = looked_for(pattern, after)
    assert again is None or again[0] != found[0], after


ADVICE = re.compile(
    r"paste this into|put this in the place|(?<!-)\bset (?:`|dataset\.|\{)|drop_unlabeled: true|such as utf-16"
    r"|say its `encoding`|leave `encoding` out"
)
ELSEWHERE = {
    "is no text of the `encoding` that is said": "test_text_forms",
    "save it as csv in UTF-8, or say its `encoding`, such as cp1252 or utf-16": "public data are read so too",
}


def advice() -> Iterator[str]:
    """Yield the longest fixed part of each message with advice of the rooms that read a user's data and specs."""
    for path in sorted(
        p for room in ("data", "spec", "evaluation", "driver", "cli") for p in (ROOT / "tune_vfl" / room).rglob("*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.JoinedStr):
                continue
            parts = [part.value if isinstance(part, ast.Constant) else "{" for part in node.values]
            if ADVICE.search("".join(map(str, parts))):
                yield max(map(str, parts), key=len)


def test_every_message_with_advice_is_followed() -> None:
    """Runs after the cases, which note what was printed."""
    if len(MET) < len(CASES):
        pytest.skip("the cases did not run in this process")
    printed = "\n".join(MET.values())
    missed = [part for part in advice() if " ".join(part.split()) not in printed]
    assert [part for part in missed if not any(known in part or part in known for known in ELSEWHERE)] == []
