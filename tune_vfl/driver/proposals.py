"""Proposals of trials: lost ones again, own and published settings, then new points of the sampler, none twice.

The sampler works on a copy of the study in memory, which is fast. The copy also gets proposals that the ledger must not
hold: one that repeats a known point is answered from the ledger instead of being run.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

from tune_vfl.driver.violations import violations
from tune_vfl.ledger.ledger import Ledger, NewTrial
from tune_vfl.outcome import Outcome
from tune_vfl.records.rows import TrialRow
from tune_vfl.records.studies import TrialRecord
from tune_vfl.samplers.base import SAMPLERS, listed_points, sampler_seed
from tune_vfl.spaces.space import point_key

# Under this name Optuna's samplers keep a trial's constraints.
_CONSTRAINTS_KEY = "constraints"
# The number of a trial that is not written yet.
_UNWRITTEN = -1
# After so many repeated proposals in a row a finite space is taken as exhausted.
_PATIENCE = 20


class Proposals:
    """The proposals of one study. Not safe to share between threads.

    Args:
        ledger: the study's, recovered.
    """

    def __init__(self, ledger: Ledger) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
        spec = ledger.spec
        held = ledger.trials()
        start = sampler_seed(spec.sampler.seed, len(held))
        chosen = SAMPLERS[spec.sampler.name]
        self._ledger = ledger
        self._listed = listed_points(chosen.name, ledger.space, spec.budget.trials, ledger.study.first)
        self._distributions = ledger.space.distributions()
        self._constraints = spec.constraints
        self._violated: dict[int, list[float]] = {}
        steered = {"constraints": lambda trial: self._violated[trial.number]} if spec.constraints else {}
        self._mirror = optuna.create_study(
            directions=["maximize", "minimize"], sampler=chosen.build(start, budget=spec.budget.trials, **steered)
        )
        self._random = random.Random(start)  # noqa: S311 - an order, no secret
        self._mirrored: dict[int, int] = {}
        self._known: dict[str, int] = {}
        self._objectives: dict[int, Sequence[float]] = {}
        self._pending: dict[str, int] = {}
        self._planned = self._plan()
        for trial in held:
            self._remember(trial)
        self._lost = self._owed()

    def ask(self, count: int, pack: str = "") -> list[TrialRow]:
        """Start up to ``count`` trials and write them together; fewer when the space is exhausted.

        The budget is the caller's. A trial whose worker died is retried alone, so that it cannot kill another one. Half
        of a pack that did not fit into memory is retried, and no other trial with it.
        """
        again, full = self._again(count)
        chosen = dict(self._chosen(self._lost.pop(number).params, retry_of=number) for number in again)
        while len(chosen) < count and not full:
            params = self._next_new()
            if params is None:
                break
            chosen.update([self._chosen(params)])
        begun = self._ledger.begin_together(list(chosen.values()), pack)
        for trial, position in zip(begun, chosen, strict=True):
            self._mirrored[trial.number] = position
            self._known[point_key(trial.params)] = trial.number
        return begun

    def _again(self, count: int) -> tuple[list[int], bool]:
        """Return the lost trials to retry together, and whether no other trial may join them."""
        numbers = sorted(self._lost)
        first = self._lost[numbers[0]] if numbers else None
        if first is not None and first.lost == "worker":
            return numbers[:1], True
        if first is not None and first.lost == "memory":
            half = -(-sum(t.pack == first.pack for t in self._ledger.trials()) // 2)
            return [n for n in numbers if self._lost[n].pack == first.pack][: min(half, count)], True
        return list(takewhile(lambda n: self._lost[n].lost not in {"worker", "memory"}, numbers))[:count], False

    def _owed(self) -> dict[int, TrialRow]:
        """Return the lost trials to retry, by number."""
        return {trial.number: trial for trial in self._ledger.owed_retries()}

    def learn(self, record: TrialRecord) -> None:
        """Tell the sampler the outcome of a trial."""
        import optuna

        position = self._mirrored.pop(record.number, None)
        if position is not None and record.outcome.outcome == "preempted":
            self._lost = self._owed()  # all of the ledger is read for it, which is rare
        if record.outcome.outcome == "ok":
            self._objectives[record.number] = record.outcome.objectives
        if position is not None and record.outcome.outcome == "ok":
            if self._constraints:  # the ledger is read for it
                self._violated[position] = self._violations(record.outcome)
            self._mirror.tell(position, record.outcome.objectives)
        elif position is not None:
            self._mirror.tell(position, state=optuna.trial.TrialState.FAIL)

    def _chosen(self, params: dict[str, Any], retry_of: int | None = None) -> tuple[int, NewTrial]:
        """Reserve a point; its place in the sampler's copy was made by the proposal, or is made here."""
        key = point_key(params)
        position = self._pending.pop(key, None) if retry_of is None else None
        if position is None:
            self._mirror.enqueue_trial(params)
            position = self._mirror.ask(self._distributions).number
        attrs = self._mirror.get_trials(deepcopy=False)[position].system_attrs
        kept = {k: v for k, v in attrs.items() if k != "fixed_params"}
        self._known[key] = _UNWRITTEN
        return position, NewTrial(params, retry_of, kept)

    def _remember(self, trial: TrialRow) -> None:
        """Copy a trial that the ledger held at the start."""
        from optuna.trial import TrialState, create_trial

        self._known[point_key(trial.params)] = trial.number
        if trial.result is None or not self._ledger.space.holds(trial.params):
            return
        objectives, attrs = trial.objectives, dict(trial.sampler)
        if objectives is not None:
            self._objectives[trial.number] = objectives
        if objectives is not None and self._constraints:
            attrs[_CONSTRAINTS_KEY] = self._violations(trial.result)
        self._mirror.add_trial(
            create_trial(
                state=TrialState.FAIL if objectives is None else TrialState.COMPLETE,
                values=objectives,
                params=trial.params,
                distributions=self._distributions,
                system_attrs=attrs,
            )
        )

    def _violations(self, outcome: Outcome) -> list[float]:
        return violations(outcome, self._ledger.baseline, self._constraints)

    def _plan(self) -> Iterator[dict[str, Any]]:
        """Yield the points that come before, or instead of, the sampler's: the first ones, then a list's, shuffled."""
        yield from self._ledger.study.first
        points = list(self._listed or [])
        order = random.Random(sampler_seed(self._ledger.spec.sampler.seed, 0))  # noqa: S311 - an order, no secret
        order.shuffle(points)
        yield from points

    def _next_new(self) -> dict[str, Any] | None:
        """Return a point that nobody has asked, or None when there is none left."""
        for planned in self._planned:
            if point_key(planned) not in self._known:
                return planned
        if self._listed is not None or len(self._known) >= self._ledger.space.size:
            return None
        for _ in range(_PATIENCE):
            params = self._propose()
            if params is not None:
                return params
        return self._unseen()

    def _propose(self) -> dict[str, Any] | None:
        """Let the sampler propose; a point that is known is answered from the ledger, and None returned."""
        import optuna

        trial = self._mirror.ask(self._distributions)
        params = self._ledger.space.typed(trial.params)
        number = self._known.get(point_key(params))
        if number is None:
            self._pending[point_key(params)] = trial.number
            return params
        if number in self._objectives:
            self._mirror.tell(trial, self._objectives[number])
        else:
            self._mirror.tell(trial, state=optuna.trial.TrialState.FAIL)
        return None

    def _unseen(self) -> dict[str, Any] | None:
        """Return a random point of a finite space that nobody has asked."""
        if math.isinf(self._ledger.space.size):
            return None
        left = [p for p in self._ledger.space.points() if point_key(p) not in self._known]
        return self._random.choice(left) if left else None
