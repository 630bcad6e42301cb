"""Reconstructed images for a report: the attacks' output without a defense and under the recommended setting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.pictures import Lines, drawn
from tune_vfl.errors import StudyError
from tune_vfl.evaluation.pictured import pictured

if TYPE_CHECKING:
    from reports.gathered import Gathered
    from tune_vfl.records.campaigns import CampaignRecord


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
    marked = data.decision.marked  # the decision's setting or compromise, else the best compromise of the joint front
    chosen = data.found.knee if marked is None else data.found.point(marked.study, marked.number)
    if chosen is None:
        return []
    cell = chosen.record.cell
    undefended = Lines("no defense", pictured(cell.model_copy(update={"defense": "none", "fixed": {}}), {}))
    return [undefended, Lines(data.names.setting(chosen), pictured(cell, chosen.params))]
