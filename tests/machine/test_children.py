"""Child processes import and run nothing from the working folder, and get no secret that they were not meant to."""

import os
import sys
from pathlib import Path

import pytest

from tune_vfl.machine import children

SHOW = "import json, os, sys; print(json.dumps([sys.path, dict(os.environ), os.getcwd()]))"


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder that everybody can write, with a module, a package and a program planted in it."""
    folder = tmp_path / "planted"
    (folder / "tune_vfl").mkdir(parents=True)
    folder.chmod(0o1777)
    for name in ("json.py", "mlflow.py", "tune_vfl/__init__.py"):
        (folder / name).write_text("raise SystemExit('planted')")
    (folder / "c++").write_text("#!/bin/sh\necho planted\n")
    (folder / "c++").chmod(0o755)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", ".", str(Path(__file__).parents[2])]))
    return folder


@pytest.mark.usefixtures("planted")
@pytest.mark.parametrize("words", [("-c", SHOW), ("-m", "json.tool", "--help")])
def test_a_python_imports_nothing_from_the_working_folder(words: tuple[str, ...]) -> None:
    code, out, err = children.run([sys.executable, *words], seconds=60)
    assert (code, err) == (0, "")
    assert "planted" not in out


def test_no_program_is_found_in_the_working_folder_or_where_everybody_can_write(
    planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.setenv("PATH", os.pathsep.join(["", ".", str(planted), str(own)]))
    with pytest.raises(FileNotFoundError, match=r"no c\+\+ in a folder of the PATH that no other account can write"):
        children.run(["c++"], seconds=60)
    (own / "c++").write_text("#!/bin/sh\necho mine\n")
    (own / "c++").chmod(0o755)
    assert children.find("c++") == own / "c++"
    assert children.run(["c++"], seconds=60) == (0, "mine\n", "")


def test_secrets_go_to_a_child_that_is_meant_to_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("RAY_AUTH_TOKEN", "MLFLOW_TRACKING_PASSWORD", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "TUNE_VFL_STORAGE")
    for name in names:
        monkeypatch.setenv(name, "hidden")
    assert "hidden" not in children.run([sys.executable, "-c", SHOW], seconds=60)[1]
    given = children.run([sys.executable, "-c", SHOW], seconds=60, variables={"RAY_AUTH_TOKEN": "meant"})[1]
    assert '"RAY_AUTH_TOKEN": "meant"' in given
    server = children.start([sys.executable, "-c", SHOW], secrets=True, stdout=-1)
    assert server.communicate()[0].count("hidden") == len(names)


def test_a_child_that_takes_too_long_is_ended() -> None:
    with pytest.raises(TimeoutError, match="took more than 0 s"):
        children.run([sys.executable, "-c", "import time; time.sleep(600)"], seconds=0.2)
