"""A study as a notebook asks it: frames, a figure, an answer, and what a cell shows of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from tune_vfl.campaign.campaign import Campaign as CampaignReader
from tune_vfl.campaign.decide import Decision
from tune_vfl.campaign.words import sentences
from tune_vfl.errors import SpecError, UnknownNameError, UsageError
from tune_vfl.ledger.campaigns import CampaignRecord
from tune_vfl.ledger.study import Study as HeldInLedger
from tune_vfl.spec.constraints import Constraints

if TYPE_CHECKING:
    import pandas as pd

    from tune_vfl.campaign.joint import Joint
    from tune_vfl.confirmation import Confirmed
    from tune_vfl.search.planning import CampaignLike


@dataclass(frozen=True)
class Recommendation(Decision):
    """A decision that shows itself in sentences."""

    def __str__(self) -> str:
        """Say what to do, and why, a sentence a line."""
        return "\n".join(sentences(self))

    def _repr_html_(self) -> str:
        """Return the same for a notebook, the answer first."""
        answer, *told = map(escape, sentences(self))
        return f"<p><b>{answer}</b></p>\n<p>{' '.join(told)}</p>"


class Asked(ABC):
    """What a study and a campaign are asked alike; whoever has a record of the whole answers all of it.

    Attributes:
        name: the study's or the campaign's.
        storage: the ledger's database; None is the one that the environment names.
    """

    name: str
    storage: str | None

    @abstractmethod
    def whole(self) -> CampaignRecord:
        """Return all studies as they stand in the ledger; a lone one is a campaign with one part."""

    def front(self) -> pd.DataFrame:
        """Return the Pareto front, of several defenses the joint one: a row a setting, by falling utility.

        With several data sets each has a front, told apart by ``dataset``. ``*_low`` and ``*_high`` are 90% intervals,
        missing with a single seed; ``chance`` is that of being on the front; ``attack.NAME`` is an attack's success.
        """
        from tune_vfl.campaign.joint import joint_of
        from tune_vfl.service.frames import front_frame

        campaign = self.whole()
        return front_frame([joint_of(campaign, dataset) for dataset in campaign.datasets])

    def trials(self) -> pd.DataFrame:
        """Return a row a finished trial, those that failed among them, with a column a parameter and an attack."""
        from tune_vfl.service.frames import trials_frame

        return trials_frame(self.whole().studies)

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

        found, decision = _decided(_one_of(self.whole(), dataset))
        return plotly_figure(frontier(found, decision, names_of(found)))

    def recommend(self, dataset: str | None = None, **constraints: float) -> Recommendation:
        """Return what to deploy, or why nothing: ``recommend(leakage=0.2, utility_loss=0.01)``.

        Args:
            dataset: which of several data sets.
            constraints: as in a spec: ``leakage``, ``utility_loss`` and ``cost`` at most, ``utility`` at least, one
                attack's by ``**{"attacks.pmc.advantage": 0.3}``. None: those of the spec.

        Returns:
            The decision as data, which prints in sentences: ``verdict``, ``setting`` with its numbers and intervals,
            ``runner_up``, ``nearest``.

        Raises:
            SpecError: for a constraint that nobody knows.
            UsageError: when there are several data sets and none of them is named.
        """
        campaign = _one_of(self.whole(), dataset)
        if constraints:
            campaign = replace(campaign, constraints=_known(constraints))
        return Recommendation(**vars(_decided(campaign)[1]))

    def confirm(self, seeds: int = 10, adaptive: float = 0.0) -> Confirmed:
        """Measure the front again, with fresh seeds and on rows that no search saw; front and figure then show it.

        Args:
            seeds: how many fresh seeds a setting that stays has in the end.
            adaptive: for how many minutes attackers are tuned against each of them.

        Raises:
            StudyError: when there is nothing to confirm, or another process runs it.
        """
        from tune_vfl.service.confirming import confirm_named

        return confirm_named(self.name, seeds=seeds, adaptive=adaptive, storage=self.storage)

    def __repr__(self) -> str:
        """Say what it is of, and how far it is."""
        return f"<{_told(self.whole())}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: how far it is, what is recommended, and the front."""
        campaign = self.whole()
        answers = [self.recommend(dataset)._repr_html_() for dataset in campaign.datasets]
        front = self.front().to_html(index=False, na_rep="", float_format=_short)
        return "\n".join([f"<p><b>{escape(_told(campaign))}</b></p>", *answers, front])


class Study(Asked, HeldInLedger):
    """A study with the verbs of a notebook."""

    def whole(self) -> CampaignRecord:
        """Return it as a campaign with one part."""
        return CampaignRecord.of(self.record())


class Campaign(Asked, CampaignReader):
    """A campaign with the verbs of a notebook."""

    def whole(self) -> CampaignRecord:
        """Return it."""
        return self.record()


def search(spec: CampaignLike, **how: Any) -> Study | Campaign:
    """Run a search here, or go on with the one of this name and spec: :func:`tune_vfl.search.api.search`.

    Args:
        spec: a mapping of the form of a spec, or the path of a YAML file.
        how: ``trials``, ``name``, ``storage``, ``take_over``, ``progress``, ``listeners``, as there.
    """
    from tune_vfl.search.api import search as run

    return _asked(run(spec, **how))


def load_study(name: str, storage: str | None = None) -> Study | Campaign:
    """Return a study of the ledger, or a campaign.

    Args:
        name: its name.
        storage: the ledger's database; None is the one that the environment names.

    Raises:
        StudyError: when there is none of this name; the message names the nearest.
    """
    from tune_vfl.service.studies import open_named

    return _asked(open_named(name, storage))


def _asked(found: HeldInLedger | CampaignReader) -> Study | Campaign:
    if isinstance(found, CampaignReader):
        return Campaign(found.held, stopped=found.stopped)
    return Study(found.name, found.storage, stopped=found.stopped)


def _one_of(campaign: CampaignRecord, dataset: str | None) -> CampaignRecord:
    """Return the part of a campaign on one data set, the only one where none is named."""
    known = campaign.datasets
    if dataset is None and len(known) > 1:
        raise UsageError(
            f"{campaign.name!r} has several data sets; name one: dataset={known[0]!r} ({', '.join(known)})"
        )
    if dataset is not None and dataset not in known:
        raise UnknownNameError(f"data set of {campaign.name!r}", dataset, known)
    return campaign.on(dataset or known[0])


def _known(constraints: dict[str, float]) -> dict[str, float]:
    try:
        return TypeAdapter(Constraints).validate_python(constraints)
    except ValidationError as error:
        raise SpecError([f"recommend: {problem['msg']}" for problem in error.errors()]) from error


def _decided(campaign: CampaignRecord) -> tuple[Joint, Decision]:
    """Return the studies on one data set side by side, and what to do."""
    from tune_vfl.campaign.deciding import decide
    from tune_vfl.campaign.joint import joint_of

    found = joint_of(campaign)
    return found, decide(campaign, found)


def _told(campaign: CampaignRecord) -> str:
    ended = Counter[str]()
    for study in campaign.studies:
        ended.update({name: n for name, n in study.by_outcome().items() if n})
    defenses = ", ".join(dict.fromkeys(s.cell.defense for s in campaign.studies))
    trials = ", ".join(f"{n} {name}" for name, n in ended.items())
    return f"{campaign.name}: {defenses} on {', '.join(campaign.datasets)}; {trials}"


def _short(value: float) -> str:
    return f"{value:.4g}"
