"""The verb ``report``: reports of studies and campaigns by name, below ``TUNE_VFL_HOME``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tune_vfl.errors import DataError, UnwritableError
from tune_vfl.machine.places import home
from tune_vfl.service.studies import campaign_record
from tune_vfl.spec.listed import absolute_paths

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tune_vfl.records.studies import StudyRecord


def report_studies(
    names: Sequence[str],
    out: Path | None = None,
    storage: str | None = None,
    *,
    pictures: bool = False,
    note: Callable[[str], None] = lambda _: None,
) -> Path:
    """Write a report of a study or a campaign, or of several.

    Args:
        names: their names.
        out: the folder; by default ``TUNE_VFL_HOME/reports/NAME`` (names joined by ``+``).
        storage: the ledger's database; None is the one that the environment names.
        pictures: include reconstructed images of attacks on features, for which two models a data set are trained.
        note: called with a sentence for each file whose rows are no longer those of a study.

    Returns:
        The page.

    Raises:
        StudyError: when there is no such study, or no attack on images.
        UnwritableError: when the folder cannot be written.
    """
    from reports.own_folder import keep_report
    from reports.page import place_report, report_files

    found = [campaign_record(name, storage) for name in names]
    for study in [study for campaign in found for study in campaign.studies]:
        if changed := changed_data(study):
            note(changed)
    if out is None and len(found) > 1:
        out = home() / "reports" / "+".join(names)[:150]
    if out is not None and out.exists() and not out.is_dir():
        raise UnwritableError(f"-o {out}: is a file; give a folder")
    shown: dict[str, bytes] = {}
    if pictures:
        from tune_vfl.service.picturing import pictures_of

        for campaign in found:
            shown |= pictures_of(campaign)
    files = report_files(found, pictures=shown)
    try:
        return place_report(files, out) if out else keep_report(files, names[0], found[0].studies[0].id)
    except OSError as error:
        place = out or home() / "reports" / names[0]
        raise UnwritableError(f"-o {place}: cannot be written ({error}); choose another place") from error


def changed_data(study: StudyRecord) -> str:
    """Return a sentence when a study's own files hold other rows now; empty when not, or when they are elsewhere."""
    files = absolute_paths(study.cell.dataset.options)
    if not study.data or not files or not all(Path(file).exists() for file in files):
        return ""
    from tune_vfl.data import load

    try:
        now = load(study.cell.dataset).fingerprint
    except DataError as error:
        return f"study {study.name}: its data cannot be read any more ({error}); the report is of the earlier rows"
    if now == study.data:
        return ""
    return (
        f"study {study.name}: {', '.join(files)} holds other rows now (fingerprint {now}, the study's {study.data}); "
        "the report is of the earlier rows"
    )
