"""Train once, attack many: from a task and settings of its defense to one outcome per setting."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tune_vfl.attacks.base import Attack
from tune_vfl.data.reserve import reserve_rows, why_no_reserve
from tune_vfl.defenses.base import defense_params
from tune_vfl.errors import SpecError
from tune_vfl.evaluation.attempts import together_or_alone
from tune_vfl.evaluation.grants.base import keepers_for
from tune_vfl.evaluation.measuring import guess_of, measure_pack, references_once
from tune_vfl.evaluation.resolving import open_task
from tune_vfl.evaluation.seats import seats_of
from tune_vfl.evaluation.summarizing import summarize, worst_party
from tune_vfl.evaluation.table import Table, below, joined, taken, variants_of
from tune_vfl.evaluation.task import Task
from tune_vfl.machine.runtime import device_for
from tune_vfl.outcome import TOGETHER, AttackScore, Outcome, Score, attacker_name
from tune_vfl.protocol.members import Pack
from tune_vfl.protocol.recorder import IN_MEMORY_BYTES
from tune_vfl.spec import MEASURE, Cell, References, RowsUsed, Strict, StudySpec, parse
from tune_vfl.spec.cell import is_ordinary
from tune_vfl.spec.raw import apply_settings

EVALUATION_SCHEMA = "tune-vfl/evaluation/1"

Settings = Mapping[str, Any]


def evaluate_pack(
    cell: Cell, params: Sequence[Settings], references: References | None = None, *, device: str = "cpu"
) -> list[Outcome]:
    """Evaluate a cell under several settings of its defense, together where they stack.

    Args:
        cell: what is evaluated.
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
    """Do what :func:`evaluate_pack` does for a task that is open; raises where a training or an attack does."""
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
        known = references if trained.cell.model is task.cell.model else None
        settings = [task.with_params(params[i])[1] for i in members]
        outcomes.update(zip(members, _Bench(trained, known, device).evaluate(settings), strict=True))
    return [outcomes[i] for i in range(len(params))]


@dataclass(frozen=True, eq=False)
class _Bench:
    """What trials are evaluated with that differ in the settings of the defense alone."""

    task: Task
    known_references: References | None
    device: str

    @cached_property
    def references(self) -> References:
        """What attacks are compared with: as it was given, else measured here."""
        return self.known_references or references_once(self.task)

    @cached_property
    def guess(self) -> float:
        """The success of the best constant guess, the same for every trial."""
        return guess_of(self.task)

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
        """Return a trial's full parameters.

        Raises:
            SpecError: when the defense does not take them here.
        """
        cell = self.task.cell
        built = defense_params(cell.defense, {**given, **cell.fixed}, num_classes=cell.num_classes)
        problems = self.task.defense.problems(built, num_classes=cell.num_classes, mode=cell.mode)
        if problems:
            raise SpecError(problems)
        return built

    def _groups(self, ready: Mapping[int, Strict]) -> Iterable[list[int]]:
        """Put trials of equal structure together, as many as the recordings leave room for."""
        if not self.task.stacks:
            return [[i] for i in ready]
        by_structure: dict[tuple[object, ...], list[int]] = {}
        for i, params in ready.items():
            by_structure.setdefault(self.task.defense.structure(params), []).append(i)
        room = trials_that_fit(self.task)
        return [g[k : k + room] for g in by_structure.values() for k in range(0, len(g), room)]

    def _tables(self, params: list[Strict]) -> list[Table]:
        """Train and attack trials of equal structure; return each one's table, a row a seed."""
        task, seeds, minutes = self.task, self.task.cell.seeds, self.task.cell.trial_minutes
        deadline = time.monotonic() + minutes * 60 * len(params) if minutes else None

        def measure(some: list[Strict], pack: Pack) -> Table:
            return measure_pack(task, some, pack, deadline=deadline, device=self.device)

        if not task.stacks:
            return [joined([measure([p], Pack((seed,), None)) for seed in seeds]) for p in params]
        table = measure(params, Pack(seeds, len(params)))
        return [taken(table, range(p * len(seeds), (p + 1) * len(seeds))) for p in range(len(params))]

    def _outcome(self, table: Table) -> Outcome:
        """Make one trial's outcome out of what was measured on its members; times are its share of the pack's."""
        cell = self.task.cell
        seconds = {stage: sum(spent) for stage, spent in below(table, "seconds").items()}
        lost = {seed: why for seed, why in zip(cell.seeds, table["lost",], strict=True) if why}
        if lost:
            what = ", ".join(dict.fromkeys(lost.values()))
            reason = f"{what} became non-finite with seed {', '.join(map(str, lost))}"
            return Outcome(outcome="diverged", reason=reason, seconds=seconds)
        scores: dict[str, AttackScore] = {}
        for attack in self.task.attacks:
            summary = self._score(attack, table)
            if summary is None:
                return Outcome.failed(
                    "error", f"attack {attack.name!r} is undefined on this data: no seed gave a score"
                )
            scores[attack.name] = summary
        worst = max(scores.values(), key=lambda s: s.advantage, default=None)
        return Outcome(
            outcome="ok",
            utility=Score.of(cell.metric, table["utility",]),
            utility_variance=[v for v in table["utility_variance",] if math.isfinite(v)],
            attacks=scores,
            leakage=worst.advantage if worst else 0.0,
            leakage_std=worst.advantage_std if worst else 0.0,
            seconds=seconds,
            notes=list(dict.fromkeys([*self.task.dataset.notes, *(n for notes in table["notes",] for n in notes)])),
            logged={name: sum(values) / len(values) for name, values in below(table, "logged").items()},
        )

    def _score(self, attack: Attack[Strict], table: Table) -> AttackScore | None:
        """Summarize what each party that carries out an attack reached; None where that of one is undefined."""
        classes, found = self.task.cell.num_classes, {}
        for party in seats_of(attack, self.task):
            name = attacker_name(attack.name, party)
            lower = self.references.r_lower.get(name)
            columns = variants_of(table, name)
            score = summarize(attack, columns, num_classes=classes, guess=self.guess, r_lower=lower)
            if score is not None:
                found[party] = score
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


