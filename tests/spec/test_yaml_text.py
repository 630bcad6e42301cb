"""YAML 1.2: names are the text that stands in the file, values are numbers, a key given twice is refused."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import Run
from tests.helpers.refusals import refusal
from tune_vfl.errors import SpecError
from tune_vfl.spec import parse
from tune_vfl.spec.raw import apply_settings, read_yaml
from tune_vfl.spec.yaml_text import MOST_ALIASED, MOST_DEPTH, MOST_DIGITS, load_yaml

ODD = ["1.10", "010", "no", "on", "1e5", "1_0", "0x1F", "0o17", "2024-01-02", "1:30", "True", "null", "~", "yes", "007"]
ODD += ["1.0", "12345678901234567890", "+1", ".5", ".inf", "1E50", "0.1000000000000000055"]


def load(text: str, place: tuple[str, ...] = ()) -> Any:
    return load_yaml(text, "s.yaml", place)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1.", 1.0),
        ("-.5", -0.5),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        (".inf", float("inf")),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("", None),
        ("no", "no"),
        ("on", "on"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("2024-01-02", "2024-01-02"),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("[1, 1.50, a]", [1, 1.5, "a"]),
        ("{1: a, true: b, null: c}", {"1": "a", "true": "b", "null": "c"}),
    ],
)
def test_values_outside_of_names(text: str, value: Any) -> None:
    found = load(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ODD)
def test_a_name_is_the_text_that_stands_in_the_file(text: str) -> None:
    spec = load(
        f"study: {text}\ndataset: {{name: csv, label: {text}, exclude: [{text}], parties: {{{text}: [{text}, a]}}}}\n"
        f"matrix: {{dataset: [{{exclude: [{text}]}}]}}\nfederation: {{shards: {{column: {text}}}}}\n"
    )
    named = None if text in {"null", "~"} else text
    assert spec["study"] == spec["dataset"]["label"] == spec["federation"]["shards"]["column"] == named
    lists = (spec["dataset"]["exclude"], spec["matrix"]["dataset"][0]["exclude"], spec["dataset"]["parties"][text][:1])
    assert [[str(entry) for entry in entries] for entries in lists] == [[text]] * 3
    for field, value in (("label", named), ("exclude", [text])):
        set_ = apply_settings({}, [f"dataset.{field}={text if field == 'label' else f'[{text}]'}"])["dataset"][field]
        assert (set_ if field == "label" else [str(s) for s in set_]) == value


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.integers().map(str),
        st.floats(allow_nan=False, allow_infinity=False).map(repr),
        st.from_regex(r"[-+]?[0-9][0-9._eE+-]{0,12}", fullmatch=True),
        st.sampled_from(ODD),
    )
)
def test_any_number_that_is_a_name_reads_back_as_its_text(text: str) -> None:
    (name,) = load(f"dataset: {{exclude: [{text}]}}")["dataset"]["exclude"]
    assert str(name) == text
    again = yaml.safe_dump({"dataset": {"exclude": [name]}})  # as `submit` sends a spec
    assert str(load(again)["dataset"]["exclude"][0]) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: 2\na: 3\n", ["key 'a' is given twice, in line 1 and in line 3; remove one"]),
        ("x: {b: 1, c: 2, b: 3}\n", ["key 'b' is given twice, in line 1 and in line 1; remove one"]),
        ("l:\n- {k: 1}\n- k: 2\n  'k': 3\n", ["key 'k' is given twice, in line 3 and in line 4; remove one"]),
        ("1: a\n'1': b\n", ["key '1' is given twice, in line 1 and in line 2; remove one"]),
        ("a: 1\na: 2\nb: 1\nb: 2\n", ["'a' is given twice, in line 1", "'b' is given twice, in line 3"]),
    ],
)
def test_a_key_given_twice_is_refused_with_both_lines(text: str, said: list[str]) -> None:
    with pytest.raises(SpecError) as error:
        load(text)
    assert len(error.value.problems) == len(said)
    for words, problem in zip(said, error.value.problems, strict=True):
        assert problem.startswith("s.yaml: ")
        assert words in problem


def noted(text: str) -> list[str]:
    notes: list[str] = []
    load_yaml(text, "s.yaml", note=notes.append)
    return [note.partition(": quote ")[2] for note in notes]


@pytest.mark.parametrize("text", ["on", "no", "yes", "true", "2024", "1.10", "1e5", "1_0", "010", "1:30", "2024-01-02"])
def test_a_name_that_may_be_mistaken_is_told_to_be_quoted_with_its_line(text: str) -> None:
    assert noted(f"defense: none\nstudy: {text}\n") == [f'study: "{text}" in line 2']
    assert noted(f"dataset:\n  name: csv\n  label: {text}\n") == [f'label: "{text}" in line 3']
    assert noted(f"study: '{text}'\ndataset: {{label: \"{text}\"}}\n") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dataset: {positive: no, exclude: [1.10, null]}", ['positive: "no"', '"1.10"', '"null"']),
        ("dataset: {parties: {on: [a]}, classes: {yes: 1}}", ['key "on"', 'key "yes"']),
        ("dataset: {exclude: [1, 2.5, 30, a], positive: 1, rows: 100, split: 0.5, classes: {1: a}}", []),
        ("study: a\ntraining: {lr: 1e-3, epochs: 2}\nstorage: null\nsampler: {seed: 010}", []),
        ("dataset: {label: y, drop_unlabeled: true, split: {time: on}}", ['time: "on"']),
        ("matrix: {dataset: [{label: off}]}\nfederation: {client: 7}", ['label: "off"', 'client: "7"']),
    ],
)
def test_what_is_told_to_be_quoted(text: str, said: list[str]) -> None:
    found = noted(text)
    assert len(found) == bool(said)
    assert [part.rpartition(" in line ")[0] for note in found for part in note.split(", ")] == said


def test_of_many_names_to_be_quoted_three_are_shown() -> None:
    (said,) = noted("study: 1\ndataset: {exclude: [no, on, off, yes]}")
    assert said == 'study: "1" in line 1, "no" in line 2, "on" in line 2, and 2 more'


@pytest.mark.parametrize("text", ["null", "~", ""])
def test_a_name_that_is_nothing_is_refused_with_the_way_to_write_it(text: str) -> None:
    with pytest.raises(SpecError, match='study: has no value; where null is a name, quote it: "null"'):
        parse({**load(f"study: {text}"), "dataset": {"name": "digits"}, "defense": "none"})


def test_anchors_and_merges_still_work() -> None:
    assert load("a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}\ne: *x\n") == {
        "a": {"b": 1, "c": 2},
        "d": {"b": 1, "c": 3},
        "e": {"b": 1, "c": 2},
    }


def test_an_alias_is_a_copy() -> None:
    """A setting changes one place only, and what is a name in one place is a number in another."""
    spec = load("a: &x {b: 1}\nc: *x\nn: &n 1.10\ndataset: {label: *n}\n")
    assert apply_settings(spec, ["c.b=2"])["a"] == {"b": 1}
    assert (spec["n"], spec["dataset"]["label"]) == (1.1, "1.10")


def bomb(levels: int, end: str = "[]") -> str:
    """Return a spec with lists of lists, each of which holds the one before ten times."""
    lists = [f"- &a0 {end}", *(f"- &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]" for k in range(1, levels))]
    return "\n".join(["study: s", "deep:", *lists, ""])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (bomb(9), f"line 8: expected aliases that stand for at most {MOST_ALIASED:,} characters"),
        (bomb(9, "{k: 1}").replace("[", "{<<: [").replace("]", "]}"), "line 7: expected aliases that stand for"),
        (f"t: &t {'x' * MOST_ALIASED}\nu: *t\n", "line 2: expected aliases that stand for"),
        ("a: 1\nb: &b [1, *b]", "line 2: *b stands inside of what it names"),
        ("a: &a {b: {<<: *a}}", "line 1: *a stands inside of what it names"),
        ("a: 1\nb: " + "[" * 100_000, f"line 2: expected at most {MOST_DEPTH} lists and mappings in one another"),
        ("a: " + "{b: " * 100_000, f"line 1: expected at most {MOST_DEPTH} lists"),
        ("".join(f"{' ' * k}a:\n" for k in range(100)), f"line {MOST_DEPTH + 1}: expected at most {MOST_DEPTH} lists"),
        (f"a: &a {'[' * 40}{']' * 40}\nb: {'[' * 40}*a{']' * 40}", f"line 2: expected at most {MOST_DEPTH} lists"),
        ("a: 1\nb: " + "9" * 5000, f"line 2: expected a number of at most {MOST_DIGITS} digits, got 5,000"),
        ("b: 0x" + "f" * 5000, f"line 1: expected a number of at most {MOST_DIGITS} digits, got 5,002"),
        ("a: 1\nb: -1e999", "line 2: expected a number below 1.8e308, got -1e999"),
        ("a: !!int x", "line 1: expected a value of the kind int, got 'x'"),
        ("a: !!float x", "expected a value of the kind float, got 'x'"),
        ("a: !!bool x", "expected a value of the kind bool, got 'x'"),
        ("a: !!null x", "expected a value of the kind null, got 'x'"),
        ("a: \0", "the character U+0000"),
        ("a: !!timestamp 2024-99-99", "could not determine a constructor for the tag 'tag:yaml.org,2002:timestamp'"),
        ("a: !!set {b: 1}", "could not determine a constructor"),
        ('a: 1\nb: "\\udc80"', r"line 2: expected text, got '\udc80', which is half of a character"),
        (r'a: "\ud83d\ude00"', r"line 1: expected text, got '\ud83d'"),
        (r'{? "\ud800" : 1}', r"line 1: expected text, got '\ud800'"),
    ],
    ids=range(22),
)
def test_a_document_that_nobody_writes_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(SpecError) as error:
        load(text)
    assert str(error.value).startswith("s.yaml: ")
    assert said in str(error.value)
    assert len(str(error.value)) < 1000


def test_what_is_within_the_limits_is_read() -> None:
    assert load("9" * MOST_DIGITS) == 10**MOST_DIGITS - 1
    assert float(load("0x" + "f" * (MOST_DIGITS - 2))) > 1e290
    assert load("[" * MOST_DEPTH + "]" * MOST_DEPTH)
    assert load(f"t: &t {'x' * (MOST_ALIASED - 1)}\nu: *t\n")
    assert load("dataset: {exclude: [" + "9" * 5000 + "]}")["dataset"]["exclude"] == ["9" * 5000]


@pytest.mark.parametrize(
    "setting",
    ["training.lr=" + "[" * 100_000, "training.lr=" + "9" * 5000, ".".join(["a"] * 1000) + "=1", "a=" + bomb(9)],
    ids=["brackets", "digits", "keys", "aliases"],
)
def test_a_setting_has_the_same_limits(setting: str) -> None:
    with pytest.raises(SpecError, match=r"line \d+: expected") as error:
        apply_settings({}, [setting])
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize(
    "text", ["!!python/name:os.system a", "!!python/object/apply:os.getcwd []", "a: [", "? [a]\n: b"]
)
def test_what_is_no_plain_data_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="not valid YAML"):
        load(text)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("study: a\n", encoding="utf-8-sig")
    assert read_yaml(tmp_path / "s.yaml") == {"study": "a"}


def test_a_device_without_an_end_is_no_spec() -> None:
    with pytest.raises(SpecError, match=r"/dev/zero: cannot be read .*at most 64 MiB of text, got more"):
        read_yaml(Path("/dev/zero"))


def test_a_pipe_is_a_spec(tmp_path: Path) -> None:
    """As a shell's ``<(...)`` and ``/dev/stdin`` are: what comes in several pieces is one text."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("w", buffering=1) as file:
            file.writelines(["study: a\n", "defense: none\n"])

    writer = threading.Thread(target=write)
    writer.start()
    assert read_yaml(pipe) == {"study": "a", "defense": "none"}
    writer.join()


