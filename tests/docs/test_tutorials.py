"""The tutorials are what they say: their files, commands and lines of Python, in order, in an empty folder.

By default what is quick: files, checks of specs and data, and Python; with ``-m slow`` every command.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TUTORIALS = ("first-decision", "own-table", "attack-your-defense", "new-defense")
BLOCK = re.compile(r"(?:Save as\s`([\w./-]+)`[^`\n]*\n?[^`\n]*\n)?\n?```(\w*)\n(.*?)```", re.DOTALL)
QUICK = ("tune-vfl validate", "tune-vfl data check")
Act = Callable[[str], str]


def follow(page: str, folder: Path, act: Act) -> str:
    """Do what a page says, and return what its commands said; texts after a command must be in its output."""
    told, last = [], ""
    names: dict[str, object] = {}
    for file, language, block in BLOCK.findall((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")):
        if file:
            (folder / file).write_text(block, encoding="utf-8")
        elif language == "python":
            exec(block, names)  # noqa: S102 - the page's own lines
        elif language == "text":
            assert not last or [line for line in block.splitlines() if line not in last] == []
        elif not language:
            last = "".join(act(line.partition("  #")[0].strip()) for line in block.splitlines())
            told.append(last)
    return "".join(told)


@pytest.fixture
def folder(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, but for the examples of the repository, as the working one."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work/examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("TUNE_VFL_DATA", str(tmp_path / "nothing"))
    return tmp_path / "work"


@pytest.mark.parametrize("page", ["first-decision", "own-table"])
def test_specs_and_data_are_as_the_page_says(page: str, folder: Path, run: Callable[..., tuple[int, str, str]]) -> None:
    def act(line: str) -> str:
        if not line.startswith(QUICK):
            return ""
        code, out, err = run(*shlex.split(line)[1:])
        assert code == 0, err
        return out + err

    assert "note" in follow(page, folder, act) or page == "first-decision"


def test_a_defense_of_ones_own_is_attacked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    follow("attack-your-defense", folder, pytest.fail)
    without, equal = capsys.readouterr().out.splitlines()
    norms = [float(re.search(r"'norm': ([\d.]+)", line)[1]) for line in (without, equal)]  # type: ignore[index]
    clusters = [float(re.search(r"'grad_cluster': ([\d.]+)", line)[1]) for line in (without, equal)]  # type: ignore[index]
    assert norms[1] < 0.6 < norms[0]
    assert min(clusters) > 0.9


@pytest.mark.slow  # minutes: searches, confirmations, an installation
@pytest.mark.parametrize("page", ["first-decision", "own-table", "new-defense"])
def test_every_command_of_a_tutorial_does_its_work(page: str, folder: Path) -> None:
    installed = folder.parent / "installed"
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(installed), str(ROOT)]),
        "PIP_TARGET": str(installed),  # beside the environment of the tests, which stays as it is
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "false",
    }

    def act(line: str) -> str:
        done = subprocess.run(["bash", "-c", line], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        print(line, done.stdout, sep="\n")
        return done.stdout + done.stderr

    told = follow(page, folder, act)
    if page == "new-defense":
        assert "equal_norm" in told
        assert (folder / "compare/index.html").is_file()
    if page == "own-table":
        for name, here, searched in re.findall(r"(utility|leakage) ([\d.]+); in the search ([\d.]+)", told):
            assert abs(float(here) - float(searched)) < 1e-3, name
