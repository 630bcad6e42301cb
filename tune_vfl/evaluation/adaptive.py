"""Attacks tuned against one setting of a defense, by an attacker that knows the defense and its setting.

They are tuned with the true labels of half of the rows, which no attacker has, and scored on the other half: an upper
bound of what tuning brings, and never the flattery of having been chosen on the rows that are reported.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tune_vfl.attacks.base import Attack
from tune_vfl.errors import SpecError
from tune_vfl.evaluation.grants.base import keepers_for, view_of
from tune_vfl.evaluation.measuring import guess_of
from tune_vfl.evaluation.references import references_once
from tune_vfl.evaluation.run import Run
from tune_vfl.evaluation.scoring import score_answer
from tune_vfl.evaluation.seats import named_seats, seats_of
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack, untrained
from tune_vfl.outcome import TOGETHER, UNTRAINED, TunedAttack, attacker_name
from tune_vfl.protocol.answers import Answer
from tune_vfl.protocol.members import Pack
from tune_vfl.seeds import numpy_rng
from tune_vfl.spec import Strict
from tune_vfl.statistics.advantages import advantage, chosen_floor
from tune_vfl.statistics.arrays import Floats

MOST = 400
"""Attackers that are tried at most, however much time there is."""

Name = tuple[str, str]
"""An attack, by one of several passive parties where there are several, and a variant."""


@dataclass(frozen=True, eq=False)
class _Tried:
    """One attacker with its successes on all trainings.

    Attributes:
        attack: the attack; ``params``: its changed parameters.
        tuning, reported: success by seed, of each seat and variant, on either half of the rows.
    """

    attack: Attack[Strict]
    params: Mapping[str, Any]
    tuning: Mapping[Name, list[float]]
    reported: Mapping[Name, list[float]]


def tuned_attack(
    task: Task, params: Strict, *, minutes: float, most: int = MOST, device: str = "cpu"
) -> TunedAttack | None:
    """Train once, then tune the task's attacks on the recorded trainings.

    Args:
        task: its cell's seeds are those that are trained.
        params: the setting of the defense.
        minutes: for the tuning, without the training; every attack is tried as it is in any case.
        most: attackers to try at most.
        device: where networks are trained.

    Returns:
        The attacker with the largest advantage on the rows it was tuned on; None without an attack that can be tuned:
        on labels, by a passive party that only watches, without an oracle.
    """
    attacks = [a for a in task.watching if _can_be_tuned(a)]
    if not attacks:
        return None
    bench, tuner = _RecordedTrainings(task, attacks, params, device), _Tuner(attacks, task.cell.training.epochs)
    deadline = time.monotonic() + 60 * minutes
    tried = [bench.tried(attack, {}) for attack in attacks]
    tuner.known = {(t.attack.name, ()): bench.value(t) for t in tried}
    while time.monotonic() < deadline and len(tried) < most and (asked := tuner.ask()) is not None:
        tried.append(bench.tried(*asked))
        tuner.tell(bench.value(tried[-1]))
    best = max(tried, key=bench.value)
    name = bench.best_of(best)[0]
    floors = bench.floors(best, name)
    gains = advantage(best.reported[name], floors).by_seed
    return TunedAttack(
        attack=name[0],
        params=dict(best.params),
        variant=name[1],
        success=tuple(best.reported[name]),
        floors=tuple(floors.tolist()),
        advantages=tuple(gains.tolist()),
        tried=len(tried),
        minutes=minutes,
    )


def _can_be_tuned(attack: Attack[Strict]) -> bool:
    can = attack.capabilities
    return can.goal == "labels" and can.who == "passive" and not can.oracle


def _changed(attack: Attack[Strict], changed: Mapping[str, Any]) -> Attack[Strict]:
    return type(attack)(attack.params.model_copy(update=dict(changed))) if changed else attack


class _Tuner:
    """A tree-structured Parzen estimator over attacks and their variable options that proposes the next attacker.

    Attributes:
        known: results of attackers tried already, by name and changed parameters.
    """

    def __init__(self, attacks: Sequence[Attack[Strict]], epochs: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
        self._varied = {a.name: a.tunable(epochs) for a in attacks}
        self._attacks = {a.name: a for a in attacks if self._varied[a.name]}
        self._asked: tuple[Any, tuple[Any, ...]] | None = None
        self.known: dict[tuple[Any, ...], float] = {}

    def ask(self) -> tuple[Attack[Strict], dict[str, Any]] | None:
        """Return the next attack and its options; None if no new combination is left."""
        for _ in range(100 if self._attacks else 0):
            trial = self._study.ask()
            name = trial.suggest_categorical("attack", list(self._attacks))
            attack, varied = self._attacks[name], self._varied[name]
            chosen = {f: v[trial.suggest_int(f"{name}/{f}", 0, len(v) - 1)] for f, v in varied.items()}
            changed = {f: value for f, value in chosen.items() if value != getattr(attack.params, f)}
            key = (name, tuple(changed.items()))
            if key not in self.known:
                self._asked = trial, key
                return attack, changed
            self._study.tell(trial, max(self.known[key], -1.0))
        return None

    def tell(self, value: float) -> None:
        """Record the result of the attacker returned by the last :meth:`ask`."""
        assert self._asked is not None  # noqa: S101 - :meth:`ask` comes before
        trial, key = self._asked
        self.known[key] = value  # -inf of one that cannot be carried out here
        self._study.tell(trial, max(value, -1.0))


class _RecordedTrainings:
    """Recorded trainings of one setting, and the attacks run on them."""

    def __init__(self, task: Task, attacks: Sequence[Attack[Strict]], params: Strict, device: str) -> None:
        self._task, self._attacks = task, attacks
        seeds, self._guess = task.cell.seeds, guess_of(task)
        self._packs = [Pack(seeds, 1)] if task.stacks(params) else [Pack((s,), None) for s in seeds]
        # What any of the attackers reads is recorded, those among them that read over other epochs.
        epochs = task.cell.training.epochs
        spies = [
            _changed(a, {field: v}) for a in attacks for field, values in a.tunable(epochs).items() for v in values
        ]
        self._runs = [train_pack(task, [params], pack, [*attacks, *spies], device=device) for pack in self._packs]
        references = references_once(task, device=device)
        self._without: dict[str, dict[str, list[float]]] = {}
        for attack in attacks:
            for party in seats_of(attack, task):
                name = attacker_name(attack.name, party)
                lower = references.of(name, len(seeds))
                own = {} if lower is None else {f"{attack.name} {UNTRAINED}": lower}
                self._without[name] = {**references.of_party(party, len(seeds)), **own}
        self._floors = {name: self._over(without).mean() for name, without in self._without.items()}

    def _over(self, without: Mapping[str, Any]) -> Floats:
        """Return by seed the floor over these ways of guessing without messages."""
        return chosen_floor([self._guess] * len(self._task.cell.seeds), without).by_seed

    def tried(self, attack: Attack[Strict], changed: Mapping[str, Any]) -> _Tried:
        """Run an attacker on all trainings and score it on either half of the rows."""
        attacker = _changed(attack, changed)
        tuning: dict[Name, list[float]] = {}
        reported: dict[Name, list[float]] = {}
        for name, parties in self._seats(attack):
            for seen in _apart(attacker, [run.seen_by(parties) for run in self._runs]):
                for variant, answer in _answers(attacker, seen):
                    one, other = _halves(answer, seen)
                    tuning.setdefault((name, variant), []).extend(one)
                    reported.setdefault((name, variant), []).extend(other)
        return _Tried(
            attacker, changed, *({n: v for n, v in of.items() if self._whole(v)} for of in (tuning, reported))
        )

    def _seats(self, attack: Attack[Strict]) -> list[tuple[str, tuple[int, ...]]]:
        return [
            (n, parties) for n, parties in named_seats(attack, self._task).items() if not n.endswith(f"/{TOGETHER}")
        ]

    def _whole(self, values: Sequence[float]) -> bool:
        return len(values) == len(self._task.cell.seeds) and all(map(math.isfinite, values))

    def best_of(self, tried: _Tried) -> tuple[Name, float]:
        """Return the party and variant with the largest advantage on the tuning rows; -inf if there is none."""
        gains = {
            name: (float(np.mean(values)) - self._floors[name[0]]) / max(1 - self._floors[name[0]], 1e-9)
            for name, values in tried.tuning.items()
            if name in tried.reported
        }
        return max(gains.items(), key=lambda item: item[1], default=(("", ""), -math.inf))

    def value(self, tried: _Tried) -> float:
        """Return the advantage of an attacker's best party and variant on the tuning rows."""
        return self.best_of(tried)[1]

    def floors(self, tried: _Tried, name: Name) -> Floats:
        """Return by seed the floor of the attacker's party, or the attacker's own success on untrained models."""
        attack, without = tried.attack, self._without[name[0]]
        if "bottom" not in attack.sees() or not all(keeper.stands_in() for keeper in keepers_for([attack])):
            return self._over(without)
        parties = dict(self._seats(attack))[name[0]]
        starts = []
        for start in range(attack.starts):
            found: list[float] = []
            runs = [untrained(self._task, pack, [attack], start).seen_by(parties) for pack in self._packs]
            for seen in _apart(attack, runs):
                answers = dict(_answers(attack, seen))
                # What a defense had parties add is not there: a variant that needs it has the first one's floor.
                found += _halves(answers.get(name[1], next(iter(answers.values()))), seen)[1]
            starts.append(found)
        return self._over({**without, "as it was tuned": np.mean(starts, axis=0)})


