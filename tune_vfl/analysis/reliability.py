"""Reliability of a study: the federation's gain over the label party alone, the scale of its numbers, and checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tune_vfl.evaluation.certainty import Certainty, Interval, certainties
from tune_vfl.evaluation.checks import Check, amplification, checks_of_sample, checks_of_undefended
from tune_vfl.records.studies import StudyRecord
from tune_vfl.statistics.choosing import Scale
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


def checks_of(record: StudyRecord) -> tuple[Check, ...]:
    """Return a study's checks, whether they hold or not: while one fails, nothing is recommended."""
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


def scale_of(record: StudyRecord) -> Scale | None:
    """Return a study's scale of utility and leakage; None where its undefended model has no numbers.

    Utility counts from what the label party reaches alone, or from the guess where the federation adds nothing to that,
    up to the undefended model's; leakage from 0 to the undefended model's.
    """
    outcome = record.baseline
    if outcome is None or outcome.outcome != "ok":
        return None
    utility, leakage = outcome.objectives
    alone = local_baseline_of(record)
    low = alone.utility if alone is not None and alone.gain_interval[0] > 0 else record.reference_point[0]
    return Scale(low, utility, leakage)


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
