"""Odd specs: names that YAML reads as something else, keys given twice, percents, what no search could run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.helpers.odd_tables import Odd
from tune_vfl.driver.planning import plan
from tune_vfl.errors import TuneVflError
from tune_vfl.spec.raw import read_yaml

TEXTS = ["1.10", "010", "no", "on", "1e5", "1_0", "0x1F", "2024-01-02", "1:30", "007", "yes", "+1", "1.0"]
QUOTED = ["2024", "on", "no", "1.10", "true", "1e5", "010", "2024-01-02"]
TWICE = {
    "a section": ("attacks: [a]\nstudy: s\nattacks: [b]\n", "attacks"),
    "a field": ("training:\n  epochs: 2\n  lr: 1\n  epochs: 3\n", "epochs"),
    "in one line": ("dataset: {name: csv, label: y, label: z}\n", "label"),
    "a party": ("dataset:\n  parties:\n    p: [a]\n    p: [b]\n", "p"),
    "in quotes": ("study: a\n'study': b\n", "study"),
}
GOOD = {"study": "s", "dataset": "breast_cancer", "defense": "laplace", "attacks": ["norm"]}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a leakage in percent": ({"constraints": {"leakage": 20}}, "20% is 0.2"),
    "a utility in percent": ({"constraints": {"utility": 95}}, "95% is 0.95"),
    "a loss in percent": ({"constraints": {"utility_loss": 5}}, "5% is 0.05"),
    "a cost below 0": ({"constraints": {"cost": -1}}, "of 0 or more"),
    "an attack that is not run": ({"constraints": {"attacks.pmc.success": 0.6}}, "'pmc' is not run"),
    "a key that is nearly one": ({"contraints": {"leakage": 0.2}}, "constraints"),
    "a defense that is nearly one": ({"defense": "laplase"}, "laplace"),
    "an attack that is nearly one": ({"attacks": ["nrm"]}, "norm"),
    "no seed": ({"budget": {"seeds": 0}}, "budget.seeds"),
    "a study like a path": ({"study": "../s"}, "study"),
    "too many known labels": ({"attacks": ["pmc"], "threat": {"labels_per_class": 400}}, "threat.labels_per_class"),
    "a head where there is none": (
        {"attacks": [{"name": "bli", "variants": ["head"]}], "model": {"top": "none"}},
        "does not fit this model",
    ),
    "a client's batch": (
        {
            "defense": "none",
            "attacks": [{"name": "wgi", "rows": 8, "batch": 8}],
            "federation": {"name": "horizontal", "clients": 26},
        },
        "attacks.wgi.batch",
    ),
}


def _name(folder: Path, text: str, place: str) -> str:
    """A name in a spec is the text that stands there, or is to be quoted."""
    column = {"exclude": f"exclude: [{text}]", "label": f"label: {text}", "party": f"parties: {{p: [{text}], q: [a]}}"}
    (folder / "s.yaml").write_text(f"study: s\ndataset: {{name: csv, {column[place]}}}\n")
    try:
        read = read_yaml(folder / "s.yaml")["dataset"]
    except TuneVflError as error:
        return "refused" if "quot" in str(error) else f"wrong: {error}"
    held = {
        "exclude": lambda: read["exclude"][0],
        "label": lambda: read["label"],
        "party": lambda: read["parties"]["p"][0],
    }
    return "right" if str(held[place]()) == text else f"wrong: {read}"


def _quoted(folder: Path, text: str) -> str:
    """A study or a label that other readers take for another value is its text, and told to be quoted."""
    (folder / "s.yaml").write_text(f"dataset: {{name: csv, label: {text}}}\nstudy: {text}\n")
    notes: list[str] = []
    read = read_yaml(folder / "s.yaml", notes.append)
    told = [f'label: "{text}" in line 1', f'study: "{text}" in line 2']
    right = read["study"] == read["dataset"]["label"] == text and len(notes) == 1
    return "told" if right and all(said in notes[0] for said in told) else f"wrong: {notes}"


def _twice(folder: Path, text: str, key: str) -> str:
    """A key given twice is refused by its name."""
    (folder / "s.yaml").write_text(text)
    return _refused(partial(read_yaml, folder / "s.yaml"), (key, "twice"))


def _planned(_: Path, fields: dict[str, Any], word: str) -> str:
    """A spec that no search could run is refused by the field, before anything is run."""
    return _refused(partial(plan, {**GOOD, **fields}), (word,))


def _refused(act: Any, words: Sequence[str]) -> str:
    try:
        act()
    except TuneVflError as error:
        return "refused" if all(word in str(error) for word in words) else f"wrong: {error}"
    return "wrong: taken"


def odd_specs() -> Iterator[Odd]:
    """Yield all odd specs."""
    for text in TEXTS:
        for place in ("exclude", "label", "party"):
            yield Odd(f"a name in a spec ({place})", text, partial(_name, text=text, place=place))
    for text in QUOTED:
        yield Odd("a name to quote", text, partial(_quoted, text=text))
    for name, (content, key) in TWICE.items():
        yield Odd("a key given twice", name, partial(_twice, text=content, key=key))
    for name, (fields, word) in REFUSED.items():
        yield Odd("what no search could run", name, partial(_planned, fields=fields, word=word))
