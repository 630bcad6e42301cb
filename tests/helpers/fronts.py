"""The front, ranks and best compromise of a single study, by its trials' numbers."""

from tune_vfl.analysis.joint_front import Joint
from tune_vfl.records.studies import StudyRecord


def front_of(record: StudyRecord) -> tuple[int, ...]:
    """Return the trials on its front, by falling utility."""
    return tuple(point.number for point in Joint(record).front)


def ranks_of(record: StudyRecord) -> dict[int, int]:
    """Return the rank of each trial with objectives; 0 is the front."""
    return {point.number: point.rank for point in Joint(record).points if point.rank is not None}


def knee_of(record: StudyRecord) -> int | None:
    """Return its best compromise; None without a trial that has objectives."""
    knee = Joint(record).knee
    return None if knee is None else knee.number
