"""Images as attacks on features reconstruct them, from one more training with one seed; no ledger stores rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from tune_vfl.attacks.base import Attack
from tune_vfl.defenses.base import defense_params
from tune_vfl.evaluation.grants.base import view_of
from tune_vfl.evaluation.scoring import paired, score_reconstruction
from tune_vfl.evaluation.seats import named_seats
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack
from tune_vfl.protocol.answers import Reconstruction
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Cell, Strict


@dataclass(frozen=True, eq=False)
class Pictured:
    """Images with an attack's reconstructions of them.

    Attributes:
        attack: its name; with several passive parties ``ATTACK/PARTY``.
        variant: the one of its variants that comes nearest to these images.
        true, found: ``(n, C, H, W)`` in [0, 1].
        mse: over all rows that the attack looked for, not these alone.
    """

    attack: str
    variant: str
    true: Tensor
    found: Tensor
    mse: float


def pictured(cell: Cell, params: Mapping[str, Any], *, most: int = 8) -> list[Pictured]:
    """Train a cell under a setting with its first seed, and return its attacks' reconstructions.

    Args:
        cell: of a data set of images.
        params: the setting.
        most: images an attack.

    Returns:
        An entry for each attack on features that watches; none where the data are no images, or the training is lost.
    """
    given, rest = Task.open(cell).with_params(params)
    task = replace(given, attacks=tuple(a for a in given.attacks if _looks_for_rows(a)))
    if task.dataset.modality != "image" or not task.attacks:
        return []
    built = defense_params(cell.defense, {**rest, **cell.fixed}, num_classes=cell.num_classes)
    run = train_pack(task, [built], Pack(cell.seeds[:1], None), task.attacks)
    if any(run.table["lost",]):
        return []
    found = []
    for attack in task.attacks:
        for name, parties in named_seats(attack, task).items():
            seen = run.seen_by(parties)
            answers = attack.run(view_of(attack, seen)).items()
            rows = {variant: answer for variant, answer in answers if isinstance(answer, Reconstruction)}
            found.append(_nearest(name, rows, seen.x_train, most))
    return found


def _looks_for_rows(attack: Attack[Strict]) -> bool:
    return attack.capabilities.goal == "features" and not attack.capabilities.acts


def _nearest(name: str, answers: Mapping[str, Reconstruction], x_train: Tensor, most: int) -> Pictured:
    errors = {variant: score_reconstruction(answer, x_train)["mse"][0] for variant, answer in answers.items()}
    variant = min(errors, key=lambda v: (errors[v] != errors[v], errors[v]))
    answer = answers[variant]
    rows = answer.rows.detach().cpu().nan_to_num().clamp(0, 1)
    true = x_train[answer.ids]
    found = rows[paired(rows.numpy(), true.numpy(), answer.batch)]
    return Pictured(name, variant, true[:most], found[:most], errors[variant])
