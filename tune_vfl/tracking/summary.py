"""The MLflow experiment's summary run, saved filters, and description."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import quote

from tune_vfl.analysis import formatting
from tune_vfl.analysis.alternatives import ended
from tune_vfl.tracking.payload import (
    CAMPAIGN_PARETO,
    CONFIRMED,
    KNEE,
    NOTE,
    OUTCOME,
    PARETO,
    STUDY,
    STUDY_ID,
    SUMMARY,
    TRIAL,
    RunContent,
    common_params,
    finite,
    measured,
    milliseconds,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tune_vfl.tracking.whole import Whole

# The kind of experiment for which MLflow's UI opens on runs and not on traces of a language model.
KIND, TRAINING = "mlflow.experimentKind", "custom_model_development"
# Release 3.17 uses each browser's last choice instead, unless the address contains one.
_TRAINING_RUNS = "workflowType=machine_learning"
# Views in the format of MLflow's share button, and their columns.
_VIEW = "mlflow.sharedViewState."
_COLUMNS = ["metrics.`utility`", "metrics.`leakage`", "params.`dataset`", "params.`defense`"]

_ALL = {
    "the front": f"tags.`{PARETO}` = 'true'",
    "the knee": f"tags.`{KNEE}` = 'true'",
    "the points that a confirmation kept": f"tags.`{CONFIRMED}` = 'true'",
    "all trials": f"tags.`{TRIAL}` != ''",
    "trials that failed": f"tags.`{TRIAL}` != '' AND tags.`{OUTCOME}` != 'ok'",
    "leakage at most 0.2": f"tags.`{OUTCOME}` = 'ok' AND metrics.leakage <= 0.2",
    "this summary": f"tags.`{SUMMARY}` = 'true'",
}


def filters(whole: Whole) -> dict[str, str]:
    """Return filters for the search field of MLflow's runs table, by their purpose."""
    campaign = whole.campaign
    own = {"all runs of this study": f"tags.`{STUDY_ID}` = '{campaign.studies[0].id}'"}
    if campaign.lone:
        return _ALL | own
    joint = f"tags.`{CAMPAIGN_PARETO}` = 'true'"
    found = {"the joint front": joint}
    if len(campaign.datasets) > 1:
        found |= {f"the joint front on {name}": f"{joint} AND params.dataset = '{name}'" for name in campaign.datasets}
    return found | {"the front of each study" if what == "the front" else what: q for what, q in _ALL.items()} | own


def series(whole: Whole, name: str, dataset: str) -> str:
    """Return a summary metric's name, with the data set's where there are several."""
    return name if len(whole.campaign.datasets) == 1 else f"{name}/{dataset}"


def summary_content(whole: Whole) -> RunContent:
    """Return the summary run: the undefended models (``baseline.*``), the fronts' sizes, costs, filters to paste."""
    metrics: dict[str, float | None] = {"trial_count": float(whole.trials)}
    campaign = whole.campaign
    for dataset, joint in whole.joints.items():
        undefended = next((s.baseline for s in joint.parts if s.baseline is not None), None)
        numbers: dict[str, float] = measured(undefended) if undefended else {}
        listed = {f"baseline.{name}": value for name, value in numbers.items()}
        listed["front_size"] = float(len(joint.front))
        metrics |= {series(whole, name, dataset): value for name, value in listed.items()}
        costs = {f"cost.{s.cell.defense}": s.cost for s in joint.parts if s.cost is not None}
        metrics |= {series(whole, name, dataset): value for name, value in costs.items()}
    trials = [t for s in campaign.studies for t in s.trials]
    times = [m for t in trials for m in (milliseconds(t.started), milliseconds(t.finished))] or [0]
    return RunContent(
        name="summary",
        params=common_params(campaign.studies[0].cell) if campaign.lone else {},  # a campaign's studies may change
        metrics=finite(metrics),
        tags={STUDY: campaign.name, SUMMARY: "true", NOTE: _note(whole)},
        status="FINISHED",
        started=min(times),
        finished=max(times),
    )


