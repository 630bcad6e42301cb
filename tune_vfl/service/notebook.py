"""The notebook API: ``search`` and ``load_study`` return studies with frames, figures and recommendations."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from tune_vfl.analysis.decision import Decision
from tune_vfl.analysis.exporting import export
from tune_vfl.analysis.formatting import counted
from tune_vfl.analysis.sentences import sentences
from tune_vfl.analysis.summary import frontier, summary
from tune_vfl.errors import SpecError, UsageError
from tune_vfl.ledger.reading import StoredStudy, open_study
from tune_vfl.spec.constraints import Constraints, impossible

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    import pandas as pd

    from tune_vfl.analysis.joint_front import Joint
    from tune_vfl.config import ExportedConfig
    from tune_vfl.confirmation.run import Confirmed
    from tune_vfl.driver.planning import CampaignLike
    from tune_vfl.records.campaigns import CampaignRecord


@dataclass(frozen=True)
class Recommendation(Decision):
    """A decision that shows itself in sentences."""

    def __str__(self) -> str:
        """Return the recommendation and its reasons, a sentence a line."""
        return "\n".join(sentences(self))

    def _repr_html_(self) -> str:
        """Return the same as HTML, the recommendation first."""
        answer, *told = map(escape, sentences(self))
        return f"<p><b>{answer}</b></p>\n<p>{' '.join(told)}</p>"


class Study(StoredStudy):
    """A study or a campaign with the verbs of a notebook.

    Attributes:
        name: the study's or the campaign's.
        storage: the URL of the ledger's database.
        stopped: whether the search that returned it was stopped before the budget was used up.
    """

    def frontier(self, attack: str | None = None) -> list[dict[str, Any]]:
        """Return the front as plain data, a mapping for each setting, as ``frontier --format json`` prints it.

        Args:
            attack: take this attack's advantage for the leakage instead of the worst attack's.
        """
        return frontier(self.record(), attack)

    def summary(self) -> dict[str, Any]:
        """Return the output of ``search --json`` and ``status --json``."""
        return summary(self.record())

    def export(
        self, select: str | None = None, path: str | Path | None = None, dataset: str | None = None
    ) -> ExportedConfig:
        """Select a setting and write it as JSON.

        Args:
            select: as the option ``--select`` of the verb ``export``; None takes the setting to deploy.
            path: a JSON file; None writes nothing.
            dataset: which of several data sets.

        Raises:
            SelectionError: when there is no such setting, or none to deploy; the message names those to choose from.
            UnwritableError: when the file cannot be written.
        """
        return export(self.record(), select, path, dataset)

    def front(self) -> pd.DataFrame:
        """Return the Pareto front, joint for several defenses, a row per setting, by falling utility.

        With several data sets each has a front, distinguished by the column ``dataset``. ``utility`` and ``leakage``
        are the search's, ``confirmed.utility`` and ``confirmed.leakage`` those of fresh seeds after a confirmation;
        ``*_low`` and ``*_high`` are 90% intervals, missing with a single seed; ``chance`` is that of being on the
        front; ``attack.NAME`` is an attack's success.
        """
        from tune_vfl.analysis.joint_front import joint_of
        from tune_vfl.service.frames import front_frame

        campaign = self.record()
        return front_frame([joint_of(campaign, dataset) for dataset in campaign.datasets])

    def trials(self) -> pd.DataFrame:
        """Return the finished trials, failed ones included: a row per trial, a column per parameter and attack."""
        from tune_vfl.service.frames import trials_frame

        return trials_frame(self.record().studies)

    def plot(self, dataset: str | None = None) -> Any:
        """Return the frontier as a ``plotly.graph_objects.Figure``: hover for a setting, click the legend, zoom.

        Args:
            dataset: which of several data sets.

        Raises:
            UsageError: when there are several and none of them is named.
        """
        from reports.describe import frontier
        from reports.naming import names_of
        from reports.plotted import plotly_figure

        found, decision = _decided(self.record().on_one(dataset))
        return plotly_figure(frontier(found, decision, names_of(found)))

    def recommend(self, dataset: str | None = None, **constraints: float) -> Recommendation:
        """Return the setting to deploy, or why there is none: ``recommend(leakage=0.2, utility_loss=0.01)``.

        Without a limit on the leakage it may be a compromise, with the settings that a limit would choose.

        Args:
            dataset: which of several data sets.
            constraints: as in a spec: ``leakage``, ``utility_loss`` and ``cost`` at most, ``utility`` at least, one
                attack's by ``**{"attacks.pmc.advantage": 0.3}``. None: those of the spec.

        Returns:
            The decision as data, which prints in sentences: ``verdict``, ``setting`` with its numbers and intervals,
            ``runner_up``, ``compromise``, ``ladder``, ``nearest``.

        Raises:
            SpecError: for an unknown constraint, or a bound outside of what its quantity can be, as 20 for 20%.
            UsageError: when there are several data sets and none of them is named.
        """
        campaign = self.record().on_one(dataset)
        if constraints:
            campaign = replace(campaign, spec={**campaign.spec, "constraints": _known(constraints)})
        return Recommendation(**vars(_decided(campaign)[1]))

    def confirm(self, seeds: int = 10, adaptive: float = 0.0) -> Confirmed:
        """Confirm the front: measure it again with fresh seeds and on rows that no search has used.

        Args:
            seeds: the number of fresh seeds for a setting that stays on the front.
            adaptive: the minutes for which attackers are tuned against each of these settings.

        Raises:
            StudyError: without a trial to confirm, or while another process holds the lease.
        """
        from tune_vfl.service.projecting import confirm_named

        return confirm_named(self.name, seeds=seeds, adaptive=adaptive, storage=self.storage)

    def __repr__(self) -> str:
        """Return the data sets, the defenses and the progress in a line."""
        return f"<{_told(self.record())}>"

    def _repr_html_(self) -> str:
        """Return HTML with the progress, the recommendation and the front."""
        campaign = self.record()
        answers = [self.recommend(dataset)._repr_html_() for dataset in campaign.datasets]
        front = self.front().to_html(index=False, na_rep="", float_format=_short)
        return "\n".join([f"<p><b>{escape(_told(campaign))}</b></p>", *answers, front])


def search(spec: CampaignLike, **how: Any) -> Study:
    """Run a search in this process, or resume the one of this name and spec.

    Args:
        spec: a mapping of the form of a spec, or the path of a YAML file.
        how: ``trials``, ``name`` and ``storage`` take the place of the spec's; ``take_over=True`` ends another process
            that holds the study; ``progress=False`` shows none; ``sinks=()`` writes neither MLflow's runs nor the page.

    Returns:
        The study or campaign; ``stopped`` when Ctrl-C ended it early.

    Raises:
        SpecError: with every problem of the spec.
        StudyError: when the name belongs to a study of another spec, or another process runs it.
        UnreachableError: when the ledger or the cluster does not answer.
        UsageError: in a thread of a program that ends.

    Example:
        >>> from tune_vfl import search
        >>> spec = {"study": "tiny", "dataset": {"name": "wine"}, "defense": "laplace", "budget": {"seeds": 2}}
        >>> study = search(spec, trials=5, progress=False)
        >>> len(study.trials())
        5
    """
    try:
        from tune_vfl.driver.api import search as run

        found = run(spec, **how)
    except RuntimeError as error:
        if threading.main_thread().is_alive():
            raise
        told = "the program's main thread has ended, and Python starts nothing new then: let it wait (thread.join())"
        raise UsageError(told) from error
    return Study(found.place, found.name, stopped=found.stopped)


def load_study(name: str, storage: str | PathLike[str] | None = None) -> Study:
    """Return a study of the ledger, or a campaign.

    Args:
        name: its name.
        storage: the ledger's database; None is the one that the environment names.

    Raises:
        StudyError: when there is none of this name; the message suggests the nearest.

    Example:
        >>> from tune_vfl import load_study
        >>> study = load_study("study")
        >>> study.front()[["utility", "leakage"]].round(2).values.tolist()
        [[0.9, 0.6], [0.85, 0.5]]
    """
    found = open_study(name, storage)
    return Study(found.place, found.name)


def _known(constraints: dict[str, float]) -> dict[str, float]:
    try:
        known = TypeAdapter(Constraints).validate_python(constraints)
    except ValidationError as error:
        raise SpecError([f"recommend: {problem['msg']}" for problem in error.errors()]) from error
    if problems := [f"recommend: {problem}" for problem in impossible(known)]:
        raise SpecError(problems)
    return known


def _decided(campaign: CampaignRecord) -> tuple[Joint, Decision]:
    """Return the joint front of the studies on one data set, and the decision."""
    from tune_vfl.analysis.decide import decide
    from tune_vfl.analysis.joint_front import joint_of

    found = joint_of(campaign)
    return found, decide(found)


def _told(campaign: CampaignRecord) -> str:
    defenses = ", ".join(dict.fromkeys(s.cell.defense for s in campaign.studies))
    return f"{campaign.name}: {defenses} on {', '.join(campaign.datasets)}; {counted(campaign.by_outcome())}"


def _short(value: float) -> str:
    return f"{value:.4g}"
