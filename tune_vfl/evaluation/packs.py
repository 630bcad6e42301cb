"""Train once, attack many: from a cell and settings of its defense to one outcome per setting."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tune_vfl.attacks.base import Attack
from tune_vfl.data import load
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.errors import SpecError
from tune_vfl.evaluation.measuring import Measured, guess_of, measure, measure_references, references_of
from tune_vfl.evaluation.resolving import build_architecture, build_attack, defense_params, resolve
from tune_vfl.evaluation.scoring import summarize
from tune_vfl.evaluation.training import train_pack
from tune_vfl.machine.runtime import device_for
from tune_vfl.outcome import AttackScore, Outcome, Score
from tune_vfl.protocol.members import Pack
from tune_vfl.protocol.recorder import IN_MEMORY_BYTES, recording_bytes
from tune_vfl.protocol.view import Moment
from tune_vfl.spec import Strict, StudySpec, parse
from tune_vfl.spec.cell import Cell, References, is_ordinary
from tune_vfl.spec.raw import apply_settings

__all__ = ["evaluate", "evaluate_pack", "evaluate_spec", "measure_references", "stacks", "trials_that_fit"]

EVALUATION_SCHEMA = "tune-vfl/evaluation/1"

Settings = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class _Bench:
    """What every trial of a cell is evaluated with."""

    cell: Cell
    attacks: tuple[Attack[Strict], ...]
    references: References
    device: str

    def run(self, params: Sequence[Strict], pack: Pack, deadline: float | None) -> Measured:
        """Train a pack and measure all of its members: once for all who watch, and once more for each who acts."""
        measured = self._train([a for a in self.attacks if not a.capabilities.acts], None, params, pack, deadline)
        for attack in self.attacks:
            if attack.capabilities.acts and not all(measured.lost):
                measured.add_run_under(attack.name, self._train([attack], attack, params, pack, deadline))
        return measured

    def _train(
        self,
        attacks: Sequence[Attack[Strict]],
        acting: Attack[Strict] | None,
        params: Sequence[Strict],
        pack: Pack,
        deadline: float | None,
    ) -> Measured:
        moments: set[Moment] = {m for a in attacks for m in a.moments()}
        keep_sent = any(a.target_request() is not None for a in attacks)
        run = train_pack(
            self.cell,
            params,
            pack,
            moments,
            acting=acting,
            keep_sent=keep_sent,
            keep_untrained=any("parameter_gradient" in a.sees() for a in attacks),
            deadline=deadline,
            device=self.device,
        )
        return measure(self.cell, run, attacks)


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
    alike: dict[str, list[int]] = {}
    for i, given in enumerate(params):
        alike.setdefault(json.dumps({n: v for n, v in given.items() if is_ordinary(n)}, sort_keys=True), []).append(i)
    outcomes: dict[int, Outcome] = {}
    for members in alike.values():
        try:
            trained, _ = cell.with_params(params[members[0]])
            build_architecture(trained.model)
        except SpecError as error:
            outcomes.update(dict.fromkeys(members, Outcome.failed("infeasible", str(error))))
            continue
        if trained.model is cell.model:
            known = references = references if references is not None else measure_references(cell)
        else:
            known = references_of(trained)
        bench = _Bench(trained, tuple(build_attack(a) for a in cell.attacks), known, device)
        settings = [cell.with_params(params[i])[1] for i in members]
        outcomes.update(zip(members, _evaluate_alike(bench, settings), strict=True))
    return [outcomes[i] for i in range(len(params))]


def _evaluate_alike(bench: _Bench, params: Sequence[Settings]) -> list[Outcome]:
    """Evaluate settings of the defense on one cell."""
    cell = bench.cell
    outcomes: dict[int, Outcome] = {}
    ready: dict[int, Strict] = {}
    cls = DEFENSES[cell.defense]
    for i, given in enumerate(params):
        try:
            built = defense_params(cell.defense, {**given, **cell.fixed}, num_classes=cell.num_classes)
            problems = cls.problems(built, num_classes=cell.num_classes, mode=cell.mode)
        except SpecError as error:
            problems = error.problems
        if problems:
            outcomes[i] = Outcome.failed("infeasible", "; ".join(problems))
        else:
            ready[i] = built
    for group in _groups(cell, ready):
        outcomes.update(zip(group, _evaluate_group(bench, [ready[i] for i in group]), strict=True))
    return [outcomes[i] for i in range(len(params))]


def stacks(cell: Cell) -> bool:
    """Whether trials of this cell can be trained in one pass."""
    return build_architecture(cell.model).stackable and DEFENSES[cell.defense].capabilities.stackable


def _groups(cell: Cell, ready: Mapping[int, Strict]) -> Iterable[list[int]]:
    """Put trials of equal structure together, as many as the recordings leave room for."""
    if not stacks(cell):
        return [[i] for i in ready]
    by_structure: dict[tuple[object, ...], list[int]] = {}
    for i, params in ready.items():
        by_structure.setdefault(DEFENSES[cell.defense].structure(params), []).append(i)
    room = trials_that_fit(cell)
    return [g[k : k + room] for g in by_structure.values() for k in range(0, len(g), room)]


def trials_that_fit(cell: Cell) -> int:
    """Return how many trials' recordings stay within memory; at least 1."""
    dataset = load(cell.dataset)
    moments = {m for a in cell.attacks for m in build_attack(a).moments()}
    width = int(cell.model.options.get("embedding_dim", 1))
    per_trial = recording_bytes(len(cell.seeds), len(dataset.y), width, moments)
    return max(1, IN_MEMORY_BYTES // per_trial) if per_trial else 64


def _evaluate_group(bench: _Bench, params: list[Strict]) -> list[Outcome]:
    """Evaluate trials of equal structure; where they fail together each is tried alone, so that one harms no other."""
    minutes = bench.cell.trial_minutes
    deadline = time.monotonic() + minutes * 60 * len(params) if minutes else None
    try:
        if stacks(bench.cell):
            return _evaluate_stacked(bench, params, deadline)
        return [_evaluate_seed_by_seed(bench, p, deadline) for p in params]
    except Exception as error:
        if len(params) > 1:
            return [o for p in params for o in _evaluate_group(bench, [p])]
        return [_failure(error)]


def _failure(error: Exception) -> Outcome:
    if isinstance(error, TimeoutError):
        return Outcome.failed("timeout", str(error))
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "not enough memory" in str(error):
        return Outcome.failed("oom", str(error) or "out of memory")
    return Outcome.failed("error", f"{type(error).__name__}: {error}")


def _evaluate_stacked(bench: _Bench, params: list[Strict], deadline: float | None) -> list[Outcome]:
    seeds = bench.cell.seeds
    measured = bench.run(params, Pack(seeds, len(params)), deadline)
    members = [range(p * len(seeds), (p + 1) * len(seeds)) for p in range(len(params))]
    return [_outcome(bench, measured, trial, share=len(params)) for trial in members]


def _evaluate_seed_by_seed(bench: _Bench, params: Strict, deadline: float | None) -> Outcome:
    parts = [bench.run([params], Pack((seed,), None), deadline) for seed in bench.cell.seeds]
    return _outcome(bench, Measured.join(parts), range(len(parts)), share=1)


def _outcome(bench: _Bench, measured: Measured, members: Sequence[int], *, share: int) -> Outcome:
    """Make one trial's outcome out of what was measured on its members; times are its share of the pack's."""
    cell = bench.cell
    seconds = {k: v / share for k, v in measured.seconds.items()}
    lost = {cell.seeds[i]: measured.lost[m] for i, m in enumerate(members) if measured.lost[m]}
    if lost:
        reason = f"{', '.join(dict.fromkeys(lost.values()))} became non-finite with seed {', '.join(map(str, lost))}"
        return Outcome(outcome="diverged", reason=reason, seconds=seconds)
    guess = guess_of(cell)
    scores: dict[str, AttackScore] = {}
    for attack in bench.attacks:
        summary = summarize(
            attack,
            measured.attacks[attack.name],
            members,
            num_classes=cell.num_classes,
            guess=guess,
            r_lower=bench.references.r_lower.get(attack.name),
        )
        if summary is None:
            return Outcome.failed("error", f"attack {attack.name!r} is undefined on this data: no seed gave a score")
        scores[attack.name] = summary
    worst = max(scores.values(), key=lambda s: s.advantage, default=None)
    return Outcome(
        outcome="ok",
        utility=Score.of(cell.metric, [measured.utility[m] for m in members]),
        attacks=scores,
        leakage=worst.advantage if worst else 0.0,
        leakage_std=worst.advantage_std if worst else 0.0,
        seconds=seconds,
        notes=list(dict.fromkeys([*load(cell.dataset).notes, *(n for m in members for n in measured.notes[m])])),
        logged={k: sum(v[m] for m in members) / len(members) for k, v in measured.logged.items()},
    )


def evaluate_spec(spec: StudySpec) -> dict[str, Any]:
    """Evaluate one cell without a search and return the ``tune-vfl/evaluation/1`` answer.

    Args:
        spec: its defense's ``params`` are the setting; ``budget.seeds`` says how many seeds.

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
    cell = resolve(spec)
    dataset = load(cell.dataset)
    (outcome,) = evaluate_pack(cell, [{}], device=device_for(spec.resources.gpu))
    answer = outcome.model_dump()
    return {
        "schema": EVALUATION_SCHEMA,
        "dataset": cell.dataset.name,
        "data": {"rows": len(dataset.y), "notes": list(dataset.notes)},
        "model": cell.model.name,
        "mode": cell.mode,
        "defense": {"name": cell.defense, "params": setting_of(cell, {})},
        "training": cell.training.model_dump(),
        "seeds": list(cell.seeds),
        **answer,
    }


def setting_of(cell: Cell, params: Settings) -> dict[str, Any]:
    """Return a trial's full parameters: the defaults, the trial's, and the cell's fixed ones over them."""
    return defense_params(cell.defense, {**params, **cell.fixed}, num_classes=cell.num_classes).model_dump()


def evaluate(
    dataset: str | Mapping[str, Any],
    *,
    defense: str = "none",
    params: Settings | None = None,
    attacks: Sequence[str | Mapping[str, Any]] = ("pmc",),
    seeds: int = 3,
    settings: Iterable[str] = (),
) -> dict[str, Any]:
    """Evaluate one (dataset, defense, attacks) at one setting of the defense; what the verb ``evaluate`` prints.

    Args:
        dataset: a name, or a mapping of name and options.
        defense: its name.
        params: its parameters; the ones not given take their defaults.
        attacks: names, or mappings of name and parameters.
        seeds: how many seeds, from 0.
        settings: ``PATH=VALUE`` settings on the spec, such as ``training.epochs=50``.

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
    return evaluate_spec(parse(apply_settings(raw, settings)))
