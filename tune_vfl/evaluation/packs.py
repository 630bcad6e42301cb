"""Train once, attack many: from a task and settings of its defense to one outcome per setting."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tune_vfl.attacks.base import Attack
from tune_vfl.defenses.base import defense_params
from tune_vfl.errors import SpecError, shortened
from tune_vfl.evaluation.attempts import together_or_alone
from tune_vfl.evaluation.grants.base import keepers_for
from tune_vfl.evaluation.measuring import (
    NotNeeded,
    all_needed,
    guess_of,
    measure_pack,
    rarest_in_test,
)
from tune_vfl.evaluation.permuting import noise_of, p_value_of
from tune_vfl.evaluation.references import references_once
from tune_vfl.evaluation.seats import seats_of
from tune_vfl.evaluation.summarizing import summarize, worst_party
from tune_vfl.evaluation.table import Table, below, joined, taken, variants_of
from tune_vfl.evaluation.task import Task
from tune_vfl.outcome import TOGETHER, AttackScore, Outcome, Score, attacker_name, strongest_of
from tune_vfl.protocol.members import Pack
from tune_vfl.protocol.recorder import IN_MEMORY_BYTES
from tune_vfl.spec import Cell, References, Strict
from tune_vfl.spec.cell import is_ordinary

Settings = Mapping[str, Any]

NEARLY_ALL = 0.98
"""Advantage with every seed after which a dear attack of a portfolio is left out: it could add only what is left."""


def evaluate_pack(
    cell: Cell, params: Sequence[Settings], references: References | None = None, *, device: str = "cpu"
) -> list[Outcome]:
    """Evaluate a cell under several settings of its defense, together where they stack.

    Args:
        cell: the cell to evaluate.
        params: one mapping per trial of the defense's parameters, over which the cell's fixed ones are laid, and of
            ordinary ones (``training.lr``), which change the cell: trials that differ in these share no pass.
        references: what attacks are compared with on this cell; None measures it here. It is always measured here for
            a trial whose model is another.
        device: where networks are trained; attacks run on the CPU.

    Returns:
        One outcome per setting, in order. A setting that fails does not touch the others.
    """
    task = Task.open(cell)
    return together_or_alone(
        lambda some: evaluate_task(task, some, references, device=device), params, minutes=cell.trial_minutes
    )


def evaluate_task(
    task: Task, params: Sequence[Settings], references: References | None = None, *, device: str = "cpu"
) -> list[Outcome]:
    """Evaluate an open task as :func:`evaluate_pack` does; raises if a training or an attack does."""
    alike: dict[str, list[int]] = {}
    for i, given in enumerate(params):
        alike.setdefault(json.dumps({n: v for n, v in given.items() if is_ordinary(n)}, sort_keys=True), []).append(i)
    outcomes: dict[int, Outcome] = {}
    for members in alike.values():
        try:
            trained, _ = task.with_params(params[members[0]])
        except SpecError as error:
            outcomes.update(dict.fromkeys(members, Outcome.failed("infeasible", str(error))))
            continue
        same = trained.cell.model is task.cell.model
        own = replace(trained, cell=trained.cell.model_copy(update={"training": task.cell.training}))
        bench = _Bench(trained, references if same else None, device, alone=own)
        settings = [task.with_params(params[i])[1] for i in members]
        outcomes.update(zip(members, bench.evaluate(settings), strict=True))
    return [outcomes[i] for i in range(len(params))]


def outcome_of(task: Task, table: Table) -> Outcome:
    """Return a trial's outcome from the measurements of its members, one row per seed of the task's cell.

    The reference scores of attacks are measured here.
    """
    return _Bench(task, None, "cpu", alone=task)._outcome(table)


@dataclass(frozen=True, eq=False)
class _Bench:
    """Evaluator of trials that differ in the settings of the defense alone.

    Attributes:
        task: the trials'.
        known_references: what attacks are compared with; None measures it.
        device: where networks are trained.
        alone: the task that this is measured on, with the study's own training: trials that search their training
            share it, so that none looks better by what it is compared with.
    """

    task: Task
    known_references: References | None
    device: str
    alone: Task

    @cached_property
    def references(self) -> References:
        """Reference scores of the attacks: the given ones, or measured here."""
        return self.known_references or references_once(self.alone, device=self.device)

    @cached_property
    def guess(self) -> float:
        """The success of the best constant guess, the same for every trial."""
        return guess_of(self.task)

    @cached_property
    def rarest_in_test(self) -> int:
        """The test rows of the rarest class, the same for every trial."""
        return rarest_in_test(self.task)

    def evaluate(self, params: Sequence[Settings]) -> list[Outcome]:
        """Return an outcome a setting, in order."""
        outcomes: dict[int, Outcome] = {}
        ready: dict[int, Strict] = {}
        for i, given in enumerate(params):
            try:
                ready[i] = self._built(given)
            except SpecError as error:
                outcomes[i] = Outcome.failed("infeasible", "; ".join(error.problems))
        for group in self._groups(ready):
            tables = self._tables([ready[i] for i in group])
            outcomes.update({i: self._outcome(table) for i, table in zip(group, tables, strict=True)})
        return [outcomes[i] for i in range(len(params))]

    def _built(self, given: Settings) -> Strict:
        """Return a trial's full parameters."""
        cell = self.task.cell
        built = defense_params(cell.defense, {**given, **cell.fixed}, num_classes=cell.num_classes)
        problems = self.task.defense.problems(built, num_classes=cell.num_classes, mode=cell.mode)
        if problems:
            raise SpecError(problems)
        return built

    def _groups(self, ready: Mapping[int, Strict]) -> Iterable[list[int]]:
        """Group trials of equal structure, as many as the recordings leave room for."""
        by_structure: dict[tuple[object, ...], list[int]] = {}
        for i, params in ready.items():
            by_structure.setdefault(self.task.defense.structure(params), []).append(i)
        room = trials_that_fit(self.task)
        for group in by_structure.values():
            size = room if self.task.stacks(ready[group[0]]) else 1
            yield from (group[k : k + size] for k in range(0, len(group), size))

    def _tables(self, params: list[Strict]) -> list[Table]:
        """Train and attack trials of equal structure; return one table per trial, one row per seed."""
        task, seeds, minutes = self.task, self.task.cell.seeds, self.task.cell.trial_minutes
        deadline = time.monotonic() + minutes * 60 * len(params) if minutes else None

        def measure(some: list[Strict], pack: Pack, not_needed: NotNeeded = all_needed) -> Table:
            return measure_pack(task, some, pack, deadline=deadline, device=self.device, not_needed=not_needed)

        if not task.stacks(params[0]):  # what one seed finds says nothing of the next ones
            return [joined([measure([p], Pack((seed,), None)) for seed in seeds]) for p in params]
        table = measure(params, Pack(seeds, len(params)), self._not_needed)
        return [taken(table, range(p * len(seeds), (p + 1) * len(seeds))) for p in range(len(params))]

    def _not_needed(self, attack: Attack[Strict], table: Table) -> list[str]:
        """Say of each member why a spare attack is not needed: with every seed another has found nearly all."""
        members, seeds = len(table["lost",]), len(self.task.cell.seeds)
        if attack.name not in self.task.cell.spare:
            return [""] * members
        trials = [taken(table, range(first, first + seeds)) for first in range(0, members, seeds)]
        return [why for trial in trials for why in [self._enough(trial)] * seeds]

    def _enough(self, trial: Table) -> str:
        """Say which attack has found :data:`NEARLY_ALL` of the way from the floor to 1 with every seed, if any has."""
        if any(trial["lost",]):
            return ""
        rest = [attack for attack in self.task.watching if attack.name not in self.task.cell.spare]
        scores = {attack.name: score for attack in rest if (score := self._score(attack, trial)) is not None}
        found, best = max(((min(score.advantages), name) for name, score in scores.items()), default=(0.0, ""))
        return f"{best} found {found:.3f} of the way" if found >= NEARLY_ALL else ""

    def _outcome(self, table: Table) -> Outcome:
        """Return one trial's outcome from its members' measurements; times are its share of the pack's."""
        cell = self.task.cell
        seconds = {stage: sum(spent) for stage, spent in below(table, "seconds").items()}
        lost = {seed: why for seed, why in zip(cell.seeds, table["lost",], strict=True) if why}
        if lost:
            what = ", ".join(dict.fromkeys(lost.values()))
            reason = f"{what} became non-finite with seed {', '.join(map(str, lost))}"
            return Outcome(outcome="diverged", reason=reason, seconds=seconds)
        scores: dict[str, AttackScore] = {}
        not_needed: dict[str, str] = {}
        for attack in self.task.attacks:
            if why := next(iter(table.get(("not_needed", attack.name), [])), ""):
                not_needed[attack.name] = why
                continue
            summary = self._score(attack, table)
            if summary is None:
                return Outcome.failed("error", self._unscored(attack, table))
            scores[attack.name] = summary
        worst = scores.get(strongest_of(scores))
        return Outcome(
            outcome="ok",
            utility=Score.of(cell.metric, table["utility",]),
            utility_variance=[v for v in table["utility_variance",] if math.isfinite(v)],
            rows_shared=self.task.rows_shared,
            rarest_in_test=self.rarest_in_test,
            utility_before_end=[v for v in below(table, "before_end").get("utility", []) if math.isfinite(v)],
            training_utility=below(table, "training_rows").get("utility", []),
            attacks=scores,
            not_needed=not_needed,
            leakage=worst.advantage if worst else 0.0,
            leakage_std=worst.advantage_std if worst else 0.0,
            seconds=seconds,
            notes=list(dict.fromkeys([*self.task.dataset.notes, *(n for notes in table["notes",] for n in notes)])),
            logged={n: sum(v) / len(v) for n, v in below(table, "logged").items() if all(map(math.isfinite, v))},
        )

    def _unscored(self, attack: Attack[Strict], table: Table) -> str:
        """Say with which seeds an attack has no score, such as where its only batch has no positive row."""
        scores = [
            columns["success"]
            for party in seats_of(attack, self.task)
            if party != TOGETHER
            for columns in variants_of(table, attacker_name(attack.name, party)).values()
        ]
        without = [
            str(seed)
            for i, seed in enumerate(self.task.cell.seeds)
            if not all(math.isfinite(success[i]) for success in scores)
        ]
        return (
            f"attack {attack.name!r} has no score with seed {shortened(without, 10)}, where the rows that it "
            "scores may hold too few of a class; leave it out, or train in larger batches"
        )

    def _score(self, attack: Attack[Strict], table: Table) -> AttackScore | None:
        """Summarize the success of each attacking party; None if one of them is undefined."""
        cell, found = self.task.cell, {}
        for party in seats_of(attack, self.task):
            name = attacker_name(attack.name, party)
            lower = self.references.of(name, len(cell.seeds))
            columns = variants_of(table, name)
            on_labels = attack.capabilities.goal == "labels"
            score = summarize(
                attack,
                columns,
                num_classes=cell.num_classes,
                guess=self.guess,
                r_lower=lower,
                without=self.references.of_party(party, len(cell.seeds)) if on_labels else None,
            )
            if score is not None:
                nulls = attack, columns, below(table, "permuted", name)
                noise = noise_of(*nulls) if lower is None else self.references.noise.get(name, [])[: len(cell.seeds)]
                found[party] = score.model_copy(update={"p_value": p_value_of(*nulls), "noise": noise})
            elif party != TOGETHER:
                return None
        return worst_party(found)


def trials_that_fit(task: Task) -> int:
    """Return how many trials' recordings stay within memory; at least 1."""
    width = int(task.cell.model.options.get("embedding_dim", 1))
    size = {"members": len(task.cell.seeds), "rows": len(task.dataset.y), "width": width}
    per_party = sum(keeper.bytes_needed(task.attacks, **size) for keeper in keepers_for(task.attacks))
    per_trial = len(task.dataset.passive) * per_party
    return max(1, IN_MEMORY_BYTES // per_trial) if per_trial else 64
