"""Data classes of a decision: the setting to deploy on one data set, the reasons, and the alternatives."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

if TYPE_CHECKING:
    from tune_vfl.evaluation.certainty import Interval
    from tune_vfl.evaluation.checks import Check

Verdict = Literal["deploy", "compromise", "none_qualifies", "not_trusted", "nothing_measured"]


@dataclass(frozen=True)
class Strongest:
    """The attack with the largest advantage against a setting.

    Attributes:
        attack: its name, with several passive parties ``ATTACK/PARTY``.
        advantage: its success above its floor, in [0, 1]; ``interval``: of 90%, None from one seed.
        success, floor: the two numbers behind the advantage; None where only a confirmation's advantage is known.
        tuned: whether it was tuned against this setting.
    """

    attack: str
    advantage: float
    interval: Interval | None
    success: float | None = None
    floor: float | None = None
    tuned: bool = False


@dataclass(frozen=True)
class Choice:
    """A setting that a decision names, and the numbers that count: a confirmation's where it took part in one.

    Attributes:
        study, dataset, defense, number, params: the trial's identity.
        utility, leakage: means; ``*_interval``: of 90%, None from one seed.
        loss: utility lost against the undefended model, negative where it is more useful; ``loss_interval``: of
            90%, from differences seed by seed. None without an undefended model.
        cost: the training's CPU over the undefended one's; None where it was not measured.
        kept: the share of the federation's gain over the label party's own model; None where there is no gain, or
            none was measured.
        gained: its utility above that of the label party alone; None where that was not measured.
        strongest: the attack with the largest advantage; None in a campaign without attacks.
        confirmed: whether its numbers are those of fresh seeds, which place it on the front.
        chance: of being on the joint front.
        undecided: whether the leakage's interval is too wide for a recommendation.
        lacks: the constraints that it misses, a sentence each.
    """

    study: str
    dataset: str
    defense: str
    number: int
    params: dict[str, Any]
    utility: float
    utility_interval: Interval | None
    leakage: float
    leakage_interval: Interval | None
    loss: float | None = None
    loss_interval: Interval | None = None
    cost: float | None = None
    kept: float | None = None
    gained: float | None = None
    strongest: Strongest | None = None
    confirmed: bool = False
    chance: float = 0.0
    undecided: bool = False
    lacks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name for ``--select``: ``STUDY#21``."""
        return f"{self.study}#{self.number}"


@dataclass(frozen=True)
class Rung:
    """The most useful setting that surely leaks no more than a cap.

    Attributes:
        cap: of the leakage, for its one-sided bound with the campaign's confidence.
        setting: the recommended one if the cap were a constraint; None where none qualifies.
    """

    cap: float
    setting: Choice | None


@dataclass(frozen=True)
class Far:
    """Defenses without a setting near the recommended one, or the compromise.

    Attributes:
        defenses: their names, the nearest first.
        within: the smallest deficit in utility of any of them at no more leakage (tolerance .02); None where none has a
            setting that leaks so little.
    """

    defenses: tuple[str, ...]
    within: float | None


@dataclass(frozen=True)
class Reference:
    """A baseline of a setting: the undefended model, or a model of one party (``who``), which has no leakage."""

    utility: float
    utility_interval: Interval | None
    leakage: float | None = None
    leakage_interval: Interval | None = None
    who: str = "the label party"


@dataclass(frozen=True)
class Decision:
    """The decision on one data set.

    Attributes:
        dataset: its name; ``metric``: of the utility.
        verdict: ``deploy``: ``setting`` is recommended. ``compromise``: nobody has said how much may leak, and the best
            ``compromise`` may leak more than :data:`tune_vfl.analysis.constraints.DEPLOYABLE`. ``none_qualifies``: no
            setting satisfies the constraints; ``nearest`` misses them least. ``not_trusted``: a check fails, and
            nothing is recommended. ``nothing_measured``: no trial has a result.
        why: the reason in a sentence.
        setting, compromise, runner_up, nearest: None where there is none.
        ladder: the choice at each of :data:`tune_vfl.analysis.constraints.RUNGS`; empty where a constraint bounds the
            leakage, and where nothing qualifies.
        undefended, alone: the baselines; the undefended model with the recommended setting's seeds, fresh ones where it
            was confirmed.
        far: defenses that are clearly worse.
        constraints, confidence: those of the spec.
        rule: ``constraints``: the most useful setting that satisfies them. ``knee``, where none of them bounds the
            leakage: the best compromise among those that do.
        measured, qualifying: the number of settings, and of those that satisfy the constraints.
        checks: all of them, each once, passed or failed.
        changes: sentences on changes that would alter the decision.
        unexamined: sentences on quantities that the campaign did not measure.
    """

    dataset: str
    metric: str
    verdict: Verdict
    why: str
    setting: Choice | None = None
    compromise: Choice | None = None
    ladder: tuple[Rung, ...] = ()
    runner_up: Choice | None = None
    nearest: Choice | None = None
    undefended: Reference | None = None
    alone: Reference | None = None
    far: tuple[Far, ...] = ()
    constraints: dict[str, float] = field(default_factory=dict)
    confidence: float = 0.9
    rule: Literal["constraints", "knee"] = "knee"
    measured: int = 0
    qualifying: int = 0
    checks: tuple[Check, ...] = ()
    changes: tuple[str, ...] = ()
    unexamined: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """Return plain data for the decisions of ``tune-vfl/campaign/1``.

        ``study``, ``number``, ``defense`` and ``params`` are those of the recommended setting; without one ``study`` is
        None and the others are left out.
        """
        chosen = self.setting
        known = {} if chosen is None else {name: getattr(chosen, name) for name in ("number", "defense", "params")}
        rest = {f.name: _plain(getattr(self, f.name)) for f in fields(self)}
        return {"study": None if chosen is None else chosen.study, **known, **rest}

    @property
    def marked(self) -> Choice | None:
        """The setting that figures and tables mark: the recommended one, else the compromise."""
        return self.setting or self.compromise

    @property
    def mark(self) -> str:
        """The title of that setting in figures and tables."""
        return "compromise" if self.setting is None else "recommended"

    @property
    def failing(self) -> tuple[Check, ...]:
        """The failed checks."""
        return tuple(check for check in self.checks if not check.ok)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    return [_plain(v) for v in value] if isinstance(value, tuple) else value
