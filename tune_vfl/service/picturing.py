"""Reconstructed images for a report: the attacks' output without a defense and under the recommended setting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.pictures import Lines, drawn
from tune_vfl.analysis import formatting
from tune_vfl.errors import StudyError
from tune_vfl.evaluation.pictured import pictured

if TYPE_CHECKING:
    from reports.gathered import Gathered
    from tune_vfl.records.campaigns import CampaignRecord
    from tune_vfl.records.studies import StudyRecord


def pictures_of(campaign: CampaignRecord) -> dict[str, bytes]:
    """Return, by data set of images, a PNG of originals and reconstructions.

    Two models are trained for each, with the studies' first seed: the undefended one, and one with the recommended
    setting, else the best compromise.

    Raises:
        StudyError: without an attack on features of images, or without a measured trial.
    """
    from reports.gathered import gather

    found = {}
    for data in gather(campaign):
        lines = [line for line in _lines(data) if line.found]
        if lines:
            found[data.found.dataset] = drawn(lines)
    if not found:
        raise StudyError(
            f"{campaign.name!r} has nothing to picture: that takes images, an attack on features (wmi, bmi) and a "
            "setting that was measured; leave out --pictures"
        )
    return found


def _lines(data: Gathered) -> list[Lines]:
    chosen = _chosen(data)
    if chosen is None:
        return []
    record, number = chosen
    params = next(t.params for t in record.trials if t.number == number)
    undefended = record.cell.model_copy(update={"defense": "none", "fixed": {}})
    called = f"{data.names.called[record.name]} {formatting.setting(params, data.names.moved[record.name])}"
    return [Lines("no defense", pictured(undefended, {})), Lines(called, pictured(record.cell, params))]


def _chosen(data: Gathered) -> tuple[StudyRecord, int] | None:
    """Return the decision's setting or compromise, else the best compromise of the joint front."""
    parts = {part.name: part for part in data.found.parts}
    setting = data.decision.marked
    if setting is not None:
        return parts[setting.study], setting.number
    knee = data.found.knee
    return None if knee is None else (parts[knee.study], knee.number)