def evaluate_spec(spec: StudySpec, *, rows: RowsUsed = "all") -> dict[str, Any]:
    """Evaluate one cell without a search and return the ``tune-vfl/evaluation/1`` answer.

    Args:
        spec: its defense's ``params`` are the setting; ``budget.seeds`` says how many seeds.
        rows: ``all``, or ``selection`` for what a search would measure.

    Raises:
        SpecError: with every problem; a domain is one, since there is no search.
    """
    if spec.searched:
        raise SpecError(
            [
                f"{name}: evaluate measures one setting, got the domain {d}; give a value"
                for name, d in spec.searched.items()
            ]
        )
    task = open_task(spec, rows=rows)
    cell, device = task.cell, device_for(spec.resources.gpu)
    (outcome,) = together_or_alone(
        lambda some: evaluate_task(task, some, device=device), [{}], minutes=cell.trial_minutes
    )
    answer = outcome.model_dump()
    return {
        "schema": EVALUATION_SCHEMA,
        "dataset": cell.dataset.name,
        "measure": MEASURE,
        "rows": cell.rows,
        "data": _data_of(task),
        "model": cell.model.name,
        "mode": cell.mode,
        "defense": {"name": cell.defense, "params": setting_of(cell, {})},
        "training": cell.training.model_dump(),
        "seeds": list(cell.seeds),
        **answer,
    }


def _data_of(task: Task) -> dict[str, Any]:
    """Return how many rows there are, how many of them searches leave alone, and what a reader must know."""
    missing = why_no_reserve(task.dataset)
    notes = [*task.dataset.notes, *([missing] if missing and task.cell.rows != "all" else [])]
    return {"rows": len(task.dataset.y), "reserve": len(reserve_rows(task.dataset)), "notes": notes}


def setting_of(cell: Cell, params: Settings) -> dict[str, Any]:
    """Return a trial's full parameters: the defaults, the trial's, and the cell's fixed ones over them."""
    return defense_params(cell.defense, {**params, **cell.fixed}, num_classes=cell.num_classes).model_dump()


def evaluate(
    dataset: str | Mapping[str, Any],
    *,
    defense: str = "none",
    params: Settings | None = None,
    attacks: Sequence[str | Mapping[str, Any]] = ("default",),
    seeds: int = 3,
    settings: Iterable[str] = (),
    rows: RowsUsed = "all",
) -> dict[str, Any]:
    """Evaluate one (dataset, defense, attacks) at one setting of the defense; what the verb ``evaluate`` prints.

    Args:
        dataset: a name, or a mapping of name and options.
        defense: its name.
        params: its parameters; the ones not given take their defaults.
        attacks: names, or mappings of name and parameters; ``default`` is the portfolio of a competent adversary.
        seeds: how many seeds, from 0.
        settings: ``PATH=VALUE`` settings on the spec, such as ``training.epochs=50``.
        rows: ``all``, or ``selection``, what a search uses: without the reserve, where the data set has one.

    Raises:
        SpecError: with every problem.
        DataError: when the data cannot be read.
    """
    raw = {
        "study": "evaluate",
        "dataset": dataset,
        "defense": {"name": defense, "params": dict(params or {})},
        "attacks": list(attacks),
        "budget": {"trials": 1, "seeds": seeds},
    }
    return evaluate_spec(parse(apply_settings(raw, settings)), rows=rows)
