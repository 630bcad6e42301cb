"""Numbers and names as reports write them: those of :mod:`tune_vfl.campaign.phrases`."""

from __future__ import annotations

from tune_vfl.campaign.phrases import METRICS, count, listed, metric, number, score, setting, span

__all__ = ["METRICS", "count", "listed", "metric", "number", "score", "setting", "span"]
