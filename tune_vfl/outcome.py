"""The outcome of one trial, with its scores.

Every trial ends as exactly one of :data:`OUTCOMES`; only ``ok`` has objectives, and then all of them, all finite.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

OutcomeName = Literal["ok", "diverged", "infeasible", "timeout", "oom", "preempted", "error"]
OUTCOMES: tuple[OutcomeName, ...] = ("ok", "diverged", "infeasible", "timeout", "oom", "preempted", "error")
MACHINE_FAILURES: frozenset[OutcomeName] = frozenset({"error", "oom", "timeout", "preempted"})
"""Outcomes that say nothing of the setting, so that it can be tried again."""

TOGETHER = "together"
"""The attacker that all passive parties are who join what they hold."""

UNTRAINED = "on an untrained model"
"""Said behind an attack's name: the way of guessing without messages whose success is R_lower."""


def attacker_name(attack: str, party: str) -> str:
    """Return the name of an attack by one of several passive parties; of the only one it is the attack's own."""
    return f"{attack}/{party}" if party else attack


class Score(BaseModel):
    """One number measured over the seeds.

    Attributes:
        metric: what was measured, such as ``auc``, ``accuracy``, ``leak_auc`` or ``reconstruction``; larger is more.
        values: one per seed, in the order of the seeds.
        mean: mean of the values.
        std: sample standard deviation of the values; 0 for a single seed.
    """

    model_config = ConfigDict(extra="forbid")

    metric: str
    mean: float
    std: float
    values: list[float]

    @classmethod
    def of(cls, metric: str, values: Sequence[float]) -> Score:
        """Summarize one value per seed; NaN in, NaN out."""
        listed = [float(v) for v in values]
        mean = math.fsum(listed) / len(listed)
        squares = math.fsum((v - mean) ** 2 for v in listed)
        return cls(metric=metric, mean=mean, std=math.sqrt(squares / max(len(listed) - 1, 1)), values=listed)


class AttackScore(Score):
    """Success of one attack over the seeds: of the variant it chooses itself, else of its best one.

    With several passive parties it is the score of the one whose advantage is largest, and variants are called by party
    and variant, such as ``bank/logreg``.

    Attributes:
        advantage: ``(mean success - floor) / (1 - floor)``, clipped to [0, 1].
        advantages: one a seed, signed and never clipped, whose mean is the advantage before clipping.
        advantage_std: sample standard deviation over the seeds of ``advantage`` before clipping.
        floor: the best success that needs no message (mean over seeds): of an attack on labels the best that its party
            reaches by itself, by whatever attack; of one on features the larger of the guess and ``r_lower``.
        floors: one a seed.
        floor_by: what reaches the floor, such as ``guess`` or ``pmc on an untrained model``; empty before measure 6,
            when each attack had the larger of the guess and its own ``r_lower``.
        noise: the standard deviation that the success of one seed has around the floor where there is nothing to find,
            one a seed: of an attack with ``r_lower`` that between untrained models, else that on permuted labels; empty
            where neither was measured.
        guess: the best constant guess: AUC 0.5, or the majority share; 0 for a reconstruction.
        r_lower: the same attack on an untrained bottom model, where it reads one; noise stands in for gradients.
        variant: the variant that the success belongs to; ``chosen`` where the attacker's own validation picks one of
            several, another one in another seed or draw.
        candidates: success by seed of everything that the attacker may commit to: its variants, those among which it
            can choose as ``chosen``.
        variants: every variant by name; each with ``metric, mean, std, values`` and what was measured beside it.
        upper_bound: the attacker could not have picked this variant, or uses an oracle.
        p_value: how often permuted labels score as well, over the seeds and all that the attacker may choose among:
            whether the answers say anything of the labels, with or without the federation. None for oracles,
            reconstructions, and in an outcome that does not say.
        weak_attack: success below ``r_lower``: the attack is too weak to say anything about the defense.
        extra: numbers beside the success, by name (top1, f1, success on test rows, ...); ``together``,
            ``together_advantage`` and ``together_floor`` of all passive parties as one, which is not the attack's own.
        parties: with several passive parties the score of each that attacks by itself, its variants left out; else
            empty.
    """

    advantage: float = 0.0
    advantage_std: float = 0.0
    advantages: list[float] = Field(default_factory=list)
    floor: float = 0.0
    floors: list[float] = Field(default_factory=list)
    floor_by: str = ""
    noise: list[float] = Field(default_factory=list)
    guess: float = 0.0
    r_lower: float | None = None
    variant: str = ""
    candidates: dict[str, list[float]] = Field(default_factory=dict)
    variants: dict[str, dict[str, Any]] = Field(default_factory=dict)
    upper_bound: bool = False
    p_value: float | None = None
    weak_attack: bool = False
    extra: dict[str, float] = Field(default_factory=dict)
    parties: dict[str, AttackScore] = Field(default_factory=dict)


