"""Servers that a URL names, the passwords that go to them, and how a URL is shown.

A study file may come from somebody else. It can make this program speak to a server only where that is one of the
user's own, and take an environment variable only as that server's password.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, quote

from tune_vfl.errors import UsageError

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

OWN = ("TUNE_VFL_STORAGE", "MLFLOW_TRACKING_URI", "TUNE_VFL_HOSTS")
"""The variables whose hosts are the user's own; the last one is a list of hosts."""
_REFERENCE = re.compile(r"\$\{env:([^}]*)\}")
_VARIABLE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
_PATH = re.compile(r"[A-Za-z0-9._~/-]*")
_FILES = ("sqlite:///", "sqlite+pysqlite:///", "file:///")
_PORTS = {"http": 80, "https": 443, "postgresql": 5432, "postgres": 5432, "postgresql+psycopg": 5432}
# What a study file may ask of its connection; every other key, however it is written, could lead elsewhere.
_QUERY = {"sslmode": "verify-full", "connect_timeout": "[0-9]+", "application_name": "[A-Za-z0-9._-]+"}
_SECRETS = frozenset({"password", "sslpassword"})
_ELSEWHERE = (
    "${env:NAME} stands for a password only, as in scheme://user:${env:NAME}@host/path: elsewhere a spec could send "
    "any variable anywhere"
)


class StudyUrl(str):
    """A path or a URL out of a study file, or one that was kept with a study; :func:`usable` decides about it."""

    __slots__ = ()


class NamedServer(NamedTuple):
    """The server that a URL names.

    Attributes:
        host: in lower case, with its port where the URL names one.
        variable: the environment variable that holds its password; None where the URL takes none.
        url: the URL, put together from the parts that were understood.
    """

    host: str
    variable: str | None
    url: str

    @property
    def is_own(self) -> bool:
        """Whether the host is one of the user's own configuration; without a port it is the scheme's usual one."""
        usual = _PORTS[self.url.partition("://")[0]]
        return _with_port(self.host, usual) in {_with_port(host, usual) for host in own_hosts()}


def server_of(text: str) -> NamedServer | None:
    """Take a URL of a study file apart; None for a path and the URL of a file.

    Raises:
        ValueError: when it is no path, ``sqlite:///``, ``file:///``, ``http(s)://`` or ``postgresql://``, or asks for
            more than a study file may; and where a variable stands anywhere but in the password's place.
    """
    if text != text.strip() or not text.isprintable():  # clients strip such letters, and then see a URL
        raise ValueError(_not_for_a_spec("it begins or ends with a blank, or holds a letter that is not shown"))
    if not _REFERENCE.search(text) and (text.startswith(_FILES) or not re.match(r"[A-Za-z][\w+.-]*:|databricks", text)):
        return None
    from sqlalchemy.engine import URL

    url = parts_of(text)
    if url is None:
        raise ValueError(_ELSEWHERE if _REFERENCE.search(text) else _not_for_a_spec("it cannot be read"))
    named = _VARIABLE.fullmatch(str(url.password or ""))
    if len(_REFERENCE.findall(text)) != int(named is not None):
        raise ValueError(_ELSEWHERE)
    if url.drivername not in _PORTS:
        raise ValueError(_not_for_a_spec(f"{url.drivername}:// is another kind"))
    if not (url.host and _HOST.fullmatch(url.host) and _PATH.fullmatch(url.database or "")):
        raise ValueError(_not_for_a_spec("host or path has other characters than letters, digits and . _ ~ / -"))
    query = {str(key): str(value) for key, value in url.query.items()}
    for key, value in query.items():
        if not (key in _QUERY and re.fullmatch(_QUERY[key], value) and url.drivername.startswith("postgres")):
            raise ValueError(_not_for_a_spec(f"?{key}=... could lead elsewhere"))
    user = "" if url.username is None else quote(url.username, safe="")
    if url.password is not None:
        user += f":{named[0] if named else quote(str(url.password), safe='')}"
    bare = URL.create(url.drivername, None, None, url.host, url.port, url.database, query).render_as_string()
    host = f"[{url.host}]" if ":" in url.host else url.host
    return NamedServer(
        f"{host}:{url.port}".lower() if url.port else host.lower(),
        named and named[1],
        bare.replace("://", f"://{user}@", 1) if user else bare,
    )


