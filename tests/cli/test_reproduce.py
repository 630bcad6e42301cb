"""``tune-vfl reproduce``: what it lists, refuses and writes, without a training."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]
pytestmark = pytest.mark.usefixtures("home")


def test_the_list_says_of_every_table_how_many_numbers_have_a_verdict(run: Run) -> None:
    code, out, _ = run("reproduce", "--list", "--json")
    answer = json.loads(out)
    assert (code, answer["schema"]) == (0, "tune-vfl/reproductions/1")
    by_name = {table["table"]: table for table in answer["tables"]}
    table2 = by_name["gafm-table2"]
    assert table2["cells"] == 64
    assert sum(table2["sizes"].values()) == table2["judged"] >= 16
    assert all(t["because"] for t in by_name.values() if t["state"] != "verdict")
    found = re.search(r"(\d+) of (\d+) published numbers have a verdict: ", answer["says"])
    assert found
    for said, what in zip(map(int, found.groups()), ("judged", "cells"), strict=True):
        # A number that several tables of a paper print counts once in the sentence.
        assert max(t[what] for t in by_name.values()) < said < sum(t[what] for t in by_name.values())


def test_a_table_is_answered_from_what_is_kept_with_a_price_where_there_is_nothing(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    code, out, err = run("reproduce", "ladsg-ablation", "--budget", 0, "--json", "--page", page)
    assert (code, str(page) in err) == (0, True)
    answer = json.loads(out)
    assert {number["verdict"] for number in answer["numbers"]} == {None}
    assert "not run here: about 6 CPU hours a seed" in answer["numbers"][1]["says"]
    assert "31.0" in page.read_text(encoding="utf-8")


def test_a_table_whose_files_are_missing_names_them_and_does_not_end_well(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNE_VFL_DATA", str(tmp_path))
    code, out, err = run("reproduce", "gafm-table2", "--dataset", "spambase", "--seeds", 2)
    assert (code, "0 of 16 numbers have a verdict" in out) == (3, True)
    assert f"nothing was measured: {tmp_path / 'spambase' / 'spambase.data'}: no such file" in err


def test_a_figure_without_numbers_says_so(run: Run) -> None:
    code, out, _ = run("reproduce", "kdk-figure7")
    assert (code, "no numbers in the text" in out) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "give a TABLE, or --list"),
        (("gafm-table2", "--list"), "give a TABLE, or --list"),
        (("gafm-tabel2",), "Did you mean 'gafm-table2'?"),
        (("gafm-table2", "--dataset", "spambass"), "Did you mean 'spambase'?"),
        (("kdk-figure7", "--page", "page.txt"), "expected a name that ends in .html or .md"),
    ],
)
def test_what_cannot_be_done_is_refused_as_usage(run: Run, arguments: tuple[str, ...], says: str) -> None:
    code, out, err = run("reproduce", *arguments)
    assert (code, out) == (2, "")
    assert says in err
