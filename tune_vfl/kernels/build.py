"""C++ compiled into a library of this user's, once for a kind of processor, a compiler and an interpreter."""

from __future__ import annotations

import hashlib
import os
import platform
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from filelock import FileLock, Timeout

from tune_vfl.errors import TuneVflError, UnwritableError
from tune_vfl.machine import children
from tune_vfl.machine.files import written_whole
from tune_vfl.machine.places import user_cache

HERE = Path(__file__).parent
SOURCES = tuple(HERE / f"{name}.cpp" for name in ("passes", "rows", "visits", "clusters", "distances"))
READ = (*SOURCES, HERE / "registers.h")
OPTIONS = ("-std=c++17", "-O2", "-march=native", "-fno-math-errno", "-shared", "-fPIC")
COMPILERS = ("c++", "g++", "clang++")
PATIENCE_SECONDS = 120.0
REMEMBERED_SECONDS = 3600.0
"""A failed build is tried again after so long."""


class NotBuiltError(TuneVflError):
    """There is no machine code on this machine; says why, and what to do."""


def folder() -> Path:
    """Return where libraries are kept."""
    return user_cache() / "kernels"


def library() -> Path:
    """Return the library, compiled where it was not yet; by one process at a time.

    Raises:
        NotBuiltError: without a compiler or a place that is this user's alone, and where it does not compile.
    """
    compiler, made = _compiler(), examined()
    if made.exists():
        return made
    try:
        with FileLock(f"{made}.lock", timeout=PATIENCE_SECONDS):
            if not examined().exists():  # another process may have compiled it, or failed to, in the meantime
                _compile(compiler, made)
        return examined()
    except (OSError, UnwritableError) as error:
        raise NotBuiltError(f"nothing can be kept in {made.parent} ({error})") from error
    except Timeout as error:
        raise NotBuiltError(f"another process compiles it for over {PATIENCE_SECONDS:.0f} s ({error})") from error


def examined() -> Path:
    """Return where the library of this machine lies or is to lie.

    Raises:
        NotBuiltError: where it cannot be used or must not be trusted, and where it was found to be of no use.
    """
    made = folder() / f"{_key(_compiler())}.so"
    _make_folder(made.parent)
    _refuse_others(made.parent, stat.S_ISDIR)
    if made.exists():
        _refuse_others(made, stat.S_ISREG)
    note = _note(made)
    if note.exists() and time.time() - note.stat().st_mtime < REMEMBERED_SECONDS:
        raise NotBuiltError(_remembered(made, note.read_text(encoding="utf-8", errors="replace")))
    return made


def stale() -> list[Path]:
    """Return files of libraries for other sources, compilers, interpreters or processors; none without a compiler."""
    try:
        mine = _key(_compiler())
    except NotBuiltError:
        return []
    return [path for path in sorted(folder().glob("[0-9a-f]*.*")) if not path.name.startswith(mine)]


def remember(made: Path, why: str) -> NotBuiltError:
    """Keep why a library is of no use, so that no process tries it for an hour; return the error that says so."""
    try:
        with written_whole(_note(made)) as draft:
            draft.write_text(why, encoding="utf-8")
    except (OSError, UnwritableError):
        return NotBuiltError(why)
    return NotBuiltError(_remembered(made, why))


def _make_folder(place: Path) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise NotBuiltError(f"nothing can be kept in {place} ({error})") from error


def _refuse_others(place: Path, is_kind: Callable[[int], bool]) -> None:
    """Refuse a folder or a file that anybody but this user could have put there or changed."""
    found = place.lstat()
    if not is_kind(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise NotBuiltError(
            f"{place} is a link, belongs to another user or can be written by others, so that nothing in it is run; "
            "remove it, and it is made anew"
        )


def _note(made: Path) -> Path:
    return made.with_suffix(".failed")


def _remembered(made: Path, why: str) -> str:
    return f"{why}; it is tried again an hour later, or once {_note(made)} is removed"


def _compile(compiler: str, made: Path) -> None:
    """Compile the library."""
    with written_whole(made) as draft:
        command = [compiler, *OPTIONS, "-o", str(draft), *map(str, SOURCES)]
        try:
            code, _, said = children.run(command, PATIENCE_SECONDS)
        except TimeoutError as error:
            raise remember(made, str(error)) from error
        if code:
            lines = [line for line in said.splitlines() if "error" in line] or [f"exit {code}"]
            raise remember(made, f"{compiler} does not compile it: {lines[0]}")


def _compiler() -> str:
    """Return the path of a compiler."""
    for name in COMPILERS:
        with suppress(FileNotFoundError):
            return str(children.find(name))
    raise NotBuiltError(f"no compiler is on the PATH: none of {', '.join(COMPILERS)}")


@cache
def version_of(compiler: str) -> str:
    """Return the first line of what a compiler says of itself.

    Raises:
        NotBuiltError: where it says nothing.
    """
    try:
        code, said, complaint = children.run([compiler, "--version"], seconds=30)
    except OSError as error:
        raise NotBuiltError(f"{compiler} --version failed ({error})") from error
    if code:
        raise NotBuiltError(f"{compiler} --version failed (exit {code}: {complaint.strip()})")
    return said.partition("\n")[0]


def _key(compiler: str) -> str:
    """Return what a library is good for: these sources and options, this compiler, interpreter and processor."""
    told = hashlib.sha256(b"".join(path.read_bytes() for path in READ))
    interpreter = platform.python_implementation(), platform.python_version()
    of = (*OPTIONS, compiler, version_of(compiler), *interpreter, platform.system(), platform.machine(), _processor())
    told.update("\n".join(of).encode())
    return told.hexdigest()[:16]


def _processor() -> str:
    """Return model and instruction sets of the processor, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    kinds = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags", "Features")
    return "\n".join(sorted({line for line in lines if line.split(":")[0].strip() in kinds}))
