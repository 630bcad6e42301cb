"""An attack that sees every grant there is, and a training of two trials with two seeds that it watches."""

from functools import cache
from typing import Any

import torch

from tests.helpers.cells import cells
from tune_vfl.attacks.base import Attack, AttackCapabilities, AuxiliaryRequest, TargetRequest
from tune_vfl.evaluation.grants.base import GRANTS, view_of
from tune_vfl.evaluation.run import Run
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack
from tune_vfl.protocol.granted import Average
from tune_vfl.protocol.hooks import Hooks
from tune_vfl.protocol.members import Pack
from tune_vfl.protocol.view import View
from tune_vfl.spec import Strict

SEEDS, TRIALS = (3, 5), 2
MEMBERS = [(trial, seed) for trial in range(TRIALS) for seed in SEEDS]
cell_of = cells("training.epochs=3", "training.batch_size=100", defense="none")


class Seeing(Attack[Strict]):
    """Sees every grant there is, and writes down every gradient by taking part."""

    name = "seeing"
    capabilities = AttackCapabilities(acts=True)
    wants: Any = AuxiliaryRequest()

    def __init__(self) -> None:
        super().__init__()
        self.pages: list[tuple[int, torch.Tensor, torch.Tensor]] = []

    def sees(self) -> frozenset[str]:
        return frozenset(GRANTS.names())

    def moments(self) -> Any:
        return ("first_batch", "epoch0", "last", Average(2))

    def auxiliary_request(self) -> Any:
        return self.wants

    def target_request(self) -> TargetRequest:
        return TargetRequest(rows=7, pairs=11)

    def hooks(self, training: Any, view: View) -> list[Hooks]:
        diary = self.pages

        class Diary(Hooks):
            def gradient_received(self, gradient: Any, *, party: int, ids: Any, epoch: int, step: int) -> None:
                diary.append((epoch, ids.clone(), gradient.clone()))

        return [Diary()]

    def run(self, view: View) -> dict[str, Any]:
        return {}


@cache
def trained() -> tuple[Seeing, Run, View]:
    """Train two trials of two seeds; return who sees everything, the training, and the view."""
    attack, task = Seeing(), Task.open(cell_of("norm"))
    run = train_pack(task, [Strict()] * TRIALS, Pack(SEEDS, TRIALS), [attack])
    return attack, run, view_of(attack, run)


def labels_of(member: int) -> torch.Tensor:
    return trained()[1].split.y_train[member % len(SEEDS)]
