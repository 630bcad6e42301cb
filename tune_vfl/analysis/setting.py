"""A measured setting with everything that is known of it, and the undefended model that settings are compared with."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from tune_vfl.statistics import undecided

if TYPE_CHECKING:
    from tune_vfl.analysis.reliability import LocalBaseline
    from tune_vfl.evaluation.certainty import Certainty, Interval
    from tune_vfl.outcome import Outcome
    from tune_vfl.records.answers import SettingKey
    from tune_vfl.records.confirmations import ConfirmedPoint
    from tune_vfl.records.studies import StudyRecord, TrialRecord
    from tune_vfl.statistics.arrays import Bools


class Comparison(Protocol):
    """All settings on one data set, which the interval and the rank of each depend on.

    It is a :class:`tune_vfl.analysis.settings_table.SettingsTable`.
    """

    @property
    def alone(self) -> LocalBaseline | None:
        """The label party's own model."""

    @property
    def undefended_sure(self) -> Certainty | None:
        """The undefended model's intervals."""

    @property
    def place(self) -> dict[tuple[str, int], int]:
        """The settings' places, by study and number."""

    @property
    def sure(self) -> list[Certainty]:
        """The settings' intervals, in their order."""

    @property
    def chances(self) -> list[float]:
        """Every setting's chance to be on the front."""

    @property
    def on_front(self) -> Bools:
        """``(N,)`` whether each setting is on the front."""

    @property
    def ranks(self) -> list[int]:
        """Every setting's rank; 0 is the front."""


@dataclass(frozen=True, eq=False)
class MeasuredModel:
    """A trained and attacked model: a setting's, or the undefended one that settings are compared with.

    Attributes:
        table: all settings on the data set.
        record: its study.
        outcome: its numbers with each seed.
        attack: the one attack whose advantage is its leakage; None takes that of the strongest.
    """

    table: Comparison = field(repr=False)
    record: StudyRecord = field(repr=False)
    outcome: Outcome = field(repr=False)
    attack: str | None = field(default=None, kw_only=True)

    @property
    def sure(self) -> Certainty | None:
        """The 90% intervals from the search's seeds; None without an undefended model."""
        return self.table.undefended_sure

    @property
    def ok(self) -> bool:
        """Whether it has utility and leakage; a failed trial has none."""
        return self.outcome.outcome == "ok"

    @property
    def measure(self) -> int:
        """The measure of its study, see :data:`tune_vfl.spec.cell.MEASURE`."""
        return self.record.measure

    @property
    def objectives(self) -> tuple[float, float]:
        """Utility and leakage as the search measured them; a ValueError unless the outcome is ok."""
        return self.outcome.objectives_against(self.attack)

    @property
    def utility(self) -> float:
        """Mean over the search's seeds."""
        return self.objectives[0]

    @property
    def leakage(self) -> float:
        """The largest mean advantage of an attack over the search's seeds, or that of :attr:`attack`."""
        return self.objectives[1]

    @property
    def utility_std(self) -> float:
        """Standard deviation over the search's seeds."""
        return self.outcome.utility.std if self.outcome.utility else 0.0

    @property
    def leakage_std(self) -> float:
        """Standard deviation over the search's seeds, of the attack that :attr:`leakage` is the advantage of."""
        if self.attack is not None:
            return self.outcome.attacks[self.attack].advantage_std
        return self.outcome.leakage_std or 0.0

    @property
    def utility_interval(self) -> Interval | None:
        """The 90% interval from the search's seeds; None from a single one."""
        return None if self.sure is None else self.sure.utility_interval

    @property
    def leakage_interval(self) -> Interval | None:
        """The 90% interval of the strongest attack's advantage, from the search's seeds; None from a single one."""
        return None if self.sure is None else self.sure.leakage_interval

    @property
    def leakage_worst_seed(self) -> float | None:
        """The mean over the search's seeds of each seed's largest advantage."""
        return None if self.sure is None else self.sure.leakage_worst_seed

    @property
    def gain_kept(self) -> float | None:
        """The share of what the federation adds to the label party alone; None where it adds nothing, or is unknown."""
        return None if self.table.alone is None else self.table.alone.kept(self.utility)


@dataclass(frozen=True, eq=False)
class Setting(MeasuredModel):
    """One setting of one defense, with everything that is known of it.

    ``utility`` and ``leakage`` are the search's; those of fresh seeds are ``again``'s.

    Attributes:
        trial: its trial.
        again: its confirmation, whether it stayed on the front or not; None where it took part in none.
    """

    trial: TrialRecord
    again: ConfirmedPoint | None = None

    @property
    def study(self) -> str:
        """The name of its study."""
        return self.record.name

    @property
    def dataset(self) -> str:
        """The name of its data set."""
        return self.record.cell.dataset.name

    @property
    def defense(self) -> str:
        """The name of its defense."""
        return self.record.cell.defense

    @property
    def number(self) -> int:
        """The number of its trial."""
        return self.trial.number

    @property
    def name(self) -> str:
        """The name for ``--select``: ``STUDY#21``."""
        return f"{self.study}#{self.number}"

    @property
    def key(self) -> SettingKey:
        """Its study and the number of its trial."""
        return self.study, self.number

    @property
    def params(self) -> dict[str, Any]:
        """The parameters, fixed ones included."""
        return self.trial.params

    @property
    def place(self) -> int:
        """Its index among the settings of :attr:`table`."""
        return self.table.place[self.key]

    @property
    def sure(self) -> Certainty:
        """The 90% intervals, from all settings of the data set with the same seeds and undefended model."""
        return self.table.sure[self.place]

    @property
    def chance(self) -> float:
        """The chance of being on the front of the data set; from one seed 1 on the front and 0 behind it."""
        return self.table.chances[self.place]

    @property
    def on_front(self) -> bool:
        """Whether the search's numbers place it on the front of the data set."""
        return bool(self.table.on_front[self.place])

    @property
    def rank(self) -> int | None:
        """Its rank among the settings of the data set by the search's numbers, 0 on the front; None of a failure."""
        return self.table.ranks[self.place] if self.ok else None

    @property
    def confirmed(self) -> bool:
        """Whether a confirmation placed it on the front."""
        return self.again is not None and self.again.confirmed

    @property
    def intervals(self) -> tuple[Interval | None, Interval | None]:
        """The best known 90% intervals of utility and leakage: of a confirmation where there is one."""
        best = self.sure if self.again is None else self.again
        return best.utility_interval, best.leakage_interval

    @property
    def undecided(self) -> bool:
        """Whether the leakage's best known interval is too wide for a recommendation."""
        leakage = self.intervals[1]
        return leakage is not None and undecided(*leakage)

    @property
    def weak(self) -> tuple[str, ...]:
        """The attacks that found less than on a model that was never trained."""
        return tuple(name for name, score in self.outcome.attacks.items() if score.weak_attack)

    def against(self, attack: str) -> Setting:
        """Return the setting with the advantage of one attack as its leakage."""
        return replace(self, attack=attack)
