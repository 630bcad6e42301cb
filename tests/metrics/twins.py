"""A naive twin of the curves of many scores at once: one number of one set of scores."""

import numpy as np


def success_at_one_percent(scores, y):
    """Share of the positives found while at most 1% of the negatives are accused; straight between thresholds."""
    positives = int((y == 1).sum())
    if positives in (0, len(y)) or not np.isfinite(scores).all():
        return float("nan")
    order = np.argsort(-scores, kind="stable")
    last_of_tie = np.append(scores[order][1:] != scores[order][:-1], True)
    found = np.append(0, np.cumsum(y[order] == 1)[last_of_tie]) / positives
    accused = np.append(0, np.cumsum(y[order] != 1)[last_of_tie]) / (len(y) - positives)
    return float(np.interp(0.01, accused, found))
