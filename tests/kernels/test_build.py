"""What is compiled, for whom, and what becomes of a machine where it cannot be."""

import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tune_vfl.kernels import build, compiled
from tune_vfl.machine import children
from tune_vfl.service.health import machine_code

afresh = compiled.compiled.__wrapped__
WARNINGS = ("-Wall", "-Wextra", "-Wpsabi", "-Werror")
BROKEN = 'echo "passes.cpp:1: error: no such thing" >&2; exit 1'
NO_LIBRARY = 'while [ "$1" != -o ]; do shift; done; echo no > "$2"'


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], Path]:
    """Puts a script in the place of the compiler, which notes how often it is asked for a library."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TUNE_VFL_NATIVE", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    build.version_of.cache_clear()

    def put(does: str, version: str = "c++ 1") -> Path:
        count = tmp_path / "count"
        script = f'#!/bin/sh\n[ "$1" = --version ] && echo {version} && exit\necho >> {count}\n{does}\n'
        (tmp_path / "c++").write_text(script)
        (tmp_path / "c++").chmod(0o755)
        build.version_of.cache_clear()
        return count

    return put


def tries(count: Path) -> int:
    return len(count.read_text().splitlines()) if count.exists() else 0


@pytest.mark.parametrize(
    ("does", "why"), [(BROKEN, "error: no such thing"), (NO_LIBRARY, "cannot be loaded")], ids=["broken", "no library"]
)
def test_a_build_that_fails_is_remembered_and_said(
    monkeypatch: pytest.MonkeyPatch, compiler: Callable[..., Path], does: str, why: str
) -> None:
    count = compiler(does)
    assert compiled.obstacle() == "", "nobody knows yet"
    assert [afresh(), afresh()] == [None, None]
    assert tries(count) == 1, "no other process tries it again"
    assert why in compiled.obstacle()
    (note,) = build.folder().glob("*.failed")
    assert str(note) in compiled.obstacle(), "what to remove"
    found = machine_code()
    assert (found.status, why in found.detail) == ("finding", True)
    os.utime(note, (0, 0))
    assert afresh() is None
    assert tries(count) == (2 if does == BROKEN else 1), "an hour later it is tried again"
    note.unlink()
    assert compiled.obstacle() == ""
    monkeypatch.setenv("TUNE_VFL_NATIVE", "0")
    assert (afresh(), compiled.obstacle(), machine_code().status) == (None, "", "ok")


def test_another_compiler_or_interpreter_compiles_anew(
    monkeypatch: pytest.MonkeyPatch, compiler: Callable[..., Path]
) -> None:
    compiler(NO_LIBRARY)
    made = {build.library()}
    assert build.library() in made
    compiler(NO_LIBRARY, version="c++ 2")
    made.add(build.library())
    monkeypatch.setattr(platform, "python_version", lambda: "3.99.0")
    made.add(build.library())
    monkeypatch.setattr(build, "_processor", lambda: "another one")
    made.add(build.library())
    assert len(made) == 4
    assert all(one.exists() for one in made)


def test_without_a_compiler_it_is_said(monkeypatch: pytest.MonkeyPatch, compiler: Callable[..., Path]) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert afresh() is None
    assert "no compiler is on the PATH" in compiled.obstacle()
    assert machine_code().status == "finding"


def opened(path: Path) -> None:
    path.chmod(path.stat().st_mode | 0o020)


def linked(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize("harm", [opened, linked])
@pytest.mark.parametrize("of", ["the file", "the folder"])
def test_what_others_could_have_written_is_not_loaded(
    compiler: Callable[..., Path], harm: Callable[[Path], None], of: str
) -> None:
    compiler(NO_LIBRARY)
    made = build.library()
    harm(made if of == "the file" else made.parent)
    with pytest.raises(build.NotBuiltError, match="can be written by others, so that nothing in it is run; remove it"):
        build.library()
    assert "remove it, and it is made anew" in compiled.obstacle()


def test_what_another_user_owns_is_not_loaded(monkeypatch: pytest.MonkeyPatch, compiler: Callable[..., Path]) -> None:
    compiler(NO_LIBRARY)
    build.library()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(build.NotBuiltError, match="belongs to another user"):
        build.library()


def test_a_folder_is_made_for_this_user_alone(compiler: Callable[..., Path]) -> None:
    before = os.umask(0o002)
    try:
        compiler(NO_LIBRARY)
        made = build.library()
    finally:
        os.umask(before)
    assert made.parent.stat().st_mode & 0o777 == 0o700
    assert made.stat().st_mode & 0o022 == 0


def test_it_is_compiled_once_for_processors_that_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    if compiled.compiled() is None:
        pytest.skip("no compiler on this machine")
    made = build.library()
    real = children.run

    def only_asked(command: list[str], seconds: float) -> Any:
        assert command[1:] == ["--version"], "compiled again"
        return real(command, seconds)

    monkeypatch.setattr(children, "run", only_asked)
    assert build.library() == made


@pytest.mark.slow
@pytest.mark.parametrize("march", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_the_sources_compile_without_a_warning(march: str, tmp_path: Path) -> None:
    """Also for registers that this processor does not have."""
    compiler = next(filter(None, map(shutil.which, build.COMPILERS)), None)
    if compiler is None or platform.machine() not in {"x86_64", "AMD64"}:
        pytest.skip("no compiler on this machine, or other registers")
    options = [f"-march={march}" if option == "-march=native" else option for option in build.OPTIONS]
    command = [compiler, *options, *WARNINGS, "-o", str(tmp_path / "made.so"), *map(str, build.SOURCES)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