def strongest_of(scores: Mapping[str, AttackScore]) -> str:
    """Return the name of the score with the largest mean advantage; empty without scores.

    Advantages that were clipped to 0 are compared as they were before, so that of attacks that all stay below their
    floors it is the one that comes nearest.
    """
    return max(scores, key=lambda name: (scores[name].advantage, fmean(scores[name].advantages or [0.0])), default="")


class TunedAttack(BaseModel):
    """The best attacker that was found against one setting.

    Attributes:
        attack: with several passive parties ``ATTACK/PARTY``; ``params``: what was changed of it; ``variant``: its.
        success: by seed, on the half of the rows that it was not tuned on; ``floors``: by seed, of the same attack.
        advantages: signed, by seed.
        tried: how many attackers were tried.
        minutes: how long that was allowed to take.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    attack: str
    params: dict[str, Any]
    variant: str
    success: tuple[float, ...]
    floors: tuple[float, ...]
    advantages: tuple[float, ...]
    tried: int
    minutes: float


class Outcome(BaseModel):
    """The end of one trial.

    Attributes:
        outcome: one of :data:`OUTCOMES`.
        reason: why it is not ``ok``; empty when it is.
        utility: the dataset's own metric on true test labels through the defense's decoder.
        utility_variance: how far each seed's utility would move on other test rows, from the rows alone; empty where
            the metric has no formula.
        rows_shared: how much of that the spread over seeds lacks: 1 where all seeds share their test rows, else the
            share of the rows that a seed tests on.
        rarest_in_test: the fewest test rows that a class has with any seed.
        utility_before_end: each seed's utility when 90% of the steps were done; only of the undefended model.
        training_utility: each seed's utility on its training rows; empty in a search, which does not measure it, and
            in a horizontal federation.
        attacks: every attack's score by name.
        not_needed: attacks that were left out, by name, with what makes them so: ``pmc found .994 of the way``.
        leakage: the largest mean advantage over the attacks, 0 when none was asked for; None unless ``ok``.
        leakage_std: that attack's ``advantage_std``.
        seconds: wall seconds by stage: ``train``, ``attack``, and what the defense names (``teacher``).
        notes: facts that a reader must know, of the data (rows dropped, stand-ins) and of the methods (fallbacks).
        logged: what the defense measured about itself (``sum_kl``, ``teacher_accuracy``), means over seeds.
    """

    model_config = ConfigDict(extra="forbid")

    outcome: OutcomeName
    reason: str = ""
    utility: Score | None = None
    utility_variance: list[float] = Field(default_factory=list)
    rows_shared: float = 0.0
    rarest_in_test: int | None = None
    utility_before_end: list[float] = Field(default_factory=list)
    training_utility: list[float] = Field(default_factory=list)
    attacks: dict[str, AttackScore] = Field(default_factory=dict)
    not_needed: dict[str, str] = Field(default_factory=dict)
    leakage: float | None = None
    leakage_std: float | None = None
    seconds: dict[str, float] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)
    logged: dict[str, float] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _ok_has_finite_objectives(self) -> Outcome:
        objectives = (self.utility.mean if self.utility else None, self.leakage)
        if self.outcome == "ok":
            if None in objectives:
                raise ValueError(f"an ok outcome needs a utility and a leakage, got {objectives}")
            if not all(map(math.isfinite, (v for v in objectives if v is not None))):
                raise ValueError(f"an ok outcome needs finite utility and leakage, got {objectives}")
        elif self.leakage is not None:
            raise ValueError(f"outcome {self.outcome!r} must not carry objectives")
        return self

    @property
    def attackers(self) -> dict[str, AttackScore]:
        """The score of every attacker: an attack's own, or ``ATTACK/PARTY`` for each of several passive parties."""
        if not any(whole.parties for whole in self.attacks.values()):
            return self.attacks
        return {
            attacker_name(name, party): score
            for name, whole in self.attacks.items()
            for party, score in (whole.parties or {"": whole}).items()
        }

    @property
    def objectives(self) -> tuple[float, float]:
        """``(utility, leakage)``: the first to maximize, the second to minimize.

        Raises:
            ValueError: unless the outcome is ``ok``.
        """
        if self.utility is None or self.leakage is None:
            raise ValueError(f"outcome {self.outcome!r} has no objectives")
        return self.utility.mean, self.leakage

    def objectives_against(self, attack: str | None) -> tuple[float, float]:
        """Return :attr:`objectives`, where an attack is named with its advantage for the leakage.

        Raises:
            ValueError: unless the outcome is ``ok``.
            KeyError: when the setting did not meet the attack.
        """
        utility, leakage = self.objectives
        return utility, leakage if attack is None else self.attacks[attack].advantage

    @property
    def strongest(self) -> str:
        """The attack of :func:`strongest_of`; empty without attacks."""
        return strongest_of(self.attacks)

    @classmethod
    def failed(cls, outcome: OutcomeName, reason: str) -> Outcome:
        """Return an outcome without objectives."""
        return cls(outcome=outcome, reason=reason)


