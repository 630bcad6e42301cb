"""A trainable in closed form: search, resume, faults and reports are tested and timed with it in seconds.

One parameter trades utility for leakage along a known curve; every other parameter only wastes utility. It is chosen
by code, never by a spec.
"""

from __future__ import annotations

import ctypes
import math
import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from tests.helpers.waiting import nap
from trainables.base import PackTrainable
from tune_vfl.outcome import AttackScore, Outcome, Score, TunedAttack
from tune_vfl.spec import Named, Strict, StudySpec, Training
from tune_vfl.spec.cell import Cell, References

GUESS = 0.5


class Simulation(Strict):
    """The behavior of the simulated trainable.

    Attributes:
        parameter: the one that trades.
        low, high, log: its range and scale; ``t`` goes from 0 at ``low`` to 1 at ``high``.
        waste: what every setting gives up for nothing, in the unit of a parameter that wastes.
        by_defense: fields that are others for single defenses, so that those of a campaign are no one defense.
        noise: standard deviation from seed to seed.
        sleep: seconds of pretended work per trial.
        nan_above: above this ``t`` the utility is NaN.
        missing_above: above this ``t`` the outcome lacks its leakage.
        diverge_above, raise_above, oom_above, exit_above: above this ``t`` the trial diverges, raises, runs out of
            memory, or takes its worker process with it.
        fits: more trials than this run out of memory together.
        holds: mebibytes that each trial of a pack really takes until all of them have ended.
        hang_above: above this ``t`` the trial never comes back: its worker waits in compiled code, where no signal
            handler of Python's runs.
        exit_once: a file; the first trial that does not find it makes it and takes its worker with it.
        journal: a file; every trial that starts appends its parameters and seeds as a line.
    """

    parameter: str = "scale"
    low: float = 1e-5
    high: float = 1e-1
    log: bool = True
    waste: float = 0.0
    by_defense: dict[str, dict[str, Any]] = Field(default_factory=dict)
    noise: float = Field(0.0, ge=0)
    sleep: float = Field(0.0, ge=0)
    nan_above: float = math.inf
    missing_above: float = math.inf
    diverge_above: float = math.inf
    raise_above: float = math.inf
    oom_above: float = math.inf
    exit_above: float = math.inf
    hang_above: float = math.inf
    fits: float = math.inf
    holds: int = Field(0, ge=0)
    exit_once: str | None = None
    journal: str | None = None

    def of(self, defense: str) -> Simulation:
        """Return what is simulated of a defense."""
        return self.model_validate({**self.model_dump(), **self.by_defense.get(defense, {})})

    def position(self, params: Mapping[str, Any]) -> float:
        """Return ``t`` in [0, 1]."""
        value = float(params.get(self.parameter, self.low))
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def closed_form(t: float, waste: float = 0.0) -> tuple[float, float]:
    """Return ``(utility, leakage)``: (0.95 - 0.45 t^2 - 0.3 waste, (1 - t)^2); without waste all on the front."""
    return 0.95 - 0.45 * t * t - 0.3 * waste, (1 - t) ** 2


class SimulatedTrainable(PackTrainable):
    """Answers by :func:`closed_form`, with noise and faults as :class:`Simulation` says."""

    @classmethod
    def evaluate(
        cls, cell: Cell, params: Sequence[Mapping[str, Any]], references: References, options: Mapping[str, Any]
    ) -> list[Outcome]:
        """Pretend to train."""
        simulation = Simulation.model_validate(dict(options))
        if len(params) > simulation.fits:
            raise MemoryError("the simulated memory does not hold so many")
        held = b"held" * (len(params) * simulation.holds << 18)  # written, so that it is really there
        outcomes = [simulate(simulation, cell, p) for p in params]
        del held
        return outcomes

    @classmethod
    def measure(cls, cell: Cell, options: Mapping[str, Any]) -> tuple[References, float]:
        """Nothing to measure."""
        return References(), GUESS

    @classmethod
    def references(cls, cell: Cell, options: Mapping[str, Any]) -> References:
        """Nothing to measure."""
        return References()

    @classmethod
    def tuned(
        cls, cell: Cell, params: Mapping[str, Any], minutes: float, options: Mapping[str, Any]
    ) -> TunedAttack | None:
        """Tuning closes a tenth of what the curve leaves the attacker to find."""
        simulation = Simulation.model_validate(dict(options))
        (outcome,) = cls.evaluate(cell, [params], References(), options)
        if outcome.leakage is None:
            return None
        leakage, seeds = 0.1 + 0.9 * closed_form(simulation.of(cell.defense).position(params))[1], len(cell.seeds)
        return TunedAttack(
            attack="norm",
            params={"average": 5},
            variant="norm",
            success=(GUESS + (1 - GUESS) * leakage,) * seeds,
            floors=(GUESS,) * seeds,
            advantages=(leakage,) * seeds,
            tried=10,
            minutes=minutes,
        )

    @classmethod
    def most_per_pack(cls, cell: Cell) -> int:
        """Everything stacks."""
        return 64


