"""Routines in machine code, where there is a compiler.

Nothing needs them. Without a compiler, or a place for what it makes, torch does the same work.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import Any

from tune_vfl.kernels import build


@cache
def compiled() -> ctypes.CDLL | None:
    """Return the library of this machine, compiled now if it never was; None where that cannot be.

    ``TUNE_VFL_NATIVE=0`` does without it.
    """
    try:
        return load() if wanted() else None
    except build.NotBuiltError:
        return None


def wanted() -> bool:
    """Return whether machine code is to be used where there is any."""
    return os.environ.get("TUNE_VFL_NATIVE") != "0"


def load() -> ctypes.CDLL:
    """Load the library, compiled now if it never was.

    Raises:
        NotBuiltError: with the reason why that cannot be.
    """
    made = build.library()
    try:
        return ctypes.CDLL(str(made))
    except OSError as error:
        raise build.remember(made, f"{made} cannot be loaded ({error})") from error


def obstacle() -> str:
    """Return why torch does all the work, as far as is known without compiling; empty where it need not, or is to."""
    try:
        if wanted():
            build.examined()
    except build.NotBuiltError as error:
        return str(error)
    return ""


@cache
def routine(name: str, *arguments: Any, returns: Any = None) -> Callable[..., Any] | None:
    """Return a routine of the library, told the C types of what it takes and returns; None without the library."""
    loaded = compiled()
    if loaded is None:
        return None
    found: Callable[..., Any] = getattr(loaded, name)
    found.argtypes, found.restype = arguments, returns  # type: ignore[attr-defined]
    return found
