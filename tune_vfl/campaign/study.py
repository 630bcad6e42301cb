"""A study as a person holds it: its front, its summary, its best setting."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_vfl.analysis.exporting import exported
from tune_vfl.analysis.front_statistics import front_statistics
from tune_vfl.analysis.reliability import NONE, Reliability, reliability_of
from tune_vfl.analysis.selection import front_of
from tune_vfl.analysis.selection import select as select_point
from tune_vfl.errors import SelectionError
from tune_vfl.ledger.reading import StudyReader, open_to_read
from tune_vfl.ledger.trials import overdue
from tune_vfl.metrics.published import published

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tune_vfl.ledger.ledger import Ledger
    from tune_vfl.records.confirmations import ConfirmedPoint
    from tune_vfl.records.studies import StudyRecord, TrialRecord

STUDY_SCHEMA = "tune-vfl/study/1"


class Study:
    """One study, read from the ledger when it is asked.

    Args:
        name: the study.
        storage: the ledger's database; None is the one that the environment names.
        stopped: it was stopped in this run, before its budget was used up.

    Raises:
        StudyError: when there is none of this name.
    """

    def __init__(self, name: str, storage: str | None = None, *, stopped: bool = False) -> None:
        self.name = name
        self.storage = storage
        self.stopped = stopped
        self._ledger = open_to_read(name, storage)

    @classmethod
    def of(cls, ledger: Ledger, *, stopped: bool) -> Study:
        """Return the study of a ledger that is open already, and that somebody else closes."""
        study = cls.reading(ledger)
        study.stopped = stopped
        return study

    @classmethod
    def reading(cls, held: StudyReader) -> Study:
        """Return the study that was opened already, to be read."""
        study = cls.__new__(cls)
        study.name, study.stopped, study._ledger = held.study.name, False, held
        study.storage = held.place.url
        return study

    def record(self) -> StudyRecord:
        """Return the study as it stands in the ledger."""
        return self._ledger.record()

    @property
    def campaign(self) -> str:
        """The campaign that it is a part of; empty for a lone study."""
        return self._ledger.study.campaign

    def overdue(self) -> list[int]:
        """Return the numbers of running trials that take longer than the study allows them."""
        minutes = self._ledger.cell.trial_minutes
        return [] if minutes is None else overdue(self._ledger.running(), minutes)

    def front_trials(self, attack: str | None = None) -> list[TrialRecord]:
        """Return the trials on the front, by number; equal points all stay.

        Args:
            attack: take this attack's advantage for the leakage instead of the worst attack's.

        Raises:
            SelectionError: when the study has no such attack.
        """
        return self._front_of(self.record(), attack)

    def _front_of(self, record: StudyRecord, attack: str | None) -> list[TrialRecord]:
        known = [a.name for a in record.cell.attacks]
        if attack is not None and attack not in known:
            raise SelectionError(f"study {self.name!r} has no attack {attack!r}; it has: {', '.join(known)}")
        return front_of(record, [_leakage(t, attack) for t in record.ok])

    def frontier(self, attack: str | None = None) -> list[dict[str, Any]]:
        """Return the front as plain data, by falling utility.

        Args:
            attack: as for :meth:`front_trials`; ``leakage`` is then that attack's advantage.

        Returns:
            A dict a point: ``number``, ``params``, ``utility``, ``leakage``, their standard deviations over the
            seeds and 90% intervals, ``leakage_worst_seed``, ``gain_kept`` (the share of what the federation adds to the
            label party's own model; null where it adds nothing), ``attacks``, the success of each by name, and
            ``published``, the papers' scalars by attack.
        """
        record = self.record()
        return self._front(record, reliability_of(record), attack)

    def _front(self, record: StudyRecord, trust: Reliability, attack: str | None = None) -> list[dict[str, Any]]:
        points = [self._point(t, record.confirmed, attack, trust) for t in self._front_of(record, attack)]
        return sorted(points, key=lambda p: (-p["utility"], p["number"]))

    def hypervolume(self) -> float:
        """Return the area that the front dominates, from the reference point (the guess's utility, leakage 1)."""
        return front_statistics(self.record()).hypervolume

    def knee(self) -> int | None:
        """Return the number of the best compromise, a confirmed one where there is one; None without a point."""
        return front_statistics(self.record()).knee

    def summary(self, record: StudyRecord | None = None) -> dict[str, Any]:
        """Return what ``search --json`` and ``status --json`` print.

        Args:
            record: as :meth:`record` has just given it; None reads it.
        """
        from tune_vfl.machine.places import named_uri
        from tune_vfl.machine.secrets import hide_password

        record = record or self.record()
        trust, now = reliability_of(record), front_statistics(record)
        return {
            "schema": STUDY_SCHEMA,
            "study": self.name,
            "measure": record.measure,
            "trials": record.by_outcome(),
            "hypervolume": now.hypervolume,
            "reference_point": list(record.reference_point),
            "baseline": _baseline(record, trust),
            "front": self._front(record, trust),
            "knee": now.knee,
            "cost": record.cost,
            "checks": [check.model_dump() for check in trust.checks],
            "mlflow": {"experiment": self.name, "tracking_uri": hide_password(named_uri(record.spec.tracking))},
        }

    def export(self, select: str = "knee", path: str | Path | None = None) -> Any:
        """Choose a setting from the front and write it for other code.

        Where the study was confirmed, the choice is among the settings that stayed, by what they were found to be on
        fresh seeds, and the file says so.

        Args:
            select: ``knee``, ``max-utility``, ``min-leakage`` or a condition such as ``leakage<=0.2``.
            path: a JSON file; None writes nothing.

        Returns:
            The configuration, as :func:`tune_vfl.load_config` gives it back.

        Raises:
            UsageError: for a ``select`` that is none of these.
            SelectionError: when no point can be chosen.
            UnwritableError: when the file cannot be written.
        """
        from tune_vfl.config import save_config

        record = self.record()
        config = exported(record, select_point(record, select), select)
        if path is not None:
            save_config(config, Path(path))
        return config

    def _point(
        self,
        trial: TrialRecord,
        confirmed: Mapping[int, ConfirmedPoint],
        attack: str | None = None,
        trust: Reliability = NONE,
    ) -> dict[str, Any]:
        outcome, sure = trial.outcome, trust.trials.get(trial.number)
        again = confirmed.get(trial.number)
        spread = outcome.leakage_std if attack is None else outcome.attacks[attack].advantage_std
        return {
            "number": trial.number,
            "params": trial.params,
            "utility": _utility(trial),
            "leakage": _leakage(trial, attack),
            "utility_std": outcome.utility.std if outcome.utility else 0.0,
            "leakage_std": spread or 0.0,
            **({} if sure is None else sure.numbers()),
            **({} if trust.alone is None else {"gain_kept": trust.alone.kept(_utility(trial))}),
            "attacks": {name: score.mean for name, score in outcome.attacks.items()},
            "published": published(outcome),
            "measure": self._ledger.study.measure,
            "confirmed": again is not None,
            **({} if again is None else {"confirmation": again.numbers()}),
        }


def _utility(trial: TrialRecord) -> float:
    return trial.outcome.objectives[0]


def _leakage(trial: TrialRecord, attack: str | None) -> float:
    return trial.outcome.objectives[1] if attack is None else trial.outcome.attacks[attack].advantage


def _baseline(record: StudyRecord, trust: Reliability) -> dict[str, Any] | None:
    """Return the undefended model's numbers; its outcome alone when it has none."""
    outcome = record.baseline
    if outcome is None:
        return None
    if outcome.outcome != "ok":
        nothing = {"outcome": outcome.outcome, "reason": outcome.reason, "utility": None, "leakage": None}
        return {**nothing, "attacks": {}, "measure": record.measure}
    utility, leakage = outcome.objectives
    return {
        "outcome": "ok",
        "utility": utility,
        "leakage": leakage,
        "utility_std": outcome.utility.std if outcome.utility else 0.0,
        "leakage_std": outcome.leakage_std or 0.0,
        **({} if trust.baseline is None else trust.baseline.numbers()),
        **({} if trust.alone is None else {"alone": trust.alone.utility, "alone_interval": list(trust.alone.interval)}),
        "attacks": {name: score.mean for name, score in outcome.attacks.items()},
        "measure": record.measure,
    }
