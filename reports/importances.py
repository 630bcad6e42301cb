"""Parameter importances and parallel coordinates by Optuna, from an in-memory study made of the records."""

from __future__ import annotations

import json
import math
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from reports.naming import moving_params
from reports.plotted import INK, SOFT
from tune_vfl.analysis import formatting
from tune_vfl.analysis.settings_table import SettingsTable
from tune_vfl.spec.cell import as_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

    from tune_vfl.records.studies import StudyRecord

FEWEST = 12
"""The smallest number of settings for meaningful importances."""
MOST = 60
"""The largest number of settings used, those of the best ranks: more are slow and unreadable."""
_TREES = 16


class Importance(NamedTuple):
    """A parameter's share of the variance in utility and in leakage, 0 to 1."""

    study: str
    param: str
    utility: float
    leakage: float


def enough(record: StudyRecord) -> bool:
    """Return whether a study has enough settings, with at least two varying parameters."""
    return len(record.ok) >= FEWEST and len(_varied(record)) >= 2


def importances(record: StudyRecord) -> list[Importance]:
    """Return the parameters' importances (fANOVA), by falling importance for leakage.

    Empty without :func:`enough` settings.
    """
    if not enough(record):
        return []
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances

    study, shares = _study(record), []
    for objective in (0, 1):
        weigh = FanovaImportanceEvaluator(n_trees=_TREES, seed=0)
        none = dict.fromkeys(study.trials[0].params, 0.0)
        if len({_value(objective, trial) for trial in study.trials}) == 1:
            shares.append(none)
            continue
        try:
            shares.append(get_param_importances(study, evaluator=weigh, target=partial(_value, objective)))
        except RuntimeError:  # no tree splits: no parameter has an effect
            shares.append(none)
    names = sorted(shares[1], key=lambda name: (-shares[1][name], name))
    return [Importance(record.name, n, float(shares[0][n]), float(shares[1][n])) for n in names]


def parallel(record: StudyRecord) -> dict[str, Any] | None:
    """Return Optuna's parallel coordinates of a study as plotly data; None without enough settings."""
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
    """Return the parameters with at least two values."""
    found = {n: {json.dumps(t.params[n]) for t in record.ok if n in t.params} for n in moving_params(record)}
    return [name for name, values in found.items() if len(values) > 1]


def _study(record: StudyRecord) -> Study:
    """Return an in-memory Optuna study of the record's best ranks."""
    import optuna

    names = _varied(record)
    table = SettingsTable(record)
    trials = [row.trial for row in sorted(table.rows, key=lambda row: table.ranks[row.place])][:MOST]
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    domains = {name: _domain([t.params[name] for t in trials if name in t.params]) for name in names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna's warning on experimental metric names
        study = optuna.create_study(directions=["maximize", "minimize"], storage=optuna.storages.InMemoryStorage())
        study.set_metric_names([formatting.metric(record.cell.metric), "leakage"])
        for trial in sorted(trials, key=lambda t: t.number):
            params = {n: as_text(trial.params[n]) for n in domains if n in trial.params}
            values, searched = list(trial.outcome.objectives), {n: domains[n] for n in params}
            study.add_trial(optuna.trial.create_trial(params=params, distributions=searched, values=values))
    return study


def _domain(values: Sequence[Any]) -> BaseDistribution:
    """Return an Optuna distribution around these values, logarithmic where they span more than a decade."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    numbers = [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v)]
    if len(numbers) < len(values):
        return CategoricalDistribution(list(dict.fromkeys(as_text(v) for v in values)))
    low, high = min(numbers), max(numbers)
    log = low > 0 and high / low > 10
    if all(isinstance(v, int) for v in numbers):
        return IntDistribution(int(low), int(high), log=log)
    return FloatDistribution(float(low), float(high), log=log)


def _value(objective: int, trial: FrozenTrial) -> float:
    return float(trial.values[objective])
