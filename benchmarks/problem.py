"""The problem that the training benchmarks share: 20 features at two parties, 10,000 rows, a linear rule."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import torch

from tune_vfl.data.base import Split
from tune_vfl.models.base import VflNetwork, build
from tune_vfl.models.mlp import Mlp, MlpOptions
from tune_vfl.protocol.members import Pack
from tune_vfl.seeds import Streams
from tune_vfl.spec import Training

ROWS = 10_000
TRAINING = Training(epochs=4, batch_size=256, lr=1e-3)


def made_up_rows(seed: int = 0) -> Split:
    """Return 10,000 training rows, 10 features at each party, and 2 classes."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(ROWS, 20, generator=g)
    y = (x @ torch.randn(20, generator=g) > 0).long()
    passive, own, rows = x[:, :10].contiguous(), x[:, 10:].contiguous(), torch.arange(ROWS)
    return Split((passive,), (passive,), own, own, y, y, rows, rows)


def mlp(pack: Pack) -> VflNetwork:
    """Return bottoms 10-32-32-10 at both parties and a top 20-32-2."""
    return build(
        Mlp(MlpOptions(bottom_hidden=(32, 32), embedding_dim=10, top_hidden=(32,))),
        passive_shapes=[(10,)],
        own_shape=(10,),
        num_classes=2,
        streams=Streams(pack.member_seeds),
    )


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds that ``work`` takes in this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


def medians(works: Sequence[Callable[[], object]], repeats: int = 9) -> list[float]:
    """Return the median CPU seconds of each, measured in turns so that a noisy neighbour meets all of them."""
    for work in works:
        work()
    samples = [[cpu_seconds(work) for work in works] for _ in range(repeats)]
    return [statistics.median(column) for column in zip(*samples, strict=True)]
