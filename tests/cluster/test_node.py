"""A node takes the place of the one it started before, and of no other Ray; a made-up Ray stands for the real one."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time

import pytest

from tune_vfl.cluster import node
from tune_vfl.ledger.process_identity import has_ended

UP = """
import sys, time
sys.stderr.write(" ".join(sys.argv[1:]) + "\\nRay runtime started.\\n")
sys.stderr.flush()
time.sleep(60)
"""


@pytest.fixture
def ray(tmp_path, monkeypatch):
    """What `ray start` is in this test."""
    package = tmp_path / "path" / "ray" / "scripts"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package / "scripts.py").write_text(UP)
    root = str(node.__file__).rpartition("/tune_vfl/")[0]
    monkeypatch.setenv("PYTHONPATH", f"{package.parents[1]}:{root}")
    monkeypatch.setenv("HOME", str(tmp_path))
    yield package / "scripts.py"
    node.stop()


def held(tmp_path):
    return json.loads((tmp_path / ".tune-vfl-node" / f"{platform.node()}.json").read_text())


def test_a_node_is_replaced_and_stopped_and_others_stay(ray, tmp_path):
    other = subprocess.Popen([sys.executable, "-m", "ray.scripts.scripts", "start"])
    try:
        assert node.main(["start", "--head", "--port=1"]) == 0
        first = held(tmp_path)
        log = (tmp_path / ".tune-vfl-node" / f"{platform.node()}.log").read_text()
        assert "start --block" in log
        assert "--head --port=1" in log
        assert (tmp_path / ".tune-vfl-node").stat().st_mode & 0o777 == 0o700
        assert node.main(["start", "--head"]) == 0
        assert has_ended(first)
        assert not has_ended(held(tmp_path))
        assert node.main(["stop"]) == 0
        assert has_ended(held(tmp_path))
        assert node.main(["stop"]) == 0, "there is nothing to stop"
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_node_that_does_not_come_up_says_why(ray, capsys):
    ray.write_text("raise SystemExit('no room here')")
    assert node.main(["start"]) == 1
    assert "no room here" in capsys.readouterr().err


def test_a_process_that_took_the_number_later_is_left_alone(ray, tmp_path):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    time.sleep(0.1)  # starts are counted in hundredths of a second
    try:
        node.main(["start"])
        owner = held(tmp_path)
        node.stop()
        (tmp_path / ".tune-vfl-node" / f"{platform.node()}.json").write_text(json.dumps({**owner, "pid": child.pid}))
        node.stop()
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.1)
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("arguments", [[], ["up"], ["stop", "all"]])
def test_other_words_are_refused(arguments, capsys):
    assert node.main(arguments) == 2
    assert "expected 'start'" in capsys.readouterr().err