def parts_of(url: str) -> URL | None:
    """Take a URL apart; None where it is none that SQLAlchemy reads, or a password's ``@`` is not quoted in it."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        parts = make_url(url)
    except (ArgumentError, ValueError):  # such as several hosts with ports, which MLflow or a driver may take
        return None
    return None if "@" in (parts.host or "") else parts


def _not_for_a_spec(why: str) -> str:
    return (
        f"{why}; a study file may name a path, sqlite:///PATH, http(s)://HOST/PATH, or postgresql://USER@HOST/NAME "
        f"with {', '.join(_QUERY)} (sslmode=verify-full); TUNE_VFL_STORAGE and MLFLOW_TRACKING_URI may name anything"
    )


def checked(text: str) -> StudyUrl:
    """Return a path or URL of a study file as one; errors are those of :func:`server_of`."""
    server_of(text)
    return StudyUrl(text)


def usable(text: str, place: str) -> str:
    """Return a path or URL as a client takes it, with the password that it takes from the environment.

    Clients bring along what the environment holds for a server: MLFLOW_TRACKING_TOKEN, PGPASSWORD, ``~/.pgpass``,
    ``~/.netrc``. So a study file reaches servers of the user's own only, with or without a password of its own. A text
    of the user's is taken as it is, unless it names a variable.

    Args:
        text: of a study file (:class:`StudyUrl`), or the user's own.
        place: what it is, for the message.

    Raises:
        UsageError: when it names a server that is not the user's own, or a variable that is not set.
    """
    if not isinstance(text, StudyUrl) and not _REFERENCE.search(text):
        return text
    try:
        server = server_of(text)
    except ValueError as error:
        raise UsageError(f"{place}: {error}") from error
    if server is None:
        return str(text)
    if not server.is_own:
        sent = server.variable or "what the environment holds for such servers (MLFLOW_TRACKING_TOKEN, ~/.pgpass, ...)"
        raise UsageError(
            f"{place}: it would send {sent} to {server.host}, which none of {', '.join(OWN)} names; if that server is "
            f"yours, export TUNE_VFL_HOSTS={server.host}"
        )
    return from_environment(server.url, place)


def from_environment(text: str, place: str) -> str:
    """Return a text of the user's own with each ``${env:NAME}`` replaced by what the environment variable holds.

    A text that is one such name alone becomes what the variable holds, a whole URL for example. Inside a longer one
    the value is quoted as a part of a URL, so that a password may hold any character.

    Args:
        text: from the environment, or checked by :func:`usable`.
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
    found = os.environ.get("TUNE_VFL_HOSTS", "").split(",")
    for name in ("TUNE_VFL_STORAGE", "MLFLOW_TRACKING_URI"):
        with suppress(UsageError):  # a variable that is not set
            found += _hosts_of(from_environment(os.environ.get(name, ""), name))
    return {host.strip().lower() for host in found if host.strip()}


def _hosts_of(url: str) -> list[str]:
    """Return all hosts of a URL of the user's own, as it names them."""
    parts = parts_of(url)
    if parts is None:  # a path, or several hosts with ports, which only another client takes
        return re.split(r"[/?#]", url.partition("://")[2].rpartition("@")[2])[0].split(",")
    host = f"[{parts.host}]" if ":" in (parts.host or "") else parts.host or ""
    named = parts.query.get("host", ())
    more = [one for text in ((named,) if isinstance(named, str) else named) for one in text.split(",")]
    return [*(f"{one}:{parts.port}" if parts.port and one else one for one in host.split(",")), *more]


def _with_port(host: str, usual: int) -> str:
    return host if re.search(r":\d+$", host) and not host.endswith("]") else f"{host}:{usual}"


def has_password(text: str) -> bool:
    """Say whether a text is a URL with a password written out, rather than ``${env:NAME}`` in its place."""
    _, mark, rest = text.partition("://")
    if not mark:
        return False
    user, at, _ = rest.rpartition("@")
    keys = (value for key, value in parse_qsl(rest.partition("?")[2]) if key.lower() in _SECRETS)
    return any(_REFERENCE.sub("", password) for password in ([user.partition(":")[2]] if at else []) + [*keys])


def hide_password(url: str) -> str:
    """Return a URL so that it may be shown: a server's without password, and without what follows a question mark."""
    if "://" not in url or url.startswith(_FILES):
        return url
    from sqlalchemy.engine import URL

    parts = parts_of(url)
    if parts is None:
        head, at, tail = url.partition("://")[2].rpartition("@")
        return f"{url.partition('://')[0]}://{head.partition(':')[0]}{at}{tail.partition('?')[0]}"
    shown = URL.create(parts.drivername, parts.username, None, parts.host, parts.port, parts.database)
    return shown.render_as_string(hide_password=False)
