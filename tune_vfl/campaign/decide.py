"""The decision of a campaign on one data set, as data: what to deploy, or why nothing, and what would change that."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

if TYPE_CHECKING:
    from tune_vfl.evaluation.certainty import Interval
    from tune_vfl.evaluation.checks import Check

Verdict = Literal["deploy", "none_qualifies", "not_trusted", "nothing_measured"]


@dataclass(frozen=True)
class Strongest:
    """The attack that finds most in a setting.

    Attributes:
        attack: its name, with several passive parties ``ATTACK/PARTY``.
        advantage: what it finds above its floor, in [0, 1]; ``interval``: of 90%, None from one seed.
        success, floor: of which it is the advantage; None where only a confirmation's advantage is known.
        tuned: whether it was tuned against this setting.
    """

    attack: str
    advantage: float
    interval: Interval | None
    success: float | None = None
    floor: float | None = None
    tuned: bool = False


@dataclass(frozen=True)
class Setting:
    """A setting with everything that a decision says of it; numbers of a confirmation where it was part of one.

    Attributes:
        study, dataset, defense, number, params: which.
        utility, leakage: means; ``*_interval``: of 90%, None from one seed.
        loss: utility given up against the undefended model, negative where it is more useful; ``loss_interval``: of
            90%, from differences seed by seed. None without an undefended model.
        cost: the training's CPU over the undefended one's; None where it was not measured.
        kept: the share of what the federation adds to the label party's own model; None where it adds nothing, or that
            was not measured.
        gained: its utility above that of the label party alone; None where that was not measured.
        strongest: the attack that finds most; None where no attack was asked for.
        confirmed: whether its numbers are those of fresh seeds, and found it on the front.
        chance: of being on the joint front.
        undecided: its leakage's interval is too wide to recommend anything.
        lacks: which constraints it misses, a sentence each.
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


@dataclass(frozen=True)
class Far:
    """Defenses none of whose settings comes near what is to be deployed.

    Attributes:
        defenses: their names, the nearest first.
        within: the least utility by which the best of them lacks at no more leakage (tolerance .02); None where none of
            them has a setting that leaks so little.
    """

    defenses: tuple[str, ...]
    within: float | None


@dataclass(frozen=True)
class Reference:
    """What a setting is laid beside: the undefended model, or one party alone, ``who`` (whose leakage is None)."""

    utility: float
    utility_interval: Interval | None
    leakage: float | None = None
    leakage_interval: Interval | None = None
    who: str = "the label party"


@dataclass(frozen=True)
class Decision:
    """What to do on one data set.

    Attributes:
        dataset: its name; ``metric``: of the utility.
        verdict: ``deploy``: ``setting`` is to be deployed. ``none_qualifies``: no setting keeps the constraints;
            ``nearest`` misses them least. ``not_trusted``: a check fails, and nothing is recommended.
            ``nothing_measured``: no trial came to a result.
        why: the reason in a sentence.
        setting, runner_up, nearest: None where there is none.
        undefended, alone: what it is laid beside.
        far: defenses that come nowhere near.
        constraints, confidence: what was asked; by ``rule`` it was chosen: ``constraints`` or ``knee``.
        measured, qualifying: how many settings there are, and how many keep the constraints.
        checks: all of them, each once, whether they hold or not.
        changes: what would change the answer, a sentence each.
        unexamined: what was not looked at, a sentence each.
    """

    dataset: str
    metric: str
    verdict: Verdict
    why: str
    setting: Setting | None = None
    runner_up: Setting | None = None
    nearest: Setting | None = None
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
        """Return it as plain data, as the decisions of ``tune-vfl/campaign/1`` hold it.

        ``study``, ``number``, ``defense`` and ``params`` are those of what is to be deployed; ``study`` is None where
        nothing is, and the others are left out.
        """
        chosen = self.setting
        known = {} if chosen is None else {name: getattr(chosen, name) for name in ("number", "defense", "params")}
        rest = {f.name: _plain(getattr(self, f.name)) for f in fields(self)}
        return {"study": None if chosen is None else chosen.study, **known, **rest}

    @property
    def failing(self) -> tuple[Check, ...]:
        """The checks that do not hold."""
        return tuple(check for check in self.checks if not check.ok)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    return [_plain(v) for v in value] if isinstance(value, tuple) else value