def test_columns_and_classes_reach_the_data_as_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path, run: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(40, 5)), columns=["1.1", "1.10", "010", "8", "no"])
    table.assign(y=["no", "on"] * 20).to_csv("a.csv", index=False)
    Path("s.yaml").write_text(
        "study: 2024\n"
        "dataset: {name: csv, path: a.csv, label: y, positive: no, parties: {on: [1.10], active: [010, no]}}\n"
        "defense: {name: laplace, space: default}\nattacks: [norm]\n"
    )
    code, out, err = run("data", "check", "s.yaml", "--json")
    quote = 'quote study: "2024" in line 1, positive: "no" in line 2, key "on" in line 2, and 3 more'
    assert quote in err
    (facts,) = json.loads(out)["datasets"]
    assert code == 0
    assert {p["name"]: [c["name"] for c in p["columns"]] for p in facts["parties"]} == {
        "on": ["1.10"],
        "active": ["010", "no"],
    }
    assert [c["name"] for c in facts["classes"]] == ["on", "no"]
    code, out, err = run("validate", "s.yaml")
    assert (code, err.count(quote)) == (0, 1)
    resolved = load(out)["dataset"]
    assert (resolved["positive"], resolved["parties"]) == ("no", {"on": ["1.10"], "active": ["010", "no"]})
    assert json.loads(run("validate", "s.yaml", "--json")[1])["studies"][0]["study"] == "2024"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('a: 1\npath: "C:\\Users\\t.csv"', ["line 2", "backslash", "single quotes", "'C:\\Users\\t.csv'"]),
        ('path: "\\\\srv\\x\\t.csv"', ["line 1", "single quotes"]),
        ('path: "D:\\new\\t.csv"', ["line 1", "single quotes"]),
        ("a: 1\n\tb: 2", ["line 2", "a tab", "spaces"]),
        ("a: @b", ["line 1", "cannot begin with @", "quotes"]),
        ("a: b: c", ["line 1", "': '", "quote"]),
        ("a: 1\n b: 2", ["line 2", "line it up"]),
        ('a: "b\nc: d\n', ["begins in line 1", "close it"]),
        ("a: {b: 1\nc: 2}", ["the { of line 1", "close it"]),
        ("a: 1\n---\nb: 2", ["line 2", "second document", "remove"]),
        ("a: 1\n- b: 2", ["line 2", "but found '-'"]),
    ],
)
def test_a_usual_slip_is_said_with_its_line_and_how_it_is_mended(text, said):
    with refusal("s.yaml: line", *said, error=SpecError):
        load_yaml(text, "s.yaml")


def test_a_path_of_windows_in_single_quotes_is_the_text_that_stands_there():
    for text in (r"'C:\Users\new\t.csv'", r"C:\Users\new\t.csv", r'"C:\\Users\\new\\t.csv"'):
        assert load_yaml(f"path: {text}", "s.yaml") == {"path": r"C:\Users\new\t.csv"}
    assert load_yaml('label: "A: x\\ty"', "s.yaml") == {"label": "A: x\ty"}
