"""The verb ``rm``: delete studies and campaigns from the ledger, then their runs, reports and copied data files."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tune_vfl.errors import StudyError, UnreachableError
from tune_vfl.ledger.reading import open_study, refuse_no_ledger
from tune_vfl.ledger.removing import Removal, removal_of
from tune_vfl.ledger.removing import remove as remove_from_ledger
from tune_vfl.ledger.storage import storage_at
from tune_vfl.machine.places import home, report_places
from tune_vfl.machine.presence import listed
from tune_vfl.machine.removing import remove as remove_path
from tune_vfl.machine.removing import remove_empty
from tune_vfl.service.data_copies import remove_copies
from tune_vfl.service.projecting import show_in_mlflow

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass
class Removed:
    """The result of removing one study or campaign.

    Attributes:
        of: the records removed from the ledger.
        runs: the number of removed MLflow runs.
        reports: the deleted folders.
        data: the deleted copies of data files.
        left: sentences on the items that remain.
    """

    of: Removal
    runs: int = 0
    reports: list[Path] = field(default_factory=list)
    data: list[Path] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def look(names: Sequence[str], storage: str | None = None) -> list[Removal]:
    """List what :func:`remove` would delete from the ledger, each once; a campaign includes its studies.

    Raises:
        StudyError: when the ledger has no such name.
        UnreachableError: when the ledger does not answer.
    """
    for name in names:
        refuse_no_ledger(name, storage)
    found = [removal_of(name, storage) for name in dict.fromkeys(names)]
    wholes = {removal.name for removal in found}
    for removal in found:
        if removal.staying and removal.campaign not in wholes and wholes.issuperset(removal.staying):
            raise StudyError(f"these are all studies of campaign {removal.campaign!r}: remove the campaign by its name")
    return [r for r in found if r.campaign in ("", r.name) or r.campaign not in wholes]


def remove(removal: Removal) -> Removed:
    """Remove a study or a campaign from the ledger, its runs from MLflow, its report, and its copies of data files.

    Raises:
        StudyError: while another process holds the lease, or when the ledger has no such name any more.
        UnreachableError: when the ledger does not answer or cannot be written.
    """
    gone = remove_from_ledger(removal.name, removal.storage)
    removed = Removed(gone)
    _remove_runs(removed)
    _remove_reports(removed)
    removed.data, left = remove_copies(gone.files, storage_at(gone.storage))
    removed.left += left
    return removed


def _remove_runs(removed: Removed) -> None:
    gone = removed.of
    try:
        from tune_vfl.tracking.removal import remove_runs

        done = [
            remove_runs(name, gone.id, uri=gone.tracking)
            for name in {gone.campaign: None, **dict.fromkeys(gone.studies)}
            if name and (name != gone.campaign or gone.whole)  # a part may have been a single study before
        ]
        if gone.staying:
            done.append(remove_runs(gone.campaign, gone.id, part=gone.name, uri=gone.tracking))
        removed.runs += sum(number for number, _ in done)
        removed.left += [f"MLflow: {left}" for _, left in done if left]
    except (UnreachableError, ImportError) as error:
        removed.left.append(
            f"MLflow: {error}; in experiment {gone.campaign or gone.name!r} there delete by hand the runs that "
            f"tags.`tune_vfl.study_id` = '{gone.id}' finds"
        )
    else:
        if gone.staying and removed.runs:
            show_in_mlflow(open_study(gone.campaign, gone.storage))


def _remove_reports(removed: Removed) -> None:
    """Remove the reports of what was removed; of a study of the same name in another ledger the report stays."""
    gone, reports = removed.of, home() / "reports"
    names = [*gone.studies, *([gone.campaign] if gone.whole and gone.campaign else [])]
    for name in dict.fromkeys(names):
        folder, link = report_places(name, gone.id)
        below = {link: reports, folder: home() / "studies"}
        if link.is_symlink() and link.exists() and link.resolve() != folder.resolve():
            removed.left.append(f"report {link}: is of another study of this name")
            del below[link]
        was = [place for place in below if os.path.lexists(place)]
        try:
            for place in was:
                remove_path(place, below[place])
            remove_empty(folder.parent, home())
            removed.reports += was[:1]
        except OSError as error:
            removed.left.append(f"report {link}: cannot be removed ({error.strerror or error})")
    for page in listed(reports):
        if "+" in page.name and {*names} & {*page.name.split("+")}:
            removed.left.append(f"report {page}: shows other studies too")
    if gone.staying and (reports / gone.campaign).is_dir():
        removed.left.append(
            f"report {reports / gone.campaign}: is as it was; 'tune-vfl report {gone.campaign}' renews it"
        )
