"""The tutorials are what they say: their files, commands and lines of Python, in order, in an empty folder.

By default what is quick: files, checks of specs and data, and Python; with ``-m slow`` every command.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from docs.kept import blocks, text_of
from docs.run import environment, lines_of
from tests.cluster.test_jobs import RAY_VARIABLES, free_ports

ROOT = Path(__file__).parents[2]
QUICK = ("tune-vfl validate", "tune-vfl data check")
Act = Callable[[str], str]


def follow(page: str, folder: Path, act: Act, alike: Callable[[str], str] = str) -> str:
    """Do what a page says, and return what its commands said; texts after a command must be in its output.

    Args:
        alike: what of a line must be the same, by default all of it.
    """
    told, last = [], ""
    names: dict[str, object] = {}
    for block in blocks(text_of(page)):
        if block.file:
            (folder / block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            exec(block.text, names)  # noqa: S102 - the page's own lines
        elif block.language == "text":
            said = alike(last)
            assert not last or [line for line in block.text.splitlines() if alike(line) not in said] == []
        elif block.runs:
            last = "".join(map(act, lines_of(block.text)))
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


@pytest.mark.parametrize("page", ["index", "first-decision", "own-table", "own-cluster"])
def test_specs_and_data_are_as_the_page_says(page: str, folder: Path, run: Callable[..., tuple[int, str, str]]) -> None:
    def act(line: str) -> str:
        if not line.startswith(QUICK):
            return ""
        code, out, err = run(*shlex.split(line)[1:])
        assert code == 0, err
        return out + err

    assert "note" in follow(page, folder, act) or page != "own-table"
    for spec in folder.glob("*.yaml"):
        act(f"tune-vfl validate {spec.name}")


def test_a_defense_of_ones_own_is_attacked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    follow("attack-your-defense", folder, pytest.fail)
    without, equal = capsys.readouterr().out.splitlines()
    norms = [float(re.search(r"'norm': ([\d.]+)", line)[1]) for line in (without, equal)]  # type: ignore[index]
    clusters = [float(re.search(r"'grad_cluster': ([\d.]+)", line)[1]) for line in (without, equal)]  # type: ignore[index]
    assert norms[1] < 0.6 < norms[0]
    assert min(clusters) > 0.9


@pytest.mark.slow  # minutes: searches, confirmations, an installation
@pytest.mark.parametrize("page", ["index", "first-decision", "own-table", "new-defense", "new-attack"])
def test_every_command_of_a_tutorial_does_its_work(page: str, folder: Path) -> None:
    def act(line: str) -> str:
        done = subprocess.run(
            ["bash", "-c", line], env=environment(folder), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        print(line, done.stdout, sep="\n")
        return done.stdout + done.stderr

    # The first page shows numbers of a training, which differ in their last digits from machine to machine.
    told = follow(page, folder, act, (lambda text: re.sub(r"[\d.]+", "#", text)) if page == "index" else str)
    if page == "new-defense":
        assert "equal_norm" in told
        assert (folder / "compare/index.html").is_file()
    if page == "new-attack":
        assert "peak" in told
    if page == "index":
        assert "Deploy laplace scale=0.1" in told
    if page == "first-decision":
        assert "Deploy laplace scale=0.01 on digits" in told
        assert "Nothing is recommended on breast_cancer while a check fails" in told
    if page == "own-table":
        assert "Deploy laplace scale=" in told
        assert int(re.search(r"It keeps (\d+)% of what the federation brings", told)[1]) > 80  # type: ignore[index]
        for name, here, searched in re.findall(r"(utility|leakage) ([\d.]+); in the search ([\d.]+)", told):
            assert abs(float(here) - float(searched)) < 1e-3, name


@pytest.fixture
def two_nodes(folder: Path) -> Iterator[Callable[[str], str]]:
    """A shell on a machine of which nobody has the ports; whatever Ray it leaves behind ends with the test."""
    gcs, dashboard, *others = free_ports(5)
    sockets = tempfile.mkdtemp(prefix="tv-", dir="/tmp")  # Ray's sockets need a short path
    environment = {k: v for k, v in os.environ.items() if k not in RAY_VARIABLES}
    environment |= {"HOME": sockets, "RAY_TMPDIR": sockets, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(ROOT)}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    head = "--port={} --dashboard-port={} --ray-client-server-port={} --dashboard-agent-listen-port={}"
    ports = {"start --head": f"start --head {head.format(gcs, dashboard, *others[:2])}", "6379": str(gcs)}
    ports |= {"8265": str(dashboard), "52366": str(others[2])}
    ports["--block"] = f"--block --object-store-memory={100 * 2**20}"

    def act(line: str) -> str:
        for shown, here in ports.items():
            line = line.replace(shown, here)
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").partition("=")
            environment[name] = value
            return ""
        done = subprocess.run(
            ["bash", "-c", line], env=environment, capture_output=True, text=True, check=False, timeout=400
        )
        assert done.returncode == 0 or "doctor" in line, f"{line}\n{done.stdout}{done.stderr}"  # other Rays may be open
        print(line, done.stdout, sep="\n")
        return done.stdout + done.stderr

    yield act
    for left in folder.glob("*.pid"):
        with suppress(ProcessLookupError):
            os.kill(int(left.read_text()), signal.SIGTERM)
    shutil.rmtree(sockets, ignore_errors=True)


@pytest.mark.slow  # a minute or two: two nodes start, and one is killed under a search
def test_a_cluster_is_rehearsed_on_one_machine(folder: Path, two_nodes: Callable[[str], str]) -> None:
    told = follow("own-cluster", folder, two_nodes)
    assert "wants a token and takes ours" in told
    assert "Deploy laplace scale=" in told
    assert (folder / "two-nodes/index.html").is_file()
    assert (folder / "on-the-head/ledger.db").is_file()
