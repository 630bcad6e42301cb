"""A report in a folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from reports.page import place_report, report_files
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.records.studies import StudyRecord


def write_report(
    given: CampaignRecord | Sequence[StudyRecord] | Sequence[CampaignRecord],
    out: Path,
    *,
    refreshing: bool = False,
    pictures: Mapping[str, bytes] | None = None,
) -> Path:
    """Write a report into a folder; return the page."""
    return place_report(report_files(given, refreshing=refreshing, pictures=pictures), out)
