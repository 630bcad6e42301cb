"""Measure a trained pack: utility, and the attacks that share its training."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import lru_cache

import torch
from torch import Tensor

from tune_vfl.attacks.base import Attack
from tune_vfl.data import load
from tune_vfl.evaluation.granting import Surroundings, grant
from tune_vfl.evaluation.resolving import build_architecture, build_attack
from tune_vfl.evaluation.scoring import VariantScore, guess_success, score_answer, score_reconstruction
from tune_vfl.evaluation.training import Run, build_network, split_of
from tune_vfl.metrics.utility import utility
from tune_vfl.models.layers import select_member
from tune_vfl.protocol.members import Pack
from tune_vfl.protocol.view import Answer, Reconstruction
from tune_vfl.seeds import Streams
from tune_vfl.spec import Strict, Training
from tune_vfl.spec.cell import Cell, References


class Measured:
    """Everything measured on the members of a pack, one number per member.

    Attributes:
        lost: what became non-finite, empty where nothing did.
        utility: NaN for a member that was lost.
        attacks: by attack and variant.
        logged, notes: what the defense says of itself.
        seconds: wall seconds by stage, all trainings together.
    """

    def __init__(self) -> None:
        self.lost: list[str] = []
        self.utility: list[float] = []
        self.attacks: dict[str, dict[str, VariantScore]] = {}
        self.logged: dict[str, list[float]] = {}
        self.notes: list[list[str]] = []
        self.seconds: dict[str, float] = {}

    @classmethod
    def join(cls, parts: Sequence[Measured]) -> Measured:
        """Concatenate the members of several runs of one trial."""
        whole = cls()
        for part in parts:
            whole.lost += part.lost
            whole.utility += part.utility
            for name, values in part.logged.items():
                whole.logged.setdefault(name, []).extend(values)
            whole.notes += part.notes
            for name, value in part.seconds.items():
                whole.seconds[name] = whole.seconds.get(name, 0.0) + value
            for attack, variants in part.attacks.items():
                for variant, score in variants.items():
                    whole.attacks.setdefault(attack, {}).setdefault(variant, VariantScore()).extend(score)
        return whole

    def add_run_under(self, attack: str, run: Measured) -> None:
        """Add what was measured in the training that an acting attack took part in.

        Utility, notes and what the defense logged stay those of the training without it; the utility under attack
        stands beside the attack's success. A member that the attack drove out of bounds is lost: that is no privacy.
        """
        under = f"training under attack {attack!r}"
        self.lost = [mine or (under if its else "") for mine, its in zip(self.lost, run.lost, strict=True)]
        for name, value in run.seconds.items():
            self.seconds[name] = self.seconds.get(name, 0.0) + value
        for variants in run.attacks.values():
            for score in variants.values():
                score.beside["utility"] = run.utility
        self.attacks.update(run.attacks)


def measure(cell: Cell, run: Run, attacks: Sequence[Attack[Strict]]) -> Measured:
    """Measure utility, and the attacks, on all members of a trained pack."""
    measured = Measured()
    measured.seconds = dict(run.seconds)
    scores = run.test_scores.reshape(-1, *run.test_scores.shape[-2:])
    # Weights may end finite and yet too large for the logits to be: that is a lost training, not a failed evaluation.
    lost = run.diverged.reshape(-1) | ~torch.isfinite(scores).all(-1).all(-1)
    measured.lost = ["training" if gone else "" for gone in lost.tolist()]
    measured.logged = {k: [float(x) for x in v] for k, v in run.defense.logged().items()}
    measured.notes = [run.defense.notes(member) for member in range(len(measured.lost))]
    measured.utility = _utilities(cell, run, scores, measured.lost)
    if all(measured.lost):
        return measured
    start = time.perf_counter()
    around = Surroundings(
        load(cell.dataset),
        run.split,
        run.pack,
        run.network.bottoms[0],
        run.recordings,
        sent=run.sent,
        known_bottom=run.known_bottom,
        untrained_bottom=run.untrained_bottom,
        architecture=build_architecture(cell.model),
    )
    for attack in attacks:
        measured.attacks[attack.name] = score_attack(attack, around)
    measured.seconds["attack"] = time.perf_counter() - start
    return measured


def _utilities(cell: Cell, run: Run, scores: Tensor, lost: Sequence[str]) -> list[float]:
    labels = run.pack.spread(run.split.y_test).reshape(len(scores), -1).numpy()
    return [
        float("nan") if gone else utility(cell.metric, s, y)
        for s, y, gone in zip(scores.double().numpy(), labels, lost, strict=True)
    ]


def score_attack(attack: Attack[Strict], around: Surroundings) -> dict[str, VariantScore]:
    """Run an attack on its view and score each variant on every member."""
    if around.pack.trials is not None and not attack.capabilities.stackable:
        return _score_member_by_member(attack, around)
    answers = attack.run(grant(attack, around))
    return {variant: _scored(answer, around) for variant, answer in answers.items()}


def _scored(answer: Answer | Reconstruction, around: Surroundings) -> VariantScore:
    if isinstance(answer, Reconstruction):
        return score_reconstruction(answer, around.pack.spread(around.split.passive_train[0]))
    y_test = around.pack.spread(around.split.y_test)
    return score_answer(answer, around.y_train, y_test, around.dataset.num_classes)


def _score_member_by_member(attack: Attack[Strict], around: Surroundings) -> dict[str, VariantScore]:
    whole: dict[str, VariantScore] = {}
    for member in range(around.pack.lead[0]):
        for variant, score in score_attack(attack, member_of(around, member)).items():
            whole.setdefault(variant, VariantScore()).extend(score)
    return whole


def member_of(around: Surroundings, member: int) -> Surroundings:
    """Return the surroundings of one member of a pack, without leading axes."""
    pack = Pack((around.pack.seeds[member % len(around.pack.seeds)],), None)
    recordings = {m: r.member(member) for m, r in around.recordings.items()}
    split = around.split.seed(member % len(around.pack.seeds))
    known = around.known_bottom
    return Surroundings(
        around.dataset,
        split,
        pack,
        select_member(around.bottom, member),
        recordings,
        sent=None if around.sent is None else around.sent[member],
        known_bottom=None if known is None else lambda name: select_member(known(name), member),
        untrained_bottom=None if around.untrained_bottom is None else select_member(around.untrained_bottom, member),
        architecture=around.architecture,
    )


def guess_of(cell: Cell) -> float:
    """Return the success of the best constant guess on this cell's training labels."""
    split = split_of(load(cell.dataset), Pack(cell.seeds, 1))
    return guess_success(split.y_train, cell.num_classes)


