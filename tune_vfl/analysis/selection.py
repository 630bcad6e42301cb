"""Parser of ``--select``, and the settings that satisfy conditions such as ``leakage<=0.2 and utility_loss<=0.01``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from tune_vfl.analysis.bounds import UpperBounds
from tune_vfl.analysis.setting import Setting
from tune_vfl.analysis.settings_table import SettingsTable
from tune_vfl.errors import SelectionError, UsageError
from tune_vfl.records.studies import StudyRecord
from tune_vfl.spec.constraints import AT_LEAST
from tune_vfl.statistics.arrays import Bools, Floats

_COMPARE: dict[str, Callable[[Floats, float], Bools]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_CONDITION = re.compile(
    r"\s*(?P<name>utility|leakage|utility_loss|cost|attacks\.\w+\.(?:advantage|success))\s*"
    r"(?P<compare><=|>=|<|>)\s*(?P<cap>[-+0-9.eE]+)\s*"
)
_TRIAL = re.compile(r"\s*trial\s*=\s*(\d+)\s*")
_POINT = re.compile(r"\s*(.+)#(\d+)\s*")
_NAME = re.compile(r"[A-Za-z_][\w.-]*")

Rule = Literal["knee", "max-utility", "min-leakage", "decision", "conditions", "trial", "name"]

_RULES: tuple[Rule, ...] = ("knee", "max-utility", "min-leakage", "decision")
_EXPECTED = (
    "expected decision, knee, max-utility, min-leakage, trial=21, or conditions such as 'leakage<=0.2 and "
    "utility_loss<=0.01' (on utility, utility_loss, leakage, cost, attacks.NAME.advantage or attacks.NAME.success); of "
    "a campaign also STUDY#21, or the name of a defense"
)


class Condition(NamedTuple):
    """A condition on a setting.

    Attributes:
        name: as a constraint's, see :data:`tune_vfl.spec.constraints.Constraints`.
        compare: ``<=``, ``>=``, ``<`` or ``>``.
        cap: the limit.
    """

    name: str
    compare: str
    cap: float

    @property
    def surely(self) -> bool:
        """Whether it must hold for the bound: at most so much, of the utility at least; else for the estimate."""
        return self.compare.startswith(">") == (self.name in AT_LEAST)

    def kept(self, bounds: UpperBounds) -> Bools:
        """Return which settings satisfy it; unknown values do not."""
        found = bounds.of(self.name)
        with np.errstate(invalid="ignore"):
            return np.asarray(_COMPARE[self.compare](found.bound if self.surely else found.value, self.cap))


class Selection(NamedTuple):
    """A parsed ``--select``.

    Attributes:
        text: as it was given.
        rule: ``knee``, ``max-utility``, ``min-leakage`` or ``decision``; ``conditions``; ``trial``: ``number``, of
            ``study`` where it is given; ``name``: the best setting of a defense, or of a study, called ``study``.
        conditions: all must hold.
    """

    text: str
    rule: Rule
    conditions: tuple[Condition, ...] = ()
    study: str | None = None
    number: int | None = None


def parse(text: str) -> Selection:
    """Parse ``--select``.

    Raises:
        UsageError: for a text of none of these forms.
    """
    rule = next((rule for rule in _RULES if rule == text.strip()), None)
    if rule is not None:
        return Selection(text, rule)
    if trial := _TRIAL.fullmatch(text):
        return Selection(text, "trial", number=int(trial[1]))
    if point := _POINT.fullmatch(text):
        return Selection(text, "trial", study=point[1].strip(), number=int(point[2]))
    if _NAME.fullmatch(text.strip()):
        return Selection(text, "name", study=text.strip())
    parts = re.split(r"\s+and\s+", text.strip())
    return Selection(text, "conditions", tuple(_condition(part, text) for part in parts))


def _condition(part: str, whole: str) -> Condition:
    match = _CONDITION.fullmatch(part)
    try:
        if match is None:
            raise ValueError
        return Condition(match["name"], match["compare"], float(match["cap"]))
    except ValueError:
        raise UsageError(f"--select {whole!r}: {_EXPECTED}") from None


def setting_of(record: StudyRecord, selection: Selection) -> Setting:
    """Return the setting of the trial that a selection names.

    Raises:
        UsageError: when it names another study.
        SelectionError: for a trial that the study has not, or one without a result.
    """
    if selection.study not in (None, record.name):
        raise UsageError(f"--select {selection.text!r}: this is study {record.name!r}")
    settings = SettingsTable(record)
    setting = next((s for s in settings.trials if s.number == selection.number), None)
    if setting is None or not setting.ok:
        why = "no such trial" if setting is None else f"it ended as {setting.outcome.outcome}"
        ok = ", ".join(map(str, sorted(s.number for s in settings.front()))) or "empty, for no trial ended ok"
        raise SelectionError(f"study {record.name!r}, trial {selection.number}: {why}; its front is {ok}")
    return setting


def choose(settings: SettingsTable, selection: Selection) -> int:
    """Return the place of the most useful setting, of the one that leaks least, or of the best that meets conditions.

    Args:
        settings: side by side, at least one.
        selection: ``max-utility``, ``min-leakage`` or conditions.

    Raises:
        SelectionError: for conditions that no setting meets.
    """
    if selection.rule != "conditions":
        return _best(settings, _stayed(settings), "utility" if selection.rule == "max-utility" else "leakage")
    bounds = UpperBounds(settings)
    places = meeting(bounds, selection.conditions)
    if not places:
        raise SelectionError(_too_far(bounds, selection))
    return _best(settings, places, "leakage" if all(c.name == "utility" for c in selection.conditions) else "utility")


def meeting(bounds: UpperBounds, conditions: Sequence[Condition]) -> list[int]:
    """Return which settings meet conditions, of those that a confirmation left on the front where any of them does.

    What must be at most so much (the utility: at least) must be so surely, by one-sided bounds; from a single seed
    there is none, and it must be so itself. The most useful one that meets them is chosen, the one that leaks least
    where all of them are on the utility; ties go to the other objective, then to the lowest number.
    """
    kept = np.ones(len(bounds.settings.rows), dtype=bool)
    for condition in conditions:
        kept &= condition.kept(bounds)
    confirmed = kept & np.asarray(bounds.settings.confirmed, dtype=bool)
    return [int(i) for i in np.flatnonzero(confirmed if confirmed.any() else kept)]


def _stayed(settings: SettingsTable) -> list[int]:
    """Return the settings that a confirmation left on the front where there was one, else the front."""
    stayed = [i for i, confirmed in enumerate(settings.confirmed) if confirmed]
    return stayed or [int(i) for i in np.flatnonzero(settings.on_front)]


def _best(settings: SettingsTable, places: Sequence[int], objective: str) -> int:
    def order(place: int) -> tuple[float, float, int]:
        utility, leakage = settings.known[place].tolist()
        return (-utility, leakage, place) if objective == "utility" else (leakage, -utility, place)

    return min(places, key=order)


def _too_far(bounds: UpperBounds, selection: Selection) -> str:
    """Say how far the front goes, and from where on each condition is surely met."""
    settings, stayed = bounds.settings, _stayed(bounds.settings)
    places = _best(settings, stayed, "leakage"), _best(settings, stayed, "utility")
    low, high = (f"utility {u:.4f}, leakage {x:.4f}" for u, x in (settings.known[i].tolist() for i in places))
    surely = "".join(f"; {says}" for c in selection.conditions if c.surely and (says := _surely(bounds, c)))
    return f"no setting meets {selection.text!r}; the front goes from {low} to {high}{surely}"


def _surely(bounds: UpperBounds, condition: Condition) -> str:
    value, bound = bounds.of(condition.name)
    if np.isnan(bound).all():
        return f"{condition.name} is not known: {bounds.unknown(0, condition.name)}"
    if np.array_equal(value, bound, equal_nan=True):
        return ""
    at_least = condition.name in AT_LEAST
    end = np.nanmax(bound) if at_least else np.nanmin(bound)
    side, further = ("above", "down") if at_least else ("below", "up")
    confidence = f"{bounds.confidence:.0%}"
    return f"{condition.name} must be {side} with {confidence} confidence, which holds from {end:.4f} {further}"
