"""Secrets: passwords that stay in the environment, and Ray's token in a file that nobody else reads."""

from __future__ import annotations

import os
import re
import secrets
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from tune_vfl.errors import UsageError

_NAMED = re.compile(r"\$\{env:([^}]*)\}")
_QUERY = re.compile(r"[?&](?:ssl)?password=([^&]*)")


def from_environment(text: str, place: str) -> str:
    """Return a text with each ``${env:NAME}`` replaced by what the environment variable holds.

    A text that is one such name alone becomes what the variable holds, a whole URL for example. Inside a longer one
    the value is quoted as a part of a URL, so that a password may hold any character.

    Args:
        text: from a spec, an option or a file.
        place: what it is, for the message.

    Raises:
        UsageError: when the environment has no such variable.
    """

    def held(found: re.Match[str]) -> str:
        value = os.environ.get(found[1])
        if value is None:
            raise UsageError(
                f"{place}: {found[0]} names an environment variable that is not set here; export {found[1]}=..., or "
                "leave the password out and put it into ~/.pgpass"
            )
        return value if found[0] == text else quote(value, safe="")

    return _NAMED.sub(held, text)


def has_password(text: str) -> bool:
    """Say whether a text is a URL with a password written out, rather than ``${env:NAME}`` in its place."""
    _, mark, rest = text.partition("://")
    if not mark:
        return False
    user, at, _ = rest.rpartition("@")
    written = [user.partition(":")[2]] if at else []
    return any(_NAMED.sub("", password) for password in [*written, *_QUERY.findall(rest)])


def token_file() -> Path:
    """Return where Ray looks for its token when no variable holds it: ``RAY_AUTH_TOKEN_PATH``, or in ``~/.ray``."""
    named = os.environ.get("RAY_AUTH_TOKEN_PATH")
    return Path(named).expanduser() if named else Path.home() / ".ray" / "auth_token"


def make_token_private() -> None:
    """Make sure that a Ray which is started here finds a token that only this user can read.

    Ray makes one where there is none, and lets every user of the machine read it: whoever reads it can run code in
    the Ray of whoever started it. Nothing is done where the environment holds a token or asks for none.
    """
    if os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_MODE", "token").lower() != "token":
        return
    path = token_file()
    if path.exists():
        keep_private(path)
    elif "RAY_AUTH_TOKEN_PATH" not in os.environ:
        with suppress(OSError):  # Ray says what it lacks
            _make_token(path)


def keep_private(path: Path) -> None:
    """Let nobody but its owner read a file of ours that others could read, and say so on stderr."""
    with suppress(OSError):
        held = path.stat()
        if held.st_uid != os.getuid() or not held.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            return
        path.chmod(0o600)
        sys.stderr.write(f"tune-vfl: {path} could be read by other users of this machine; it is yours alone now\n")


def _make_token(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent)  # mode 600
    try:
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(32))
        with suppress(FileExistsError):  # another process was faster: its token counts
            path.hardlink_to(draft)
    finally:
        Path(draft).unlink()


def hide_password(url: str) -> str:
    """Return a URL without its password, so that it may be shown."""
    scheme, mark, rest = url.partition("://")
    user, at, host = rest.rpartition("@")
    return f"{scheme}{mark}{user.partition(':')[0]}{at}{host}"