def measure_references(cell: Cell) -> References:
    """Measure R_lower: every attack that needs no gradients on an untrained bottom model, per seed."""
    lower: dict[str, list[float]] = {}
    for attack in (build_attack(a) for a in cell.attacks):
        if "bottom" in attack.sees() and "gradients" not in attack.sees():
            lower[attack.name] = _best_values(_untrained_scores(cell, attack))
    return References(r_lower=lower)


def references_of(cell: Cell) -> References:
    """Return what :func:`measure_references` measures, once a process for cells that differ in their training only."""
    return _references(cell.model_copy(update={"training": Training()}).model_dump_json())


@lru_cache(maxsize=32)
def _references(cell: str) -> References:
    return measure_references(Cell.model_validate_json(cell))


def _untrained_scores(cell: Cell, attack: Attack[Strict]) -> dict[str, VariantScore]:
    stackable = build_architecture(cell.model).stackable
    packs = [Pack(cell.seeds, 1)] if stackable else [Pack((s,), None) for s in cell.seeds]
    whole: dict[str, VariantScore] = {}
    for pack in packs:
        dataset = load(cell.dataset)
        split, streams = split_of(dataset, pack), Streams(pack.member_seeds, prefix="untrained/")
        network = build_network(split, pack, build_architecture(cell.model), streams, dataset=dataset).eval()
        around = Surroundings(dataset, split, pack, network.bottoms[0], {})
        for variant, score in score_attack(attack, around).items():
            whole.setdefault(variant, VariantScore()).extend(score)
    return whole


def _best_values(variants: Mapping[str, VariantScore]) -> list[float]:
    return max((v.success for v in variants.values()), key=lambda values: sum(values) / len(values))
