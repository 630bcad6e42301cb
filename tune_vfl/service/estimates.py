"""Estimates of the trials and minutes that a plan still needs."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from tune_vfl.evaluation.pace import seconds_per_epoch
from tune_vfl.execution.pack_sizes import LANES
from tune_vfl.ledger.reading import study_names
from tune_vfl.machine.runtime import peak_memory, prepare_process, usable_cpus
from tune_vfl.service.studies import campaign_record
from tune_vfl.spec import Cell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tune_vfl.records.campaigns import PlannedCampaign
    from tune_vfl.records.plans import PlannedStudy


class Progress(NamedTuple):
    """The progress of one study of a plan.

    Attributes:
        trials: the budget of finished ones.
        done: those finished already.
    """

    trials: int
    done: int

    @property
    def new(self) -> int:
        """The number of remaining trials."""
        return max(0, self.trials - self.done)


def progress_of(plan: PlannedCampaign) -> dict[str, Progress]:
    """Return the progress of each study of a plan, by name."""
    storage, found = plan.studies[0].spec.storage, {}
    known = set(study_names(storage))
    for study in plan.studies:
        trials = int(min(study.spec.budget.trials, study.space.size))
        done = len(campaign_record(study.name, storage).studies[0].counted) if study.name in known else 0
        found[study.name] = Progress(max(trials, done), done)
    return found


def price(study: PlannedStudy) -> str:
    """Say what an epoch of one training takes on this machine, timed here once for all studies of the same training.

    The memory is that of this process with the data read and split, which every worker needs; attacks come on top.
    """
    undefended = {"defense": "none", "fixed": {}, "attacks": (), "seeds": study.cell.seeds[:1]}
    return _price(study.cell.model_copy(update=undefended).model_dump_json())


@cache
def _price(cell: str) -> str:
    prepare_process()
    seconds = seconds_per_epoch(Cell.model_validate_json(cell), 1)
    gib = peak_memory() / 2**30
    return f"about {seconds:.2g} s an epoch on one core, and {gib:.1f} GiB or more in each worker; attacks come on top"


def training_minutes(plan: PlannedCampaign, progress: Mapping[str, Progress]) -> float:
    """Estimate the minutes of the remaining trainings on this machine, from one timed epoch.

    Attacks, floors and a defense's overhead are not included: for tables they take about as long again.
    """
    prepare_process()
    pace: dict[str, float] = {}
    seconds = 0.0
    for study in plan.studies:
        cell = study.cell
        key = cell.model_copy(update={"defense": "none", "fixed": {}, "attacks": ()}).model_dump_json()
        if progress[study.name].new and key not in pace:
            pace[key] = seconds_per_epoch(cell, max(1, math.ceil(LANES / len(cell.seeds))))
        searched = study.space.params.get("training.epochs")
        epochs = cell.training.epochs if searched is None else int(searched.largest)
        seconds += pace.get(key, 0.0) * epochs * progress[study.name].new
    return seconds / usable_cpus() / 60
