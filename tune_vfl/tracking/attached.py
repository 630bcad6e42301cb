"""MLflow artifacts: report, specs and filters at the summary run, and the exported setting at each run of a front."""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from tune_vfl.analysis import formatting
from tune_vfl.analysis.exporting import exported
from tune_vfl.errors import TuneVflError
from tune_vfl.tracking import payload
from tune_vfl.tracking.runs import SUMMARY_KEY, Change, Key, Runs
from tune_vfl.tracking.summary import filters
from tune_vfl.tracking.whole import Whole

CONFIG_FILE = "config.json"

_log = logging.getLogger("tune_vfl.tracking")


def attach_settings(runs: Runs, whole: Whole) -> None:
    """Attach to each run of a study's front its setting as a file that ``tune_vfl.load_config`` reads.

    A tag holds the fingerprint of the attached file, so that no run is written twice.
    """
    for key, text in _settings(whole):
        digest = _digest(text)
        if runs.written[key].tags.get(payload.CONFIG) != digest:
            runs.log_text(key, text, CONFIG_FILE)
            runs.update({key: Change({payload.CONFIG: digest}, {})})


def _settings(whole: Whole) -> Iterator[tuple[Key, str]]:
    for study in whole.campaign.studies:
        ranks, refused = whole.ranks[study.name], []
        for trial in (t for t in study.ok if ranks[t.number] == 0):
            try:
                config = exported(study, trial, f"{study.name}#{trial.number}")
            except TuneVflError as error:  # a setting that this version cannot use has its run, but no file
                refused.append(error)
                continue
            plain = config.model_dump(mode="json", by_alias=True)
            yield (study.name, "trial", trial.number), json.dumps(plain, indent=2) + "\n"
        if refused:
            _log.warning(
                "%s of %s cannot be exported: %s", formatting.count(len(refused), "setting"), study.name, refused[0]
            )


def attach_summary(runs: Runs, whole: Whole, report: Callable[[], Mapping[str, bytes]] | None = None) -> None:
    """Attach report, tables, specs and filters to the summary run, unless its tag holds their fingerprint.

    Args:
        runs: the experiment's runs.
        whole: its studies.
        report: returns the report's files by their relative path; None draws the report.
    """
    from reports.page import place_report, report_files, spec_text

    campaign = whole.campaign
    by_name = replace(campaign, studies=tuple(sorted(campaign.studies, key=lambda s: s.name)))
    state = _digest(repr(by_name))  # independent of the order of studies
    if runs.written[SUMMARY_KEY].tags.get(payload.DIGEST) == state:
        return
    for study in campaign.studies:
        name = "spec.yaml" if campaign.lone else f"specs/{study.name}.yaml"
        runs.log_text(SUMMARY_KEY, spec_text(study), name)
    runs.log_text(SUMMARY_KEY, json.dumps(filters(whole), indent=2), "filters.json")
    files = report_files(campaign) if report is None else report()
    with tempfile.TemporaryDirectory(prefix="tune-vfl-") as folder:
        page = place_report(files, Path(folder) / "report")
        runs.log_folder(page.parent, "report")
    runs.update({SUMMARY_KEY: Change({payload.DIGEST: state}, {})})


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
