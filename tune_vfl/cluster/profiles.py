"""Clusters by name: where each one's dashboard is, which token it takes, and where it keeps its studies."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from tune_vfl.cluster.dashboard import DEFAULT_ADDRESS, dashboard_address
from tune_vfl.errors import SpecError, UnknownNameError, UsageError
from tune_vfl.machine.passwords import has_password
from tune_vfl.machine.places import of_user
from tune_vfl.spec import Strict, explain
from tune_vfl.spec.yaml_text import load_yaml

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


class Profile(Strict):
    """One cluster, as ``clusters.yaml`` describes it.

    Attributes:
        address: where its dashboard is, from here: a URL, or ``unix:///PATH/OF/SOCKET``.
        token_file: the file that holds its token, here; without it the token is looked for where Ray does.
        home: ``TUNE_VFL_HOME`` there; without it the cluster's own, else ``~/tune-vfl-home``.
        storage: ``TUNE_VFL_STORAGE`` there; without it the cluster's own.
    """

    address: str = DEFAULT_ADDRESS
    token_file: Path | None = Field(None)
    home: str | None = None
    storage: str | None = None


def profiles_file() -> Path:
    """Return where the clusters are described: ``tune-vfl/clusters.yaml`` in the user's folder of settings."""
    return of_user("XDG_CONFIG_HOME", ".config") / "tune-vfl" / "clusters.yaml"


def find_profile(named: str | None = None) -> Profile:
    """Return the cluster that a person means.

    Args:
        named: a name from ``clusters.yaml``, or where a dashboard is; None is what the environment names, else
            loopback, see :func:`tune_vfl.cluster.dashboard.dashboard_address`.

    Raises:
        UnknownNameError: for a name that ``clusters.yaml`` has not.
        UsageError: when that file is not as expected, or the URL is none.
    """
    if named is None or not _NAME.fullmatch(named):
        return Profile(address=dashboard_address(named))
    known = _read(profiles_file())
    if named not in known:
        if known:
            raise UnknownNameError("cluster", named, known)
        raise UsageError(
            f"no cluster {named!r}: {profiles_file()} describes none. Give the URL of its dashboard, such as "
            f"{DEFAULT_ADDRESS}, or write '{named}: {{address: URL}}' into that file"
        )
    profile = known[named]
    file = profile.token_file
    return profile.model_copy(
        update={"address": dashboard_address(profile.address), "token_file": file and file.expanduser()}
    )


def _read(path: Path) -> dict[str, Profile]:
    if not path.exists():
        return {}
    try:
        raw: Any = load_yaml(path.read_text(encoding="utf-8"), path.name)
    except (OSError, UnicodeDecodeError, SpecError) as error:
        raise UsageError(f"{path}: cannot be read as YAML: {error}") from error
    if raw is not None and not isinstance(raw, dict):
        raise UsageError(f"{path}: expected a mapping of names to clusters, got {type(raw).__name__}")
    found, problems = {}, []
    for name, fields in (raw or {}).items():
        try:
            found[str(name)] = Profile.model_validate(fields or {})
        except ValidationError as error:
            problems += [f"{name}.{problem}" for problem in explain(error, Profile)]
            continue
        if has_password(found[str(name)].storage or ""):
            problems.append(f"{name}.storage: holds a password, which would travel; put it into ~/.pgpass there")
    if problems:
        raise UsageError(f"{path}: " + "; ".join(problems))
    return found
