"""Trials and Pareto fronts of a study or a campaign as pandas frames with flat columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from tune_vfl.analysis.columns import FRESH, SPANS, values
from tune_vfl.analysis.settings_table import SettingsTable
from tune_vfl.analysis.summary import front_settings
from tune_vfl.records.campaigns import CampaignRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tune_vfl.analysis.joint_front import Joint
    from tune_vfl.records.studies import StudyRecord

_FRESH = tuple(FRESH + name for name in (*SPANS, "stays", "seeds"))
_TRIALS = ("dataset", "study", "number", "defense", "outcome", "reason", "utility", "utility_std", "leakage")
_FRONTIER = ("number", "utility", "leakage", "utility_std", "leakage_std")


def front_frame(joints: Sequence[Joint]) -> pd.DataFrame:
    """Return the joint front of each data set, a row per setting, by falling utility.

    Columns: the setting's identity, ``utility`` and ``leakage`` of the search with ``*_low`` and ``*_high`` (90%
    intervals, missing where there are none), ``chance`` of being on the front, ``confirmed``, ``knee``,
    ``defense.PARAM``, and ``attack.NAME``, its success in the search. After a confirmation also its numbers on fresh
    seeds, ``confirmed.utility`` and ``confirmed.leakage`` with their ends, ``confirmed.stays`` (the chance to stay on
    the front) and ``confirmed.seeds``; missing of a setting that took part in none.
    """
    again = any(part.confirmation is not None for joint in joints for part in joint.parts)
    names = (
        *("dataset", "study", "number", "defense", *SPANS, *(_FRESH if again else ())),
        *("chance", "confirmed", "knee", "defense.*", "attack.*"),
    )
    rows = [values(point, names, knee=point is joint.knee) for joint in joints for point in joint.front]
    return _frame(rows, ("dataset", "study", "number", "defense", "utility", "leakage"))


def trials_frame(records: Sequence[StudyRecord]) -> pd.DataFrame:
    """Return the finished trials, a row each, by number within a study; preempted and failed ones have a ``reason``."""
    names = (*_TRIALS, "leakage_std", "seconds", "defense.*", "attack.*")
    trials = [trial for study in records for trial in SettingsTable(study).trials]
    return _frame([values(trial, names) for trial in trials], tuple(n for n in _TRIALS if n != "utility_std"))


def frontier_frame(campaign: CampaignRecord, attack: str | None = None) -> pd.DataFrame:
    """Return the front as ``frontier --format csv`` prints it; see :func:`tune_vfl.analysis.summary.front_settings`.

    Parameters (``params.NAME``), attacks (``attack.NAME``, its success) and the papers' scalars have columns of their
    own.
    """
    identity = () if campaign.lone else ("study", "dataset", "defense")
    names = (*identity, *_FRONTIER, "params.*", "attack.*", "published.*")
    rows = [values(point, names) for point in front_settings(campaign, attack)]
    return pd.DataFrame(rows, columns=None if rows else list(_FRONTIER))


def _frame(rows: Sequence[Mapping[str, Any]], least: Sequence[str]) -> pd.DataFrame:
    """Return a frame of rows whose columns differ, parameters before attacks; an empty one keeps its usual columns."""
    columns = list(dict.fromkeys(name for row in rows for name in row)) or list(least)
    attacks = [name for name in columns if name.startswith("attack.")]
    frame = pd.DataFrame(rows, columns=[*(c for c in columns if c not in attacks), *attacks])
    numbers = {*SPANS, "utility_std", "leakage_std", *_FRESH}
    return frame.astype({name: float for name in columns if name in numbers})