def drop_non_finite(outcome: Outcome) -> Outcome:
    """Return an outcome that JSON can hold and that keeps its promise.

    A score that is not finite makes the trial ``diverged``. Other numbers that are not finite, such as one that was
    logged beside the scores, are left out.
    """
    attacks = [*outcome.attacks.values(), *outcome.attackers.values()]
    scores: list[Score] = [*([outcome.utility] if outcome.utility else []), *attacks]
    broken = [s for s in scores if not all(map(math.isfinite, _numbers(s)))]
    raw = _finite_only(outcome.model_dump(mode="json", exclude={"utility", "attacks"} if broken else None))
    if broken and outcome.outcome == "ok":
        raw = {**raw, "outcome": "diverged", "reason": f"a score is not finite: {broken[0].metric} {broken[0].mean}"}
    if broken:
        raw = {k: v for k, v in raw.items() if k not in {"leakage", "leakage_std"}}
    return Outcome.model_validate(raw)


def _numbers(score: Score) -> list[float]:
    beside = [score.advantage, score.advantage_std, score.floor] if isinstance(score, AttackScore) else []
    return [score.mean, score.std, *score.values, *beside]


def _finite_only(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _finite_only(v) for k, v in value.items() if not _broken(v)}
    return [None if _broken(v) else _finite_only(v) for v in value] if isinstance(value, list) else value


def _broken(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def read_outcome(raw: Any) -> Outcome:
    """Read what a worker sent. What breaks the promise of an outcome becomes one that keeps it."""
    try:
        return drop_non_finite(Outcome.model_validate(raw))
    except ValidationError as error:
        numbers = isinstance(raw, dict) and raw.get("outcome") == "ok"
        kind: OutcomeName = "diverged" if numbers and "finite" in str(error) else "error"
        first = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        return Outcome.failed(kind, first)
