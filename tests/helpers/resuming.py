"""A search that is gone on with, as ``tune-vfl resume`` does."""

from collections.abc import Sequence
from typing import Any

from tune_vfl.driver.api import default_sinks
from tune_vfl.driver.campaign_run import run_campaign
from tune_vfl.driver.planning import with_more
from tune_vfl.driver.sinks import Sink
from tune_vfl.ledger.reading import StoredStudy, open_study


def resume(name: str, trials: int | None = None, *, sinks: Sequence[Sink] | None = None, **how: Any) -> StoredStudy:
    """Run what a stopped search lacks; ``how`` as for :func:`run_campaign`."""
    stored = open_study(name)
    plan = with_more(stored.plan(), trials)
    sinks = default_sinks(plan, stored.storage) if sinks is None else sinks
    stopped = run_campaign(plan, sinks=sinks, storage=stored.storage, **how)
    return StoredStudy(stored.place, plan.name, stopped=stopped)