def _apart(attack: Attack[Strict], runs: Sequence[Run]) -> list[Run]:
    """Return trainings in the layout that an attack reads: stacked, or one by one."""
    if attack.capabilities.stackable:
        return list(runs)
    return [run.member(m) for run in runs for m in range(math.prod(run.pack.lead))]


def _answers(attack: Attack[Strict], seen: Run) -> list[tuple[str, Answer]]:
    """Return an attacker's answers; none if the attack cannot run with these options."""
    try:
        return [(v, a) for v, a in attack.run(view_of(attack, seen)).items() if isinstance(a, Answer)]
    except SpecError:
        return []


def _halves(answer: Answer, seen: Run) -> tuple[list[float], list[float]]:
    """Return success by member on the tuning half of the rows, and on the other half."""
    count = seen.y_train.shape[-1]
    drawn = [numpy_rng(seed, "adaptive/half").permutation(count) < count // 2 for seed in seen.pack.seed_of_each]
    half = torch.from_numpy(np.stack(drawn)).reshape(*answer.ids.shape[:-1], count)
    mine: Tensor = half.gather(-1, answer.ids)
    counted = torch.ones_like(mine) if answer.counted is None else answer.counted
    sides = (replace(answer, counted=counted & mine), replace(answer, counted=counted & ~mine))
    classes, seeds = seen.task.dataset.num_classes, seen.pack.seed_of_each
    one, other = (score_answer(side, seen.y_train, seen.y_test, classes, seeds)["success"] for side in sides)
    return one, other
