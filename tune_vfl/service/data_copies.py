"""Copies of a user's own data files in the home, in which every later verb on the study finds them."""

from __future__ import annotations

import shutil
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_vfl.data.own_files import content_digest, own_files, relocated
from tune_vfl.driver.planning import refuse_mistakes, with_all_defenses
from tune_vfl.errors import TuneVflError, UnwritableError
from tune_vfl.ledger.names import wholes_in
from tune_vfl.ledger.reading import StoredStudy
from tune_vfl.ledger.storage import storage_at
from tune_vfl.machine.files import written_whole
from tune_vfl.machine.places import home
from tune_vfl.spec.listed import absolute_paths
from tune_vfl.spec.raw import expand

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def place_of_copies() -> Path:
    """Return the folder of all copies: ``data`` in the home, with a folder for each study or campaign."""
    return home() / "data"


@contextmanager
def copied(raw: Mapping[str, Any], storage: str | None = None) -> Iterator[dict[str, Any]]:
    """Copy the own data files of a spec into the home, and yield the spec that names the copies.

    A copy is at ``data/STUDY/DIGEST/NAME``, for its user alone: the same content has the same path, so that a spec that
    comes again is the same study. A copy that no study names when the block ends is removed.

    Args:
        raw: the spec, settings applied.
        storage: the ledger's database; None is the one that the environment names.

    Raises:
        SpecError: with every problem that shows without the data.
        DataError: for a file that cannot be read.
        UnwritableError: when the home cannot be written.
    """
    refuse_mistakes(expand(with_all_defenses(raw)))
    name = str(raw.get("study") or "")
    if not name:  # the plan refuses it
        yield dict(raw)
        return
    try:
        places = {path: str(_copy(path, Path(name, content_digest(path)))) for path in own_files(raw)}
        yield relocated(raw, places)
    finally:
        with suppress(TuneVflError):  # the ledger does not answer: `clean` removes it later
            for folder in unused(name, storage):
                remove_copy(folder)


def unused(name: str, storage: str | None = None) -> list[Path]:
    """Return the folders of copies that a study or campaign does not name; all of them where the ledger has it not.

    Raises:
        UnreachableError: when the ledger does not answer.
        DamagedError: when the study cannot be read.
    """
    folder = place_of_copies() / name
    if not folder.is_dir():
        return []
    place = storage_at(storage)
    known = place.exists() and name in place.read(wholes_in)
    studies = StoredStudy(place, name).plan().studies if known else ()
    named = {Path(path).parent for study in studies for path in absolute_paths(study.cell.dataset.options)}
    return [copy for copy in sorted(folder.iterdir()) if copy.resolve() not in named]


def remove_copy(folder: Path) -> None:
    """Remove a folder of copies, and the study's and all copies' folders where they are empty then.

    Raises:
        OSError: when it cannot be removed.
    """
    shutil.rmtree(folder)
    for above in (folder.parent, folder.parent.parent):
        with suppress(OSError):  # there are others
            above.rmdir()


def _copy(path: Path, below: Path) -> Path:
    folder = place_of_copies() / below
    copy = folder / path.name
    if copy.is_file() and content_digest(copy) == folder.name:
        return copy
    try:
        home().mkdir(mode=0o700, parents=True, exist_ok=True)
        for parent in (folder.parent.parent, folder.parent, folder):
            parent.mkdir(mode=0o700, exist_ok=True)
        with written_whole(copy, mode=0o600) as draft:
            shutil.copyfile(path, draft)
    except OSError as error:
        raise UnwritableError(f"{copy}: {path} cannot be copied there ({error.strerror or error})") from error
    return copy
