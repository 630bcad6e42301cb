"""The knee of a study: its best compromise, on a scale that does not change with its front."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tune_vfl.analysis.reliability import local_baseline_of
from tune_vfl.evaluation.certainty import advantages_of, names_of
from tune_vfl.metrics import pareto
from tune_vfl.outcome import Outcome
from tune_vfl.records.studies import StudyRecord, TrialRecord
from tune_vfl.statistics.arrays import Floats
from tune_vfl.statistics.choosing import Scale, knee


def scale_of(record: StudyRecord) -> Scale | None:
    """Return a study's scale of utility and leakage; None where its undefended model has no numbers.

    Utility counts from what the label party reaches alone, or from the guess where the federation adds nothing to that,
    up to the undefended model's; leakage from 0 to the undefended model's.
    """
    outcome = record.baseline
    if record.measure == 1 or outcome is None or outcome.outcome != "ok":
        return None
    utility, leakage = outcome.objectives
    alone = local_baseline_of(record)
    low = alone.utility if alone is not None and alone.gain_interval[0] > 0 else record.reference_point[0]
    return Scale(low, utility, leakage)


def knee_of(record: StudyRecord, front: Sequence[TrialRecord]) -> int | None:
    """Return the number of a study's best compromise: the confirmed one where there is one, else that of its front.

    Args:
        record: the study.
        front: its trials on the front, by number.

    Returns:
        None without a point. Where the scale is not known, as of a study of measure 1, the point that is farthest from
        the chord between the front's ends.
    """
    if record.confirmation is not None and record.confirmation.knee is not None:
        return record.confirmation.knee
    position = compromise_of([t.outcome for t in front], scale_of(record))
    return None if position is None else front[position].number


def compromise_of(front: Sequence[Outcome], scale: Scale | None, gains: Floats | None = None) -> int | None:
    """Return the place of the best compromise among the settings of a front; None for an empty one.

    Args:
        front: their outcomes, ok and with the same seeds.
        scale: on which they are weighed; without one, or without attacks, it is the point that is farthest from the
            chord between the front's ends.
        gains: ``(K, N, S)`` their :func:`tune_vfl.evaluation.certainty.advantages_of`, if already computed.
    """
    seeds = {len(o.utility.values) for o in front if o.utility}
    if gains is None and scale is not None and len(seeds) == 1:
        gains = advantages_of(front, names_of(front))
    if scale is None or gains is None or not len(gains):
        return pareto.knee([o.objectives for o in front])
    utilities = np.asarray([o.utility.values if o.utility else [] for o in front])
    return knee(range(len(front)), utilities, gains, scale)
