"""C++ that is compiled where there is a compiler, once a machine and kind of processor.

Nothing needs it. Without a compiler, or a place for what it makes, torch does the same work.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from tune_vfl.errors import UnwritableError
from tune_vfl.machine.files import written_whole
from tune_vfl.machine.places import user_cache

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
SOURCES = tuple(HERE / f"{name}.cpp" for name in ("passes", "rows", "visits", "clusters", "distances"))
READ = (*SOURCES, HERE / "registers.h")
OPTIONS = ("-std=c++17", "-O2", "-march=native", "-fno-math-errno", "-shared", "-fPIC")
COMPILERS = ("c++", "g++", "clang++")
PATIENCE_SECONDS = 120.0


@cache
def compiled() -> ctypes.CDLL | None:
    """Return what this machine has of the library, compiled now if it never was; None where that cannot be.

    ``TUNE_VFL_NATIVE=0`` does without it.
    """
    if os.environ.get("TUNE_VFL_NATIVE") == "0":
        return None
    try:
        return ctypes.CDLL(str(library()))
    except (OSError, UnwritableError, Timeout, subprocess.SubprocessError):
        return None


@cache
def routine(name: str, *arguments: Any, returns: Any = None) -> Callable[..., Any] | None:
    """Return a routine of the library, told the C types of what it takes and returns; None without the library."""
    loaded = compiled()
    if loaded is None:
        return None
    found: Callable[..., Any] = getattr(loaded, name)
    found.argtypes, found.restype = arguments, returns  # type: ignore[attr-defined]
    return found


def library() -> Path:
    """Return the library, compiled where it was not yet; by one process at a time.

    Raises:
        OSError: without a compiler.
        UnwritableError: without a place to keep it.
        Timeout: where another process takes too long.
        subprocess.SubprocessError: where it does not compile.
    """
    made = user_cache() / "kernels" / f"{_key()}.so"
    if made.exists():
        return made
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise FileNotFoundError(f"no compiler: none of {', '.join(COMPILERS)}")
    made.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{made}.lock", timeout=PATIENCE_SECONDS):
        if not made.exists():
            with written_whole(made) as draft:
                command = [compiler, *OPTIONS, "-o", str(draft), *map(str, SOURCES)]
                subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_SECONDS)  # noqa: S603 - ours
    return made


def _key() -> str:
    """Return what a library is good for: these sources, on processors like this one."""
    told = hashlib.sha256(b"".join(path.read_bytes() for path in READ))
    told.update("\n".join((*OPTIONS, platform.system(), platform.machine(), _processor())).encode())
    return told.hexdigest()[:16]


def _processor() -> str:
    """Return model and instruction sets of the processor, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    kinds = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags", "Features")
    return "\n".join(sorted({line for line in lines if line.split(":")[0].strip() in kinds}))
