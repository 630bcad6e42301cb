"""What of a defense's parameters matters, and how settings run through them (Optuna's parallel coordinates)."""

from __future__ import annotations

import json
import math
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from reports.fanova import Column, shares
from reports.naming import moving_params
from reports.plotted import INK, SOFT
from tune_vfl.campaign import phrases as words
from tune_vfl.ledger.standing import standing
from tune_vfl.spec.cell import as_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna import Study
    from optuna.distributions import BaseDistribution

    from tune_vfl.ledger.records import StudyRecord, TrialRecord

FEWEST = 12
"""Settings below which importances are chance."""
MOST = 60
"""Settings that are drawn and weighed, those of the best ranks: more are a thicket, and take time."""


class Importance(NamedTuple):
    """The share of a parameter in what utility and leakage vary by, of all that its study searched; 0 to 1."""

    study: str
    param: str
    utility: float
    leakage: float


def enough(record: StudyRecord) -> bool:
    """Return whether a study has enough settings, and at least two parameters that vary among them."""
    return len(record.ok) >= FEWEST and len(_varied(record)) >= 2


def importances(record: StudyRecord) -> list[Importance]:
    """Return how much each parameter matters (fANOVA), the one that matters most to leakage first.

    Empty where there are not :func:`enough` settings.
    """
    if not enough(record):
        return []
    trials = _best(record)
    columns = {
        name: _column([t.params[name] for t in trials])
        for name in _varied(record)
        if all(name in t.params for t in trials)
    }
    if not columns:
        return []
    weighed = []
    for objective in zip(*(t.outcome.objectives for t in trials), strict=True):
        found = shares(list(columns.values()), np.array(objective))
        weighed.append(np.zeros(len(columns)) if found is None else found / (found.sum() or 1.0))
    listed = [Importance(record.name, n, float(u), float(x)) for n, u, x in zip(columns, *weighed, strict=True)]
    return sorted(listed, key=lambda i: (-i.leakage, i.param))


def parallel(record: StudyRecord) -> dict[str, Any] | None:
    """Return Optuna's parallel coordinates of a study as plotly's data; None where there are not enough settings."""
    if not enough(record):
        return None
    from optuna.visualization import plot_parallel_coordinate

    drawn: dict[str, Any] = json.loads(plot_parallel_coordinate(_study(record)).to_json())
    layout = drawn["layout"]
    layout.pop("template", None)
    layout.pop("title", None)
    for note in layout.get("annotations", ()):
        note["font"] = {"color": SOFT, "size": 11}
    layout |= {"paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "showlegend": False}
    layout |= {"font": {"color": INK, "family": "inherit", "size": 13}, "margin": {"l": 56, "r": 10, "t": 34, "b": 40}}
    return {"data": drawn["data"], "layout": layout}


def _varied(record: StudyRecord) -> list[str]:
    """Return the parameters that take at least two values, among the settings that have one."""
    ok = record.ok

    def varies(name: str) -> bool:
        values = (json.dumps(t.params[name]) for t in ok if name in t.params)
        first = next(values, None)
        return any(value != first for value in values)

    return [name for name in moving_params(record) if varies(name)]


def _best(record: StudyRecord) -> list[TrialRecord]:
    """Return the settings of the best ranks, as many as are looked at."""
    ranks = standing(record).ranks
    return sorted(record.ok, key=lambda t: (ranks[t.number], t.number))[:MOST]


def _column(values: Sequence[Any]) -> Column:
    """Return a parameter's values as numbers, or as places among their texts where one is no finite number."""
    if all(map(_is_number, values)):
        return Column(np.array(values, dtype=np.float64))
    texts = [as_text(value) for value in values]
    words = list(dict.fromkeys(texts))
    return Column(np.array([words.index(text) for text in texts], dtype=np.float64), len(words))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _study(record: StudyRecord) -> Study:
    """Return the best ranks of a study as a study of Optuna's that is nowhere but in memory."""
    import optuna

    names, trials = _varied(record), _best(record)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    domains = {name: _domain([t.params[name] for t in trials if name in t.params]) for name in names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that metric names are new
        study = optuna.create_study(directions=["maximize", "minimize"], storage=optuna.storages.InMemoryStorage())
        study.set_metric_names([words.metric(record.cell.metric), "leakage"])
        for trial in sorted(trials, key=lambda t: t.number):
            study.add_trial(_trial(trial, domains))
    return study


def _trial(trial: TrialRecord, domains: dict[str, BaseDistribution]) -> Any:
    from optuna.trial import create_trial

    params = {n: as_text(trial.params[n]) for n in domains if n in trial.params}
    return create_trial(
        params=params, distributions={n: domains[n] for n in params}, values=list(trial.outcome.objectives)
    )


def _domain(values: Sequence[Any]) -> BaseDistribution:
    """Return a domain that holds these values, by decades where they span more than one."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if not all(map(_is_number, values)):
        return CategoricalDistribution(list(dict.fromkeys(as_text(v) for v in values)))
    low, high = min(values), max(values)
    log = low > 0 and high / low > 10
    if all(isinstance(v, int) for v in values):
        return IntDistribution(int(low), int(high), log=log)
    return FloatDistribution(float(low), float(high), log=log)
