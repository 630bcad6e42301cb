"""The report of a study in the folder of the study, and the link of its name to there."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from reports.page import place_report
from tune_vfl.machine.places import report_places

if TYPE_CHECKING:
    from collections.abc import Mapping


def keep_report(report: Mapping[str, bytes], name: str, study_id: str) -> Path:
    """Write a report's files into the folder of its study in the home, and return the page as ``reports/NAME`` has it.

    That is a link; where two ledgers have a study of one name, it leads to the report that was written last. A folder
    of this name, as tune-vfl 0.1.0 made it, becomes the study's. On a file system without links the page that is
    returned is the one in the study's folder.

    Args:
        report: the files by relative path.
        name: of the study, the campaign, or the part of one.
        study_id: that of the study or the campaign.
    """
    folder, link = report_places(name, study_id)
    if link.is_dir() and not link.is_symlink() and not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):  # one that is mounted cannot be moved
            link.rename(folder)
    page = place_report(report, folder)
    with suppress(OSError):
        _lead(link, folder)
    return link / page.name if link.resolve() == folder.resolve() else page


def _lead(link: Path, folder: Path) -> None:
    """Make a link that leads to a folder, also after the home was moved; it replaces another link in one step."""
    link.parent.mkdir(parents=True, exist_ok=True)
    target = os.path.relpath(folder.resolve(), link.parent.resolve())
    if os.path.lexists(link) and (not link.is_symlink() or str(link.readlink()) == target):
        return
    draft = link.with_name(f".{link.name}-{os.getpid()}")
    draft.symlink_to(target)
    draft.replace(link)
