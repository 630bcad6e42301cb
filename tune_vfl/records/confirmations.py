"""Numbers of confirmations: a record for each setting and fresh seed, and the points that are computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from tune_vfl.evaluation.certainty import candidates_of
from tune_vfl.outcome import UNTRAINED, Outcome, OutcomeName, TunedAttack
from tune_vfl.spec import Strict
from tune_vfl.spec.cell import References

FIRST_SEED = 1000

UNDEFENDED = -1
"""Stands for the undefended model where a trial's number is asked."""


class AttackOfSeed(Strict):
    """One attack with one seed.

    Attributes:
        guess: the success of the best constant guess.
        party: the passive party whose floors it is held against, of an attack on labels; empty where it is the only
            one. None of an attack on features, and in a record of an earlier measure.
        r_lower: the attack's on untrained bottom models, where it has one.
        noise: the standard deviation of the success where there is nothing to find; None where it is not known.
        candidates: the success of everything that the attacker may commit to.
    """

    guess: float
    party: str | None = None
    r_lower: float | None = None
    noise: float | None = None
    candidates: dict[str, float]


class SeedRecord(Strict):
    """One setting, or the undefended model, with one seed of a confirmation.

    Attributes:
        outcome: how it ended; ``reason`` says why it is not ``ok``.
        utility: measured on the reserve, where there is one.
        variance: of the utility over test rows, where its metric has a formula.
        attacks: by name, with several passive parties by ``ATTACK/PARTY``.
        floors: by passive party and way of guessing labels without messages, its success; see
            :class:`tune_vfl.spec.cell.References`.
    """

    outcome: OutcomeName
    reason: str = ""
    utility: float | None = None
    variance: float | None = None
    attacks: dict[str, AttackOfSeed] = Field(default_factory=dict)
    floors: dict[str, dict[str, float]] = Field(default_factory=dict)

    @property
    def references(self) -> References:
        """The reference scores of its attacks."""
        return References(
            r_lower={name: [a.r_lower] for name, a in self.attacks.items() if a.r_lower is not None},
            noise={
                name: [a.noise] for name, a in self.attacks.items() if a.r_lower is not None and a.noise is not None
            },
            floors={party: {way: [found] for way, found in ways.items()} for party, ways in self.floors.items()},
        )

    def without_messages(self, attack: str) -> dict[str, float]:
        """Return what an attack is held against beside the guess, by way."""
        seen = self.attacks[attack]
        name, _, _ = attack.partition("/")
        own = {} if seen.r_lower is None else {f"{name} {UNTRAINED}": seen.r_lower}
        return {**({} if seen.party is None else self.floors.get(seen.party, {})), **own}


class ConfirmedNumber(Strict):
    """A number on fresh seeds, in [0, 1].

    Attributes:
        value: with its 90% ``interval``.
        upper_90: the one-sided 90% upper bound.
    """

    value: float
    interval: tuple[float, float]
    upper_90: float

    def raised(self, other: ConfirmedNumber) -> ConfirmedNumber:
        """Return the larger of two in everything."""
        return ConfirmedNumber(
            value=max(self.value, other.value),
            interval=(max(self.interval[0], other.interval[0]), max(self.interval[1], other.interval[1])),
            upper_90=max(self.upper_90, other.upper_90),
        )


class ConfirmedAttack(Strict):
    """One attack on fresh seeds: of several passive parties and candidates the one that the other seeds choose."""

    advantage: ConfirmedNumber
    success: ConfirmedNumber


class ConfirmedPoint(Strict):
    """One setting on fresh seeds. Intervals are of 90%; leakage is clipped to [0, 1].

    Attributes:
        study, dataset, defense, number, params: which.
        outcome: ``ok``, or how the first seed ended that did not come to a number; then there are none here.
        reason: why.
        seeds: how many fresh seeds it has had.
        on_front: whether it was on the front of the search.
        confirmed: whether it is on the front of the fresh seeds.
        stays: the chance that it is on the front; of a setting that was settled early, as it was then.
        utility, utility_interval: on the reserve.
        leakage: of the attack that the other seeds choose, or of the tuned one where that finds more;
            ``leakage_interval`` bounds that of every attack.
        leakage_untuned: of attackers that were not tuned against this setting.
        leakage_upper_90: the one-sided bound by which a setting is exported.
        leakage_worst_seed: the mean of each seed's largest advantage.
        attack: the attack that does best on average, with several passive parties ``ATTACK/PARTY``.
        attacks: every attack by itself, by which a constraint on one is kept or missed; that of a tuned attacker is
            the larger of the two. Empty in an answer that was written before it was kept.
        searched: utility and leakage as the search measured them.
        tuned: the best attacker tuned against this setting, an upper bound; None where none was tuned.
    """

    study: str
    dataset: str
    defense: str
    number: int
    params: dict[str, Any]
    outcome: OutcomeName = "ok"
    reason: str = ""
    seeds: int
    on_front: bool
    confirmed: bool = False
    stays: float | None = None
    utility: float | None = None
    utility_interval: tuple[float, float] | None = None
    leakage: float | None = None
    leakage_interval: tuple[float, float] | None = None
    leakage_untuned: float | None = None
    leakage_upper_90: float | None = None
    leakage_worst_seed: float | None = None
    attack: str = ""
    attacks: dict[str, ConfirmedAttack] = Field(default_factory=dict)
    searched: dict[str, float]
    tuned: TunedAttack | None = None

    def numbers(self) -> dict[str, Any]:
        """Return its numbers on fresh seeds, without its identity."""
        return self.model_dump(mode="json", include=_NUMBERS)


_NUMBERS = {
    "seeds",
    "stays",
    "utility",
    "utility_interval",
    "leakage",
    "leakage_interval",
    "leakage_untuned",
    "leakage_upper_90",
    "leakage_worst_seed",
}


class UndefendedModel(Strict):
    """The undefended model on fresh seeds; fields as those of :class:`ConfirmedPoint`."""

    outcome: OutcomeName = "ok"
    reason: str = ""
    seeds: int
    utility: float | None = None
    utility_interval: tuple[float, float] | None = None
    leakage: float | None = None
    leakage_interval: tuple[float, float] | None = None
    leakage_worst_seed: float | None = None


def records_of(outcome: Outcome, seeds: Sequence[int], references: References) -> dict[int, SeedRecord]:
    """Split a trial's outcome into records by seed.

    Args:
        outcome: of a trial with these seeds.
        seeds: in the outcome's order.
        references: what its attackers were held against, one value a seed.

    Returns:
        By seed; an outcome that is not ok is that of all its seeds.
    """
    if outcome.outcome != "ok" or outcome.utility is None:
        return dict.fromkeys(seeds, SeedRecord(outcome=outcome.outcome, reason=outcome.reason))
    lower = references.r_lower
    variance = outcome.utility_variance if len(outcome.utility_variance) == len(seeds) else [None] * len(seeds)
    return {
        seed: SeedRecord(
            outcome="ok",
            utility=outcome.utility.values[i],
            variance=variance[i],
            attacks={
                name: AttackOfSeed(
                    guess=score.guess,
                    party=None if score.metric == "reconstruction" else name.partition("/")[2],
                    r_lower=lower[name][i] if name in lower else None,
                    noise=score.noise[i] if score.noise else None,
                    candidates={v: values[i] for v, values in candidates_of(score).items()},
                )
                for name, score in outcome.attackers.items()
            },
            floors={party: {way: of[i] for way, of in ways.items()} for party, ways in references.floors.items()},
        )
        for i, seed in enumerate(seeds)
    }
