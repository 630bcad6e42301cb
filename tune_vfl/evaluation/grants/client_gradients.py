"""The gradients that a client uploads for single steps on the rows whose features are to be reconstructed."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from tune_vfl.attacks.base import Attack, TargetRequest
from tune_vfl.defenses.base import Defense
from tune_vfl.errors import SpecError
from tune_vfl.evaluation.grants.base import Grant, grant
from tune_vfl.evaluation.grants.received import target_rows, targets_of
from tune_vfl.evaluation.keeper import Keeper
from tune_vfl.evaluation.run import Run
from tune_vfl.horizontal.cohort import ClientSide
from tune_vfl.models.base import VflNetwork
from tune_vfl.protocol.loop import SplitTraining, learning_rate, optimizer
from tune_vfl.protocol.losses import task_loss
from tune_vfl.protocol.members import Batch
from tune_vfl.protocol.uploaded import UploadedAt, Uploads
from tune_vfl.spec import Strict, Training

_GRADIENTS = frozenset({"client_gradients", "top_gradients"})
"""The grants that are made from these recordings."""

StepBy = Literal["sgd", "adam"]


class SingleSteps(Keeper):
    """Records single steps of the client on each batch under attack, before the training and after it.

    One step by SGD, whose update is the gradient times minus the learning rate; for attacks that see all uploads, also
    one by the recipe's optimizer, if that is another. Steps pass through the defense, in training and at the upload.
    Nothing is recorded of a network of several parties, which is no client's.
    """

    def begin(self, loop: SplitTraining) -> None:
        """Record the steps of the untrained network."""
        self._kept: dict[tuple[UploadedAt, TargetRequest, StepBy], Tensor] = {}
        self._keep("first", loop, 0)

    def end(self, loop: SplitTraining) -> None:
        """Record the steps of the trained network."""
        self._keep("last", loop, loop.training.epochs - 1)

    def _keep(self, moment: UploadedAt, loop: SplitTraining, epoch: int) -> None:
        if not is_clients(loop.network):
            return
        client = _Client(loop, epoch)
        for request, sees in self._requests().items():
            gradients = client.gradients(request)
            self._kept[moment, request, "sgd"] = client.uploads(gradients, "sgd")
            if loop.training.optimizer == "adam" and "client_gradients" in sees:
                self._kept[moment, request, "adam"] = client.uploads(gradients, "adam")

    def _requests(self) -> dict[TargetRequest, frozenset[str]]:
        """Return the rows that attacks request, and the parts of the gradients that each attack sees."""
        found: dict[TargetRequest, frozenset[str]] = {}
        for attack in self.attacks:
            request, sees = attack.target_request(), _GRADIENTS & attack.sees()
            if request is not None and sees:
                found[request] = found.get(request, frozenset()) | sees
        return found

    def of(self, request: TargetRequest, by: StepBy = "sgd") -> dict[UploadedAt, Tensor]:
        """Return uploads ``(*trials, G, n)`` by moment; none if no client trained, or none on this request."""
        kept = {moment: steps for (moment, asked, how), steps in self._kept.items() if (asked, how) == (request, by)}
        return {moment: self.part(steps) for moment, steps in kept.items()}

    @property
    def uploads(self) -> int:
        """The number of uploads: one step at each moment, by each optimizer, on each batch under attack."""
        return sum(kept.shape[-2] for kept in self._kept.values())


def is_clients(network: VflNetwork) -> bool:
    """Whether a network belongs to one party that has all columns."""
    return network.own_bottom is None and len(network.bottoms) == 1


def uploaded(network: VflNetwork, defense: Defense) -> list[nn.Parameter]:
    """Return the parameters that a client uploads under a defense, in the order of its update."""
    shared = defense.capabilities.client_bottom == "shared"
    return list((network if shared or network.top is None else network.top).parameters())


class _Client:
    """A client that computes single steps without changing its network."""

    def __init__(self, loop: SplitTraining, epoch: int) -> None:
        self._network = copy.deepcopy(loop.network).train()
        self._loop, self._epoch = loop, epoch
        self._defense = next(h for h in loop.hooks if isinstance(h, Defense))
        self._side = ClientSide(self._defense)
        self._uploaded = uploaded(self._network, self._defense)

    def gradients(self, request: TargetRequest) -> list[list[Tensor]]:
        """Return the gradients of each requested batch, ``(*trials, ...)``, in the order of the uploaded parameters.

        Raises:
            SpecError: where the client holds too few rows for one batch.
        """
        pack = self._loop.rows.pack
        drawn = [target_rows(request, self._loop.rows.count, seed)[0] for seed in pack.seeds]
        if not len(drawn[0]):
            raise SpecError(
                f"half of a client's {self._loop.rows.count} rows make no batch of {request.batch} to reconstruct; "
                "lower the attack's batch or federation.clients"
            )
        ids = pack.spread(drawn[0] if pack.trials is None else torch.stack(drawn))
        return [self._gradient(at) for at in torch.split(ids, request.batch, -1)]

    def uploads(self, gradients: Sequence[Sequence[Tensor]], by: StepBy) -> Tensor:
        """Return the upload that each gradient leads to, divided by minus the learning rate: ``(*trials, G, n)``.

        Args:
            gradients: of each batch.
            by: the optimizer of the step; Adam's is its first.
        """
        return torch.stack([self._upload(gradient, by) for gradient in gradients], -2)

    def _gradient(self, ids: Tensor) -> list[Tensor]:
        rows, network = self._loop.rows, self._network
        y = self._loop.rows.labels(ids)
        batch = self._side.inputs(Batch(rows.take(ids)[:1], None, y, ids), rows, epoch=self._epoch)
        targets = self._side.labels(batch.y, batch.ids)
        embedding = self._side.send_embedding(network.bottoms[0](batch.passive[0]), party=0)
        loss = task_loss(network.head(embedding), targets).sum()
        return list(torch.autograd.grad(loss, self._uploaded, allow_unused=True, materialize_grads=True))

    def _upload(self, gradient: Sequence[Tensor], by: StepBy) -> Tensor:
        moved = gradient if by == "sgd" else _first_steps(self._uploaded, gradient, self._loop.training)
        flat = torch.cat([g.flatten(len(self._loop.lead)) for g in moved], -1)
        rate = learning_rate(self._loop.training, self._epoch)
        self._defense.begin()  # each step is the client's first: nothing of another batch is left over
        taking = torch.ones(*self._loop.lead, 1, 1, dtype=torch.bool)
        return self._defense.client_update(-rate * flat.unsqueeze(-2), taking=taking).squeeze(-2) / -rate


def _first_steps(parameters: Sequence[Tensor], gradients: Sequence[Tensor], training: Training) -> list[Tensor]:
    """Return the first step of a recipe's optimizer, divided by minus the learning rate."""
    # From zero, where what is small beside a weight is not rounded away; weights count where they decay alone.
    at = [p.detach() if training.weight_decay else torch.zeros_like(p) for p in parameters]
    moved = [nn.Parameter(start.clone()) for start in at]
    for parameter, gradient in zip(moved, gradients, strict=True):
        parameter.grad = gradient
    optimizer(moved, training).step()
    return [(start - now.detach()) / training.lr for start, now in zip(at, moved, strict=True)]


def uploads_of(attack: Attack[Strict], run: Run, most: int | None = None) -> Uploads | None:
    """Return the uploads that an attack receives; None for attacks on labels, or if no client trained.

    Args:
        attack: the rows that it asks for.
        run: the client's training.
        most: of each gradient so many last numbers alone; None: all.
    """
    request, targets = attack.target_request(), targets_of(attack, run)
    if request is None or targets is None:
        return None
    kept = run.kept(SingleSteps).of(request)
    gradients = {moment: g if most is None else g[..., g.shape[-1] - most :] for moment, g in kept.items()}
    shape = tuple(run.x_train.shape[len(run.pack.lead) + 1 :])
    steps = run.kept(SingleSteps).of(request, "adam") if most is None else {}
    return Uploads(run.pack.spread(targets[0]), request.batch, gradients, shape, steps) if kept else None


@grant("client_gradients")
class ClientGradients(Grant):
    """All gradients that a client uploads, of single steps on each batch under attack."""

    keeps = (SingleSteps,)

    def hand_out(self, attack: Attack[Strict], run: Run) -> Uploads | None:
        """Return the uploads; None for attacks on labels, or if no client trained."""
        return uploads_of(attack, run)