def simulate(simulation: Simulation, cell: Cell, params: Mapping[str, Any]) -> Outcome:
    """Return one trial's outcome. The undefended model is the curve at t = 0, whatever its defense would waste.

    The first attack of the cell finds the leakage, each later one a tenth less than the one before.
    """
    simulation = simulation.of(cell.defense)
    if simulation.journal:
        with Path(simulation.journal).open("a", encoding="utf-8") as journal:
            journal.write(f"{dict(params)} {list(cell.seeds)}\n")
    nap(simulation.sleep)
    t = 0.0 if cell.defense == "none" else simulation.position(params)
    _misbehave(simulation, t)
    if t > simulation.diverge_above:
        return Outcome.failed("diverged", "the simulated loss became NaN")
    others = [float(v) for k, v in params.items() if k != simulation.parameter and isinstance(v, (int, float))]
    wasted = simulation.waste if cell.defense != "none" else 0.0
    utility, leakage = closed_form(t, wasted + (sum(others) / len(others) if others else 0.0))
    # Not through tune_vfl.seeds: that needs torch, which would triple the time a worker takes to start.
    draws = [random.Random(seed).gauss(0.0, simulation.noise) for seed in cell.seeds]  # noqa: S311
    utilities = [math.nan if t > simulation.nan_above else utility + d for d in draws]
    found = [min(1.0, max(0.0, leakage + d)) for d in draws]
    outcome = _outcome(utilities, found, simulation.sleep, [a.name for a in cell.attacks])
    return outcome.model_copy(update={"leakage": None}) if t > simulation.missing_above else outcome


def _misbehave(simulation: Simulation, t: float) -> None:
    if simulation.exit_once and not Path(simulation.exit_once).exists():
        Path(simulation.exit_once).touch()
        os._exit(1)
    if t > simulation.hang_above:
        _wait_for_ever()
    if t > simulation.exit_above:
        os._exit(1)
    if t > simulation.oom_above:
        raise MemoryError("the simulated memory is full")
    if t > simulation.raise_above:
        raise RuntimeError("the simulated training broke")


def _wait_for_ever() -> None:
    """Lock a mutex twice, as two libraries that wait for each other do, with Python's own lock held."""
    libc, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(128)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)


def _outcome(utilities: list[float], leakages: list[float], seconds: float, attacks: Sequence[str]) -> Outcome:
    broken = not all(map(math.isfinite, utilities))
    utility = Score.of("auc", utilities[:1] if broken else utilities)
    advantage = Score.of("advantage", leakages)
    values: dict[str, Any] = {
        "outcome": "ok",
        "utility": utility,
        "attacks": {name: _attacked([v * 0.9**k for v in leakages]) for k, name in enumerate(attacks)},
        "leakage": advantage.mean,
        "leakage_std": advantage.std,
        "seconds": {"train": seconds},
    }
    # Built without validation: a NaN must get as far as the ledger, whose task it is to stop it.
    return Outcome.model_construct(reason="", notes=[], logged={}, **values)


def _attacked(advantages: list[float]) -> Score:
    score = AttackScore.of("leak_auc", [GUESS + (1 - GUESS) * v for v in advantages])
    advantage = Score.of("advantage", advantages)
    return score.model_copy(
        update={"advantage": advantage.mean, "advantage_std": advantage.std, "floor": GUESS, "guess": GUESS}
    )


def simulated_spec(study: str, **fields: Any) -> StudySpec:
    """Return a spec that the simulated trainable can run: laplace on a data set that is never loaded."""
    base = {"study": study, "dataset": "breast_cancer", "defense": "laplace", "attacks": ["norm"]}
    return StudySpec.model_validate({**base, **fields})


def simulated_cell(spec: StudySpec) -> Cell:
    """Resolve a spec without looking at data."""
    return Cell(
        dataset=spec.dataset,
        model=Named(name=spec.model.name or "mlp", **spec.model.options),
        training=spec.training.over(Training()),
        defense=spec.defense.name,
        fixed=spec.defense.params,
        attacks=spec.attacks,
        seeds=tuple(range(spec.budget.seeds)),
        metric="auc",
        num_classes=2,
        mode="split",
        trial_minutes=spec.budget.trial_minutes,
    )