def _note(whole: Whole) -> str:
    campaign, fronts = whole.campaign, []
    for dataset, joint in whole.joints.items():
        size = formatting.count(len(joint.front), "setting")
        fronts.append(f"{size} on the front of {dataset}, hypervolume {joint.hypervolume:.4f}.")
    lines = [
        *_table(whole),
        *fronts,
        *ended(campaign.studies),
        *([f"Where nothing runs it, `tune-vfl resume {campaign.name}` goes on."] if campaign.owed else []),
        "",
        "Paste one of these into the search field of the runs table:",
        "",
        *(f"- {what}: `` {query} ``" for what, query in _shown(whole).items()),
    ]
    return "\n".join(lines)


def _table(whole: Whole) -> list[str]:
    """Return the studies as a Markdown table."""
    joint, studies = Counter(study for study, _ in whole.joint), whole.campaign.studies
    on_own = {name: sum(rank == 0 for rank in ranks.values()) for name, ranks in whole.ranks.items()}
    rows = [
        f"| {s.name} | {s.cell.dataset.name} | {s.cell.defense} | {formatting.counted(s.by_outcome())} "
        f"| {on_own[s.name]} | {joint[s.name]} | {'–' if s.cost is None else f'{s.cost:.2f}'} |"
        for s in studies
    ]
    head = "| study | data set | defense | trials | on its front | on the joint front | cost |"
    many = f"{formatting.count(len(studies), 'study', 'studies')}, {formatting.count(whole.trials, 'trial')}"
    return [f"**{whole.campaign.name}**: {many}.", "", head, "|---|---|---|---|---|---|---|", *rows, ""]


def _shown(whole: Whole) -> Mapping[str, str]:
    """Return the filters, without the one for confirmed points where there is no confirmation."""
    confirmed = any(s.confirmation for s in whole.campaign.studies)
    return {what: query for what, query in filters(whole).items() if confirmed or CONFIRMED not in query}


def description(whole: Whole, experiment_id: str, summary_run: str, tags: Mapping[str, str]) -> dict[str, str]:
    """Return the experiment's tags to set: its kind, its views, and a description with links to them.

    Tags that a user has edited stay.

    Args:
        whole: the studies.
        experiment_id: the target of the links.
        summary_run: the id of the summary run, for the first link.
        tags: the experiment's current tags.
    """
    place, first = (
        f"#/experiments/{experiment_id}/runs",
        f"{'Study' if whole.campaign.lone else 'Campaign'} of tune-vfl: ",
    )
    views = {what: query for what, query in _shown(whole).items() if SUMMARY not in query}
    links = [f"[{what}]({place}?viewStateShareKey={_key(what)}&{_TRAINING_RUNS})" for what in views]
    page = f"[the page]({place}/{summary_run}/artifacts/report/index.html?{_TRAINING_RUNS})"
    about = f"[the summary]({place}/{summary_run}?{_TRAINING_RUNS})"
    # A folded description shows its first line alone.
    text = "\n".join([f"{first}{links[0]}, {page}, {about}", "", *(f"- {link}" for link in links)])
    # The state of MLflow's runs table for a link: a filter, sorted by rising leakage.
    table = {"orderByKey": _COLUMNS[1], "orderByAsc": True, "selectedColumns": _COLUMNS}
    wanted = {f"{_VIEW}{_key(what)}": json.dumps({"searchFilter": query, **table}) for what, query in views.items()}
    held = tags.get(KIND, "")
    if not held or held.endswith("_inferred") or held == "no_inferred_type":
        wanted[KIND] = TRAINING
    if tags.get(NOTE, first).startswith(first):
        wanted[NOTE] = text
    return {name: value for name, value in wanted.items() if tags.get(name) != value}


def _key(what: str) -> str:
    return quote(what.replace(" ", "-"), safe="")
