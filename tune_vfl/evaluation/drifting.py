"""Drifted models: bottom models that noise alone has moved as far as a training moves them."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from tune_vfl.attacks.base import Attack
from tune_vfl.defenses.base import Defense
from tune_vfl.evaluation.grants.base import keepers_for
from tune_vfl.evaluation.run import Run
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import build_network, embedding_width, set_up, split_of
from tune_vfl.protocol.hooks import Context
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.members import Pack, Rows
from tune_vfl.seeds import Streams
from tune_vfl.spec import Strict


class NoiseAlone(Defense[Strict]):
    """Sends noise in the place of each gradient; no defense of the registry.

    Gradients of a training agree with each other from step to step and noise does not, so that noise of a gradient's
    size leaves a model nearly where it was, unless the optimizer makes all steps equally long. Its size is therefore
    the first step's undefended gradient times the square root of the number of steps: a random walk goes as far by it
    as that gradient would.
    """

    name = "noise alone"
    steps = 1

    def begin(self) -> None:
        """Forget the sizes of an earlier training."""
        self._sizes: dict[int, Tensor] = {}

    def cut_gradient(self, grad: Tensor, *, y: Tensor, context: Context | None = None, party: int = 0) -> Tensor:
        """Return independent normal noise; same shape and dtype."""
        if party not in self._sizes:
            self._sizes[party] = (grad.square().mean((-2, -1), keepdim=True) * self.steps).sqrt()
        return self.streams[f"cut/{party}"].normal(*grad.shape[-2:]) * self._sizes[party]


def drifted(task: Task, pack: Pack, attacks: Sequence[Attack[Strict]], start: int = 0, *, device: str = "cpu") -> Run:
    """Return a pack whose bottom models were trained on noise for gradients, with what the attacks keep of that.

    It is as long as the task's training, with the same optimizer, and knows nothing of its defense. Keepers see the
    embeddings as they were sent, and the noise. The label party's models are trained beside the bottom models, and set
    the size of the noise at the first step; nothing else of them, or of labels, reaches a passive party.

    Args:
        task: whose rows, model and training are used.
        pack: the members.
        attacks: those that watch.
        start: weights and noise of its own for each.
        device: where the networks are trained.
    """
    recipe, rows = task.cell.training, split_of(task, pack)
    split, prefix = rows.to(device), f"drifted/{start}/"
    network = build_network(task, rows, pack, Streams(pack.member_seeds, prefix=prefix)).to(device)
    dims = [embedding_width(task)] * len(network.bottoms)
    members = Strict() if pack.trials is None else [Strict()] * len(pack.seed_of_each)
    noise = NoiseAlone(members, num_classes=task.dataset.num_classes, embedding_dims=dims, mode=task.cell.mode)
    noise.stream_prefix = prefix
    noise.steps = recipe.epochs * -(-split.y_train.shape[-1] // recipe.batch_size)
    set_up(noise, network, split, pack)
    keepers = {kind: kind(attacks, recipe, split.y_train.shape[-1]) for kind in keepers_for(attacks)}
    loop = SplitTraining(network, Rows(split, pack), recipe, [noise, *keepers.values()], pack.lead)
    for keeper in keepers.values():
        keeper.begin(loop)
    loop.run()
    for keeper in keepers.values():
        keeper.end(loop)
    return Run(task, pack, rows, network.cpu(), keepers)
