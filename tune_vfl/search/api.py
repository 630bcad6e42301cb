"""Search from Python: start a search, or resume one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tune_vfl.ledger.reading import StoredStudy, open_study
from tune_vfl.ledger.storage import storage_at
from tune_vfl.search.planning import changed, planned_campaign, with_more
from tune_vfl.search.projections import projections
from tune_vfl.search.runner import run_campaign
from tune_vfl.search.work import Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.records.campaigns import PlannedCampaign
    from tune_vfl.search.listeners import Listener
    from tune_vfl.search.planning import CampaignLike


def search(
    spec: CampaignLike,
    *,
    trials: int | None = None,
    name: str | None = None,
    storage: str | None = None,
    take_over: bool = False,
    progress: bool = True,
    listeners: Sequence[Listener] | None = None,
) -> StoredStudy:
    """Run a search here, or go on with the one of this name and spec.

    Args:
        spec: a planned study or campaign, a spec, a mapping of the same form, or the path of a YAML file.
        trials: the budget of finished trials, instead of the spec's; of a campaign, of all its studies together.
        name: the study's or campaign's name, instead of the spec's.
        storage: the ledger's database, instead of the spec's; see :func:`resume`.
        take_over: drive another process out that holds the study.
        progress: show a bar on a terminal, a line a minute elsewhere, on stderr.
        listeners: who projects the ledger; None is the MLflow recorder.

    Returns:
        The study or campaign; ``stopped`` when Ctrl-C ended it early.

    Raises:
        SpecError: with every problem of the spec.
        StudyError: when the name belongs to a study of another spec, or another process runs it.
        UnreachableError: when the ledger or the cluster does not answer.
    """
    found = changed(planned_campaign(spec), trials=trials, name=name)
    return _run(found, storage=storage, take_over=take_over, listeners=listeners, progress=progress)


def resume(
    name: str,
    trials: int | None = None,
    *,
    storage: str | None = None,
    take_over: bool = False,
    progress: bool = True,
    listeners: Sequence[Listener] | None = None,
    work: Work | None = None,
) -> StoredStudy:
    """Finish what a stopped search still owes.

    Args:
        name: the study or the campaign.
        trials: a new budget of finished trials in all; None keeps what there is.
        storage: the ledger's database; None is the one that ``TUNE_VFL_STORAGE`` names, or that under
            ``TUNE_VFL_HOME``.
        take_over: drive another process out that holds the study.
        progress: as for :func:`search`.
        listeners: as for :func:`search`.
        work: the trainable, where it is not the real one.

    Raises:
        StudyError: when there is none of this name, or another process runs it.
    """
    how: dict[str, Any] = {"take_over": take_over, "listeners": listeners, "progress": progress, "work": work}
    stored = open_study(name, storage)
    campaign = stored.plan()
    if campaign.lone:
        return _run(campaign, trials=trials, storage=stored.storage, **how)
    return _run(with_more(campaign, trials), storage=stored.storage, **how)


def _run(
    campaign: PlannedCampaign, *, storage: str | None, listeners: Sequence[Listener] | None, **how: Any
) -> StoredStudy:
    told = projections(campaign, storage) if listeners is None else listeners
    stopped = run_campaign(campaign, listeners=told, storage=storage, **how)
    return StoredStudy(storage_at(storage or campaign.studies[0].spec.storage), campaign.name, stopped=stopped)
