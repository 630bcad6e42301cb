"""Pages that are run: what they show is what they printed, and a change of either is noticed."""

from __future__ import annotations

import re
from pathlib import Path
from unittest.mock import Mock

import pytest

from docs.kept import BOOK, PAGES, kept, show, stale, text_of, with_outputs
from docs.run import follow


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_what_its_blocks_printed(page: str) -> None:
    assert stale(page) == []
    run = kept(page)
    assert any(said["text"] or said.get("html") for said in run["said"])
    for said in run["said"]:
        assert not re.search(r"/(tmp|home|root)/", said["text"]), "a folder of the machine on which it was run"


@pytest.mark.parametrize("page", [page for page in PAGES if page != BOOK])
def test_a_changed_block_fails_the_build(page: str, caplog: pytest.LogCaptureFixture) -> None:
    text = text_of(page)
    changed = re.sub(r"(--seeds|import|search|python) ", r"\1  ", text)
    assert changed != text
    (problem,) = stale(page, changed)
    assert f"python -m docs.run {page}" in problem
    source = [changed]
    app = Mock()
    show(app, f"docs/{page}", source)
    assert app.env.note_dependency.called
    if page == "index":  # it includes what is read of the README
        return
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert source == [changed]


@pytest.mark.parametrize("page", ["index", "own-table", "own-loop"])
def test_a_changed_output_fails_the_build(page: str) -> None:
    text = text_of(page)
    number = re.findall(r"^```text\n.*?(\d\d+)", text, re.DOTALL | re.MULTILINE)[-1]
    shown = re.sub(r"(^```text\n[^`]*?)\b" + number, rf"\g<1>{number}9", text, flags=re.MULTILINE)
    assert all("not printed" in problem for problem in stale(page, shown))
    assert stale(page, shown)


def test_outputs_stand_behind_their_blocks() -> None:
    text = with_outputs("first-decision", text_of("first-decision"))
    assert text.index("search digits.yaml") < text.index("Deploy laplace") < text.index("status digits")
    assert "](outputs/first-decision-" in text


def test_what_is_quick_is_run_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    now, then = follow("attack-your-defense", tmp_path), kept("attack-your-defense")["said"]
    numbers = [[float(n) for n in re.findall(r"\d\.\d+", "".join(s["text"] for s in said))] for said in (now, then)]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.05)
    assert len(numbers[0]) == 6
