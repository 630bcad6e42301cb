"""A user's own data files beside the spec of a job: which ones travel, and under which names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tune_vfl.data.own_files import SHIPPED_BYTES, content_digest, own_files, own_paths, relocated, too_large

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def with_data(raw: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Path]]:
    """Return a spec that names its own data files by their content, and those files by these names.

    A file that is not here may be on the cluster, and keeps its name; so do all files where they are too large.

    Args:
        raw: the spec, settings applied.

    Raises:
        DataError: for a file that cannot be read.
    """
    files = own_files(raw)
    if too_large(files):
        return raw, {}
    places = {path: f"data/{content_digest(path)}/{path.name}" for path in files}
    return relocated(raw, places), {place: path for path, place in places.items()}


def stays_here(raw: Mapping[str, Any]) -> str:
    """Return a sentence on a spec's own data that do not travel; empty where all of them do, or are not here."""
    paths = own_paths(raw)
    files = [path for path in paths if path.is_file()]
    left = [f"{path} ({path.stat().st_size / 2**20:.1f} MiB)" for path in files] if too_large(files) else []
    left += [f"{path} (a folder)" for path in paths if path.is_dir()]
    if not left:
        return ""
    return (
        f"these data stay here: {', '.join(left)}. Files of up to {SHIPPED_BYTES >> 20} MiB together travel; larger "
        "ones, and folders, belong on every machine of the cluster, where the spec says or below its folder of data "
        "sets (docs/cluster.md)"
    )
