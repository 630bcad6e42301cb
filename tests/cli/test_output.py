"""Tables on stdout, and what a terminal must not be told by somebody else's text."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import Run
from tune_vfl.cli.output import MANY_ROWS, as_yaml, emit, emit_table, say
from tune_vfl.machine.streams import complain, visible

HIDDEN = "\x1b]0;owned\x07\x9b31m\u202e\u2066\u200f\u2028\x7f\r\x00\U000e0041"
SHOWN = r"\x1b]0;owned\x07\x9b31m\u202e\u2066\u200f\u2028\x7f\r\x00\U000e0041"


def test_a_very_long_table_has_every_number_and_no_lines(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [(f"study#{n}", 1 / (n + 3), None) for n in range(MANY_ROWS + 1)]
    emit_table(("trial", "utility", "cost"), rows)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["trial", "utility", "cost"]
    assert [line.split() for line in lines[1:]] == [[name, f"{u:.4g}", "-"] for name, u, _ in rows]
    emit_table(("trial", "utility", "cost"), rows[:-1])
    assert "│" in capsys.readouterr().out


@pytest.mark.parametrize("rows", [1, MANY_ROWS + 1])
def test_hidden_characters_are_shown_wherever_they_stand(rows: int, capsys: pytest.CaptureFixture[str]) -> None:
    emit(f"a {HIDDEN}\n\tb ü £ 漢")
    emit_table((f"c{HIDDEN}", "[bold]d"), [(f"e{HIDDEN}", {"k": f"f{HIDDEN}"})] * rows, f"g{HIDDEN}")
    say(f"h{HIDDEN}")
    complain([f"i{HIDDEN}", f"j{HIDDEN}"], "data")
    out, err = capsys.readouterr()
    assert visible(out + err) == out + err
    assert f"a {SHOWN}\n\tb ü £ 漢\n" in out
    assert "[bold]d" in out  # nor is it markup
    for letter in "acegfhij":
        assert letter + (" " if letter == "a" else "") + SHOWN in out + err


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"])))
def test_every_other_text_is_unchanged(text: str) -> None:
    assert visible(f"{text}\n\t") == f"{text}\n\t"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_yaml_to_paste_reads_back_as_the_same_names(text: str) -> None:
    for name in (text, f"{text}\u202e"):
        said = as_yaml({"exclude": [name]})
        assert visible(said) == said
        assert yaml.safe_load(said) == {"exclude": [name]}


def test_a_column_that_gives_a_terminal_orders_is_shown_by_every_verb_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path, run: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    red, turned = "\x1b[31mincome", "\u202eemocni"
    table = pd.DataFrame({red: rng.normal(size=40), turned: 1.0, "a": rng.normal(size=40), "y": [0, 1] * 20})
    table.to_csv("a\x1b[2J.csv", index=False)
    Path("s.yaml").write_text(
        'study: s\ndataset: {name: csv, path: "a\\e[2J.csv", label: y}\ndefense: none\nattacks: [norm]\n'
    )
    for verb in (["data", "check", "s.yaml"], ["validate", "s.yaml"], ["data", "check", "a\x1b[2J.csv"]):
        _, out, err = run(*verb)
        assert visible(out + err) == out + err
        assert r"\x1b[" in out + err or r"\e[" in out + err
    _, out, _ = run("data", "check", "s.yaml")
    pasted = out.partition("paste this into `dataset`:\n")[2].partition("\n\n")[0].splitlines()[0]
    assert yaml.safe_load(pasted) == {"exclude": [turned]}


def test_a_method_that_leaves_the_process_is_no_success(run, monkeypatch):
    """A plug-in's defense may call sys.exit(0) in the middle of a training: a CI job would be green."""
    import sys

    from tune_vfl.defenses import Laplace

    monkeypatch.setattr(Laplace, "cut_gradient", lambda *_, **__: sys.exit(0))
    code, out, err = run("evaluate", "-d", "breast_cancer", "-f", "laplace", "-a", "norm", "--seeds", "1")
    assert (code, out) == (1, "")
    assert "left the process by itself (sys.exit, 0)" in err
