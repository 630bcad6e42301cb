"""The problem that the training benchmarks share: 20 features at two parties, 10,000 rows, a linear rule."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from pydantic import Field

from tune_vfl.data.base import Columns, Dataset, Loader, Recipe, Split, dataset
from tune_vfl.models.base import VflNetwork, build
from tune_vfl.models.mlp import Mlp, MlpOptions
from tune_vfl.protocol.members import Pack
from tune_vfl.seeds import Streams
from tune_vfl.spec import Named, Strict, Training

ROWS = 10_000
TRAINING = Training(epochs=4, batch_size=256, lr=1e-3)


def made_up_features(rows: int, seed: int = 0, *, classes: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ``(rows, 20)`` features and the classes that a linear rule gives them."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 20, generator=g)
    if classes == 2:
        return x, (x @ torch.randn(20, generator=g) > 0).long()
    return x, (x @ torch.randn(20, classes, generator=g)).argmax(-1)


def made_up_rows(seed: int = 0) -> Split:
    """Return 10,000 training rows, 10 features at each party, and 2 classes."""
    x, y = made_up_features(ROWS, seed)
    passive, own, rows = x[:, :10].contiguous(), x[:, 10:].contiguous(), torch.arange(ROWS)
    return Split((passive,), (passive,), own, own, y, y, rows, rows)


class MadeUpOptions(Strict):
    """How large the problem is."""

    rows: int = Field(ROWS, ge=100, description="training rows")
    classes: int = Field(2, ge=2, description="classes")


@dataset("made_up")
class MadeUp(Loader[MadeUpOptions]):
    """The same problem as a data set, for what is measured through a spec."""

    summary = "20 normal features at two parties, a linear rule"
    reference = "this benchmark"
    Options = MadeUpOptions
    HELD_OUT = 100

    def load(self, options: MadeUpOptions, root: Path) -> Dataset:
        """Make it up; the data root is not needed."""
        x, y = made_up_features(options.rows + self.HELD_OUT, classes=options.classes)
        hidden = {"bottom_hidden": (32, 32), "top_hidden": (32,)}
        return Dataset(
            name="made_up",
            passive=(Columns("passive", x[:, :10].contiguous()),),
            active=Columns("active", x[:, 10:].contiguous()),
            y=y,
            class_names=tuple(str(k) for k in range(options.classes)),
            metric="accuracy",
            recipe=Recipe(model=Named(name="mlp", **hidden), training=TRAINING),
            fingerprint=options.model_dump_json(),
            test_rows=torch.arange(options.rows, len(y)),
        )


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
    """Return the median CPU seconds of each, measured in turns so that a noisy neighbor meets all of them."""
    for work in works:
        work()
    samples = [[cpu_seconds(work) for work in works] for _ in range(repeats)]
    return [statistics.median(column) for column in zip(*samples, strict=True)]
