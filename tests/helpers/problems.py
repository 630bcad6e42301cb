"""Small made-up problems for tests of the protocol."""

import torch

from tune_vfl.data.base import Split
from tune_vfl.models.base import VflNetwork, build
from tune_vfl.models.mlp import Mlp, MlpOptions
from tune_vfl.protocol.hooks import Hooks
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.members import Pack, Rows
from tune_vfl.seeds import Streams
from tune_vfl.spec import Training


def made_up_split(
    seed: int, *, classes: int = 2, parties: int = 1, own: bool = True, rows: int = 70, held_out: int = 30
) -> Split:
    """Linearly separable rows: ``parties`` passive parties with 4 columns each, and the label party's 3."""
    g = torch.Generator().manual_seed(seed)
    width = 4 * parties + 3
    x = torch.randn(rows + held_out, width, generator=g)
    y = (x @ torch.randn(width, classes, generator=g)).argmax(-1)
    passive = [x[:, 4 * k : 4 * k + 4].contiguous() for k in range(parties)]
    mine = x[:, -3:].contiguous() if own else None
    return Split(
        passive_train=tuple(p[:rows] for p in passive),
        passive_test=tuple(p[rows:] for p in passive),
        active_train=None if mine is None else mine[:rows],
        active_test=None if mine is None else mine[rows:],
        y_train=y[:rows],
        y_test=y[rows:],
        train_rows=torch.arange(rows),
        test_rows=torch.arange(rows, rows + held_out),
    )


def network_for(split: Split, pack: Pack, *, classes: int = 2, **options: object) -> VflNetwork:
    """Build a small MLP network for a split."""
    return build(
        Mlp(MlpOptions.model_validate({"bottom_hidden": (8,), "embedding_dim": 5, "top_hidden": (6,), **options})),
        passive_shapes=[(p.shape[-1],) for p in split.passive_train],
        own_shape=None if split.active_train is None else (split.active_train.shape[-1],),
        num_classes=classes,
        streams=Streams(pack.member_seeds),
    )


def train(
    split: Split, pack: Pack, training: Training, hooks: list[Hooks], *, classes: int = 2, **options: object
) -> SplitTraining:
    """Train a small network through the real loop."""
    network = network_for(split, pack, classes=classes, **options)
    return SplitTraining(network, Rows(split, pack), training, hooks, pack.lead).run()
