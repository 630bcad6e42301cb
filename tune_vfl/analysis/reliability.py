"""Reliability of a study: intervals of its settings, the federation's gain over the label party alone, and checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tune_vfl.evaluation.certainty import Certainty, Interval, certainties
from tune_vfl.evaluation.checks import Check, amplification, checks_of_sample, checks_of_undefended
from tune_vfl.records.studies import StudyRecord
from tune_vfl.statistics.intervals import levels
from tune_vfl.statistics.leakage import clipped


class LocalBaseline(NamedTuple):
    """The label party's own model, or a client's: the baseline without a federation.

    Attributes:
        utility: a mean over the seeds of the undefended model; ``interval``: of 90%.
        gain: the undefended federation's utility above it; ``gain_interval``: of 90%, from differences seed by seed.
        who: the party, in words.
    """

    utility: float
    interval: Interval
    gain: float
    gain_interval: Interval
    who: str = "the label party"

    def kept(self, utility: float) -> float | None:
        """Return the share of the federation's gain that a setting keeps; None where there is nothing to gain."""
        return None if self.gain_interval[0] <= 0 else (utility - self.utility) / self.gain


class Reliability(NamedTuple):
    """Intervals, baselines and checks of a study; all empty for a study of measure 1.

    Attributes:
        trials: by number, of the ok ones.
        baseline: of the undefended model.
        alone: None where it was not measured.
        checks: all of them, whether they hold or not.
    """

    trials: dict[int, Certainty]
    baseline: Certainty | None
    alone: LocalBaseline | None
    checks: tuple[Check, ...]

    @property
    def failing(self) -> list[Check]:
        """The checks that do not hold: while there are any, nothing is recommended."""
        return [check for check in self.checks if not check.ok]


NONE = Reliability({}, None, None, ())


def reliability_of(record: StudyRecord) -> Reliability:
    """Compute a study's reliability."""
    if record.measure == 1:
        return NONE
    undefended = record.baseline if record.baseline is not None and record.baseline.outcome == "ok" else None
    found = certainties([t.outcome for t in record.ok], undefended)
    trials = {t.number: sure for t, sure in zip(record.ok, found, strict=True)}
    baseline = certainties([undefended])[0] if undefended else None
    alone = local_baseline_of(record)
    return Reliability(trials, baseline, alone, tuple(_checks(record, baseline, alone)))


def checks_of(record: StudyRecord) -> tuple[Check, ...]:
    """Return the checks of :func:`reliability_of` alone; none of a study of measure 1."""
    if record.measure == 1:
        return ()
    undefended = record.baseline if record.baseline is not None and record.baseline.outcome == "ok" else None
    baseline = certainties([undefended])[0] if undefended else None
    return tuple(_checks(record, baseline, local_baseline_of(record)))


def local_baseline_of(record: StudyRecord) -> LocalBaseline | None:
    """Return the utility of the label party, or a client, without the federation; None if not measured."""
    own, baseline = np.asarray(record.alone), record.baseline
    if baseline is None or baseline.utility is None or len(own) != len(baseline.utility.values) or len(own) < 2:
        return None
    gained = np.asarray(baseline.utility.values) - own
    low, high = (clipped(end) for end in levels([own]).interval())
    least, most = levels([gained]).interval()
    interval, gain = (float(low[0]), float(high[0])), (float(least[0]), float(most[0]))
    return LocalBaseline(float(own.mean()), interval, float(gained.mean()), gain, record.cell.federation.by_itself)


def _no_gain(alone: LocalBaseline) -> str:
    if alone.gain_interval[1] >= 0:
        return "nothing to protect it for"
    return "a federation trained too long can be worse than none; try fewer epochs, or there is nothing to protect"


def _checks(record: StudyRecord, baseline: Certainty | None, alone: LocalBaseline | None) -> Iterator[Check]:
    outcome = record.baseline
    if outcome is None or baseline is None:
        yield Check(name="undefended", ok=False, says="the undefended model was not measured, or not to an end")
        return
    yield from checks_of_undefended(outcome, baseline, record.reference_point[0])
    if alone is not None:
        says = f"the federation adds {alone.gain:.3f} to the {alone.utility:.3f} that {alone.who} reaches alone"
        worth = alone.gain_interval[0] > 0
        yield Check(name="gain", ok=worth, says=says if worth else f"{says}: {_no_gain(alone)}")
    for trial in record.ok[:1]:
        yield from checks_of_sample(trial.outcome)
    yield amplification(baseline)
