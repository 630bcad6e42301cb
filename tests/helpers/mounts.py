"""Commands of a shell that may mount what nobody else sees."""

import subprocess
import sys
from pathlib import Path

import pytest


def among_own_mounts(lines: str, folder: Path, *words: str) -> str:
    """Run lines of bash in a folder, and return what they wrote to stdout and stderr; skip the test without the right.

    Args:
        lines: in which ``$0`` is this Python and ``$1`` the first of ``words``.
        folder: the working folder.
        words: further words.
    """
    may = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "none", folder], check=False, capture_output=True
    )
    if may.returncode:
        pytest.skip("no right to mount")
    command = ["unshare", "--mount", "bash", "-c", lines, sys.executable, *words]
    ran = subprocess.run(command, cwd=folder, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return ran.stdout
