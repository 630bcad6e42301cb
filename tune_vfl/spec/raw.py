"""A spec before it is parsed: read it from a file, apply ``--set`` settings, expand a matrix into studies."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from datetime import date
from pathlib import Path, PurePath
from typing import Any

from pydantic import BaseModel

from tune_vfl.errors import SpecError
from tune_vfl.spec.listed import as_list
from tune_vfl.spec.yaml_text import load_yaml

MOST_BYTES = 2**26
"""How much a file of text may hold: a device may have no end."""
_NAMES_A_TABLE = "which names a table: dataset: {name: csv, path: TABLE, label: COLUMN}"


def read_text(path: Path) -> str:
    """Read a file of UTF-8, with or without a byte order mark; a pipe is one.

    Raises:
        OSError: when it cannot be read.
        ValueError: when it is no UTF-8, or holds more than :data:`MOST_BYTES`.
    """
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"expected at most {MOST_BYTES // 2**20} MiB of text, got more")
    return content.decode("utf-8-sig")


def read_yaml(path: Path, note: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Read a spec file.

    Args:
        path: the file.
        note: gets a sentence on names that should be quoted, see :func:`tune_vfl.spec.yaml_text.load_yaml`.

    Raises:
        SpecError: when the file is missing or has no end, is not YAML, gives a key twice, or does not hold a mapping.
    """
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        named = "" if isinstance(error, OSError) else f", {_NAMES_A_TABLE}"
        raise SpecError(f"{path}: cannot be read ({error}); give the path of a YAML spec{named}") from error
    raw = load_yaml(text, str(path), note=note)
    if not isinstance(raw, dict):
        raise SpecError(
            f"{path}: expected a mapping with study, dataset, defense and attacks, got {type(raw).__name__}; give the "
            f"path of a YAML spec, {_NAMES_A_TABLE}"
        )
    return raw


def plain(value: Any, place: str = "") -> Any:
    """Return a raw spec of a program as plain data: ``df.columns``, an array, a range or a ``Path`` is what it holds.

    Args:
        value: the spec, or a part of it.
        place: the keys that lead to it.

    Raises:
        SpecError: for an object that is no text, number, list or mapping, such as a whole frame, with its place.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(part, f"{place}.{key}".lstrip(".")) for key, part in value.items()}
    if isinstance(value, PurePath):
        return str(value)
    if callable(held := getattr(value, "tolist", None)):  # numpy's arrays and numbers, columns of pandas
        return plain(held(), place)
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=str)  # in one order, in every process
    if isinstance(value, (list, tuple, range, KeysView, ValuesView, Iterator)):
        return [plain(part, place) for part in value]
    if value is None or isinstance(value, (str, int, float, date, BaseModel)):
        return value
    raise SpecError(
        f"{place}: expected text, a number, a list or a mapping, got {type(value).__name__}; of a table, write a file "
        "(df.to_parquet) and give its path, and names of columns as a list"
    )


def apply_settings(raw: Mapping[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """Return a raw spec with settings ``a.b=c`` applied; values are read as YAML.

    ``attacks.NAME.PARAM`` sets a parameter of the attack of that name.

    Raises:
        SpecError: for a setting without ``=``, or one inside something that is not a mapping.
    """
    spec = copy.deepcopy(dict(raw))
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals or not path.strip():
            raise SpecError(f"--set {setting!r}: expected PATH=VALUE, such as training.epochs=50")
        place = path.strip().split(".")
        _set(spec, place, parse_value(text, place), setting)
    return spec


def parse_value(text: str, place: Sequence[str] = ()) -> Any:
    """Parse the YAML value of the field that the keys ``place`` lead to.

    Raises:
        SpecError: when it is no YAML, or gives a key twice.
    """
    return load_yaml(text, f"value {text[:200]!r}", place)


def _set(spec: dict[str, Any], path: list[str], value: Any, setting: str) -> None:
    if path[0] == "attacks" and len(path) == 3:
        _set_attack(spec, path[1], path[2], value)
        return
    here = spec
    for key in path[:-1]:
        if isinstance(here.get(key), str):
            here[key] = {"name": here[key]}
        here = here.setdefault(key, {})
        if not isinstance(here, dict):
            raise SpecError(
                f"--set {setting!r}: {key!r} holds {here!r}, not a mapping, so nothing can be set inside it"
            )
    here[path[-1]] = value


def _set_attack(spec: dict[str, Any], name: str, param: str, value: Any) -> None:
    listed = as_list(spec.get("attacks", []))
    entries = [{"name": e} if isinstance(e, str) else dict(e) for e in listed]
    for entry in entries:
        if entry.get("name") == name:
            entry[param] = value
            spec["attacks"] = entries
            return
    known = ", ".join(str(e.get("name")) for e in entries) or "none"
    raise SpecError(f"--set attacks.{name}.{param}: attack {name!r} is not in the spec; it has: {known}")


def expand(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one raw spec per study of a raw spec whose dataset or defense is a list (at the top or under ``matrix``).

    That is a campaign, named by the spec's ``study``; its studies are named ``STUDY-DATASET-DEFENSE``. A spec without
    lists is returned as it is.

    Raises:
        SpecError: when ``matrix`` is not a mapping, has other keys, or two studies would have one name.
    """
    spec = dict(raw)
    matrix = spec.pop("matrix", {})
    if not isinstance(matrix, dict) or not set(matrix) <= {"dataset", "defense", "attacks"}:
        raise SpecError(f"matrix: expected a mapping with dataset, defense and attacks lists, got {matrix!r}")
    spec.update(matrix)
    datasets, defenses = spec.get("dataset"), spec.get("defense")
    if not is_campaign(raw):
        return [spec]
    studies = []
    for dataset in datasets if isinstance(datasets, list) else [datasets]:
        for defense in defenses if isinstance(defenses, list) else [defenses]:
            name = f"{spec.get('study', 'matrix')}-{_name_of(dataset)}-{_name_of(defense)}"
            studies.append({**spec, "study": name, "dataset": dataset, "defense": defense})
    names = [s["study"] for s in studies]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise SpecError(
            f"matrix: more than one study would be called {', '.join(twice)}; list each dataset and defense once"
        )
    return studies


def is_campaign(raw: Mapping[str, Any]) -> bool:
    """Return whether a raw spec lists data sets or defenses, even a single one."""
    return bool(raw.get("matrix")) or isinstance(raw.get("dataset"), list) or isinstance(raw.get("defense"), list)


def _name_of(entry: Any) -> str:
    return str(entry.get("name") if isinstance(entry, Mapping) else entry)
