"""The verb ``report``: reports of studies and campaigns by name, below ``TUNE_VFL_HOME``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tune_vfl.errors import UnwritableError
from tune_vfl.service.studies import campaign_record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def report_studies(
    names: Sequence[str], out: Path | None = None, storage: str | None = None, *, pictures: bool = False
) -> Path:
    """Write a report of a study or a campaign, or of several.

    Args:
        names: their names.
        out: the folder; by default ``TUNE_VFL_HOME/reports/NAME`` (names joined by ``+``).
        storage: the ledger's database; None is the one that the environment names.
        pictures: include reconstructed images of attacks on features, for which two models a data set are trained.

    Returns:
        The page.

    Raises:
        StudyError: when there is no such study, or no attack on images.
        UnwritableError: when the folder cannot be written.
    """
    from reports.page import write_report
    from tune_vfl.machine.places import home

    found = [campaign_record(name, storage) for name in names]
    folder = out if out is not None else home() / "reports" / "+".join(names)[:150]
    if folder.exists() and not folder.is_dir():
        raise UnwritableError(f"-o {folder}: is a file; give a folder")
    shown: dict[str, bytes] = {}
    if pictures:
        from tune_vfl.service.picturing import pictures_of

        for campaign in found:
            shown |= pictures_of(campaign)
    try:
        return write_report(found, folder, pictures=shown)
    except OSError as error:
        raise UnwritableError(f"-o {folder}: cannot be written ({error}); choose another place") from error
