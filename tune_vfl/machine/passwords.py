"""Passwords that a spec names and the environment holds: ``${env:NAME}`` in the password's place of a URL.

A spec may come from somebody else. It can make this program send an environment variable to a server only as a
password, and only to a host of the user's own configuration.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple
from urllib.parse import quote

from tune_vfl.errors import UsageError

_REFERENCE = re.compile(r"\$\{env:([^}]*)\}")
_URL = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*://[^:/?#@\s$]+:\$\{env:(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}"
    r"@(?P<host>(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?)(?P<rest>[/?][^@#$\\\s]*)?"
)
_QUERY = re.compile(r"[?&](?:ssl)?password=([^&]*)")
# By these a PostgreSQL URL names another server than the one in its place.
_ANOTHER = re.compile(r"[?&](?:host|hostaddr|port|service|servicefile|options)=", re.IGNORECASE)
OWN = ("TUNE_VFL_STORAGE", "MLFLOW_TRACKING_URI", "TUNE_VFL_HOSTS")
"""The variables whose hosts are the user's own; the last one is a list of hosts."""


class Password(NamedTuple):
    """A password that a text takes from the environment.

    Attributes:
        variable: that holds it.
        host: that it is sent to, with its port where the text names one.
    """

    variable: str
    host: str

    @property
    def is_own(self) -> bool:
        """Whether the host is one of the user's own configuration."""
        return self.host.lower() in own_hosts()


def password_of(text: str) -> Password | None:
    """Return the password that a text of a spec takes from the environment; None where it takes nothing.

    Raises:
        ValueError: when a variable stands anywhere but in the password's place of a URL.
    """
    if not _REFERENCE.search(text):
        return None
    found = _URL.fullmatch(text)
    if found is None or _ANOTHER.search(found["rest"] or ""):
        raise ValueError(
            "${env:NAME} stands for a password only, as in scheme://user:${env:NAME}@host/path, in a URL that names "
            "its host there alone: elsewhere a spec could send any variable anywhere"
        )
    return Password(found["name"], found["host"])


def refuse_other_hosts(text: str | None, place: str) -> None:
    """Refuse a text of a spec or an option that would send an environment variable to a host of others.

    Raises:
        UsageError: naming the variable and the host, or the other place in which a variable stands.
    """
    try:
        password = password_of(text or "")
    except ValueError as error:
        raise UsageError(f"{place}: {error}") from error
    if password is not None and not password.is_own:
        raise UsageError(
            f"{place}: it would send {password.variable} to {password.host}, which none of {', '.join(OWN)} names; if "
            f"that server is yours, export TUNE_VFL_HOSTS={password.host}"
        )


def with_password(text: str, place: str) -> str:
    """Return a text of a spec or an option with the password that it takes from the environment.

    Raises:
        UsageError: as :func:`refuse_other_hosts`, and when there is no such variable.
    """
    refuse_other_hosts(text, place)
    return from_environment(text, place)


def from_environment(text: str, place: str) -> str:
    """Return a text of the user's own with each ``${env:NAME}`` replaced by what the environment variable holds.

    A text that is one such name alone becomes what the variable holds, a whole URL for example. Inside a longer one
    the value is quoted as a part of a URL, so that a password may hold any character.

    Args:
        text: from the environment, or checked by :func:`with_password`.
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

    return _REFERENCE.sub(held, text)


def own_hosts() -> set[str]:
    """Return the hosts of the user's own configuration, in lower case, each with its port where that is named."""
    *urls, hosts = (os.environ.get(name, "") for name in OWN)
    authorities = (re.split(r"[/?#]", url.partition("://")[2])[0].rpartition("@")[2] for url in urls)
    return {host.strip().lower() for host in (*authorities, *hosts.split(",")) if host.strip()}


def has_password(text: str) -> bool:
    """Say whether a text is a URL with a password written out, rather than ``${env:NAME}`` in its place."""
    _, mark, rest = text.partition("://")
    if not mark:
        return False
    user, at, _ = rest.rpartition("@")
    written = [user.partition(":")[2]] if at else []
    return any(_REFERENCE.sub("", password) for password in [*written, *_QUERY.findall(rest)])


def hide_password(url: str) -> str:
    """Return a URL without its password, so that it may be shown."""
    scheme, mark, rest = url.partition("://")
    user, at, host = rest.rpartition("@")
    return f"{scheme}{mark}{user.partition(':')[0]}{at}{host}"
