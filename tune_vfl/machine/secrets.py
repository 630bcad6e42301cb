"""Ray's token in a file that only its owner can read."""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from tune_vfl.errors import UnreachableError
from tune_vfl.machine.places import home, of_user
from tune_vfl.machine.removing import remove
from tune_vfl.machine.streams import tell


def token_file() -> Path:
    """Return where Ray looks for its token when no variable holds it: ``RAY_AUTH_TOKEN_PATH``, or in ``~/.ray``."""
    return of_user("RAY_AUTH_TOKEN_PATH", ".ray/auth_token")


def make_token_private() -> None:
    """Make sure that a Ray which is started here finds a token that only this user can read.

    Ray makes one where there is none, and lets every user of the machine read it: whoever reads it can run code in
    the Ray of whoever started it. Nothing is done where the environment holds a token or asks for none. Where the
    user's home cannot be written it stands in that of tune-vfl, and ``RAY_AUTH_TOKEN_PATH`` names it for this process.

    Raises:
        UnreachableError: when there is none and it can be written nowhere.
    """
    if os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_MODE", "token").lower() != "token":
        return
    usual, own = token_file(), home() / ".ray" / "auth_token"
    if usual.exists():
        keep_private(usual)
    if usual.exists() or "RAY_AUTH_TOKEN_PATH" in os.environ:
        return
    for path in (usual, own):
        with suppress(OSError):
            _make_token(path)
            if path == own:  # where Ray does not look by itself
                os.environ["RAY_AUTH_TOKEN_PATH"] = str(own)
            return
    raise UnreachableError(
        f"Ray needs a file for its token, and neither {usual} nor {own} can be written: set RAY_AUTH_TOKEN_PATH to a "
        "file with a secret text that only you can read, or TUNE_VFL_HOME to a folder of yours"
    )


def keep_private(path: Path) -> None:
    """Make one's own file unreadable for other users, with a message on stderr if it was readable."""
    with suppress(OSError):
        held = path.stat()
        shared = held.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
        if not stat.S_ISREG(held.st_mode) or held.st_uid != os.getuid() or not shared:
            return
        path.chmod(0o600)
        tell(f"tune-vfl: {path} could be read by other users of this machine; it is yours alone now")


def _make_token(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent)  # mode 600
    try:
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(32))
        with suppress(FileExistsError):  # another process was faster: its token counts
            path.hardlink_to(draft)
    finally:
        remove(Path(draft), path.parent)
