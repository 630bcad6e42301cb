"""Split training without defense against the same network trained in one piece.

Both from in-memory tensors, with the same fused Adam, the same order of rows and the same starting weights.
Run: python -m benchmarks.split_training
"""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.problem import TRAINING, made_up_rows, medians, mlp
from tune_vfl.machine.runtime import prepare_process
from tune_vfl.protocol.loop import SplitTraining, optimizer
from tune_vfl.protocol.members import Pack, Rows

ALONE = Pack((0,), None)


def in_one_piece() -> None:
    """Train by one backward pass through the whole network."""
    split = SPLIT
    network = mlp(ALONE)
    steps = optimizer(list(network.parameters()), TRAINING)
    order = torch.Generator().manual_seed(0)
    own_rows = split.active_train if split.active_train is not None else split.passive_train[0]
    for _ in range(TRAINING.epochs):
        rows = torch.randperm(len(split.y_train), generator=order)
        passive, own, y = (t.index_select(0, rows) for t in (split.passive_train[0], own_rows, split.y_train))
        for start in range(0, len(rows), TRAINING.batch_size):
            batch = slice(start, start + TRAINING.batch_size)
            loss = nn.functional.cross_entropy(network([passive[batch]], own[batch]), y[batch])
            loss.backward()
            steps.step()
            steps.zero_grad()


def split_in_two() -> None:
    """Train through the protocol's loop."""
    SplitTraining(mlp(ALONE), Rows(SPLIT, ALONE), TRAINING, [], ()).run()


SPLIT = made_up_rows()


def main() -> None:
    """Print the table."""
    prepare_process()
    whole, split = medians([in_one_piece, split_in_two], repeats=15)
    print("| training | CPU s | ratio |\n|---|---|---|")
    print(f"| in one piece | {whole:.3f} | 1.00 |\n| split | {split:.3f} | {split / whole:.2f} |")


if __name__ == "__main__":
    main()
