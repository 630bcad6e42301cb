"""Child processes: the one place that starts them, and what each is given.

The working folder may be one that other accounts write, with a ``numpy.py`` or a ``c++`` in it: a child looks there for
nothing. And a compiler or a probe needs no password: a child gets those alone that its caller names.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_SECRET = re.compile(
    r"TOKEN|PASSWORD|PASSWD|SECRET|CREDENTIAL|API_?KEY|ACCESS_?KEY|_STORAGE$|_URI$|_DSN$", re.IGNORECASE
)
_FOLDER = "/"

Child = subprocess.Popen[str]
"""A child process that was started."""


def start(
    words: Sequence[str], variables: Mapping[str, str] | None = None, *, secrets: bool = False, **pipes: Any
) -> Child:
    """Start a program.

    Args:
        words: the program and its arguments; a relative path among them means nothing to the child, which does not
            start in the working folder.
        variables: set in its environment.
        secrets: whether it gets the tokens, passwords and URLs that this process's environment holds.
        pipes: ``stdout``, ``stderr`` and ``start_new_session``, as for :class:`subprocess.Popen`.

    Raises:
        OSError: when the program cannot be started, or stands only where other accounts can write.
    """
    program, *arguments = words
    kept = {name: value for name, value in os.environ.items() if secrets or not _SECRET.search(name)}
    environment = {**kept, **safe_imports(), **(variables or {})}
    command = [str(find(program)), *arguments]
    return subprocess.Popen(command, env=environment, cwd=_FOLDER, text=True, **pipes)  # noqa: S603 - found, see find


def run(words: Sequence[str], seconds: float, variables: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Run a program to its end, without secrets; return its exit code, and what it wrote to stdout and stderr.

    Raises:
        OSError: as for :func:`start`.
        TimeoutError: when it takes longer; it is ended.
    """
    silent, pipe = subprocess.DEVNULL, subprocess.PIPE
    with start(words, variables, stdin=silent, stdout=pipe, stderr=pipe) as child:
        try:
            out, err = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired as error:
            child.kill()
            raise TimeoutError(f"{words[0]} took more than {seconds:.0f} s") from error
    return child.returncode, out, err


def find(program: str) -> Path:
    """Return the path of a program: itself where it is one, else in the first folder of the PATH that may be trusted.

    That is an absolute one, which belongs to root or to this user and which not everybody can write.

    Raises:
        FileNotFoundError: where there is none.
    """
    if os.sep in program:
        return Path(program).absolute()
    for folder in map(Path, os.get_exec_path()):
        found = folder / program
        if folder.is_absolute() and os.access(found, os.X_OK) and found.is_file() and _may_be_trusted(folder):
            return found
    raise FileNotFoundError(f"no {program} in a folder of the PATH that no other account can write")


def _may_be_trusted(place: Path) -> bool:
    """Return whether a file or folder belongs to root or this user, and cannot be written by everybody."""
    held = place.stat()
    return held.st_uid in (0, os.getuid()) and not held.st_mode & stat.S_IWOTH


def safe_imports() -> dict[str, str]:
    """Return variables by which a Python started here imports nothing from the working folder."""
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(filter(os.path.isabs, named))}
