"""The Python interface of a search, which starts one or goes on with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from tune_vfl.driver.campaign_run import run_campaign
from tune_vfl.driver.live_page import LivePage
from tune_vfl.driver.planning import CampaignLike, changed, planned_campaign
from tune_vfl.driver.sinks import Sink
from tune_vfl.ledger.reading import StoredStudy, open_study
from tune_vfl.ledger.storage import storage_at
from tune_vfl.machine.streams import tell
from tune_vfl.records.campaigns import CampaignRecord, PlannedCampaign


def search(
    spec: CampaignLike,
    *,
    trials: int | None = None,
    name: str | None = None,
    storage: str | None = None,
    take_over: bool = False,
    other_code: bool = False,
    progress: bool = True,
    sinks: Sequence[Sink] | None = None,
) -> StoredStudy:
    """Run a search in this process, or resume the one of this name and spec.

    Args:
        spec: a planned study or campaign, a spec, a mapping of the same form, or the path of a YAML file.
        trials: the budget of finished trials, instead of the spec's; of a campaign, of all its studies together.
        name: the study's or campaign's name, instead of the spec's.
        storage: the ledger's database, instead of the spec's.
        take_over: end another process that holds the study.
        other_code: go on although source files that measure have changed since the last run.
        progress: show a bar on a terminal, a line every 15 seconds elsewhere, on stderr.
        sinks: receivers of trials and studies; None is the live page and the MLflow recorder.

    Returns:
        The study or campaign; ``stopped`` when Ctrl-C ended it early.

    Raises:
        SpecError: with every problem of the spec.
        StudyError: when the name belongs to a study of another spec, another process runs it, or the code has changed.
        UnreachableError: when the ledger or the cluster does not answer.
    """
    campaign = changed(planned_campaign(spec), trials=trials, name=name)
    stopped = run_campaign(
        campaign,
        sinks=default_sinks(campaign, storage) if sinks is None else sinks,
        progress=progress,
        storage=storage,
        take_over=take_over,
        other_code=other_code,
    )
    return StoredStudy(storage_at(storage or campaign.studies[0].spec.storage), campaign.name, stopped=stopped)


def default_sinks(campaign: PlannedCampaign, storage: str | None = None) -> list[Sink]:
    """Return the live page and the MLflow recorder; without MLflow the page alone.

    Args:
        campaign: the plan of the search.
        storage: the ledger's database; None is that of the spec, or of the environment.
    """
    name, spec = campaign.studies[0].experiment, campaign.studies[0].spec

    def look() -> CampaignRecord:
        return open_study(name, storage or spec.storage).record()

    @cache
    def report() -> Mapping[str, bytes]:
        """Draw the final report once, for the page and for MLflow."""
        from reports.page import report_files

        return report_files(look())

    page = LivePage(name, look, report)
    try:
        from tune_vfl.tracking.mlflow import Recorder

        return [page, Recorder(name, spec.tracking, look, report)]
    except Exception as error:  # the ledger is complete without MLflow
        tell(f"tune-vfl: MLflow is not recorded: {error}; 'tune-vfl doctor --repair' rebuilds it later")
        return [page]
