"""The trainings of the GPU benchmark: made-up images, texts and tables of the usual shapes, each in three sizes.

Nothing is read or downloaded: what a training costs depends on the shape of its rows, not on what they show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from benchmarks.problem import MadeUp
from tune_vfl.data.base import Columns, Dataset, Loader, Recipe, dataset
from tune_vfl.defenses.base import defense_params
from tune_vfl.evaluation.grants.base import keepers_for
from tune_vfl.evaluation.resolving import open_task
from tune_vfl.evaluation.run import Run
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import build_network, split_of, train_pack
from tune_vfl.protocol.members import Pack
from tune_vfl.seeds import Streams
from tune_vfl.spec import Strict, Training, parse

SizeName = Literal["full", "small", "quick"]
TEST_ROWS = 32
DEFENSE = {"scale": 1e-3}
"""Of ``laplace``, whose noise is drawn on the device: trainings of a search have a defense."""


class MadeUpImageOptions(Strict):
    """Size and number of the images."""

    rows: int = Field(256, ge=32, description="training rows")
    side: int = Field(32, ge=8, description="pixels a side, of which each party holds the half")
    channels: int = Field(3, ge=1, description="channels")
    classes: int = Field(10, ge=2, description="classes")


class MadeUpTextOptions(Strict):
    """Length and number of the texts."""

    rows: int = Field(256, ge=32, description="training rows")
    tokens: int = Field(64, ge=2, description="tokens of a text, of which each party holds the half")
    vocabulary: int = Field(8000, ge=10, description="different tokens")


def assembled(name: str, halves: Sequence[Tensor], y: Tensor, model: str, options: Strict) -> Dataset:
    """Return a data set of two parties, whose last rows are its test rows."""
    return Dataset(
        name=name,
        passive=(Columns("passive", halves[0].contiguous()),),
        active=Columns("active", halves[1].contiguous()),
        y=y,
        class_names=tuple(str(k) for k in range(int(y.max()) + 1)),
        metric="accuracy",
        recipe=Recipe.of(model, Training(), 4),
        fingerprint=options.model_dump_json(),
        test_rows=torch.arange(len(y) - TEST_ROWS, len(y)),
    )


@dataset("made_up_images")
class MadeUpImages(Loader[MadeUpImageOptions]):
    """Noise whose mean tells the class, left and right halves."""

    summary = "images of noise, each class of another brightness, left and right halves"
    reference = "this benchmark"
    Options = MadeUpImageOptions

    def load(self, options: MadeUpImageOptions, root: Path) -> Dataset:
        """Make them up; the data root is not needed."""
        count = options.rows + TEST_ROWS
        y = torch.arange(count) % options.classes
        noise = torch.rand(
            count, options.channels, options.side, options.side, generator=torch.Generator().manual_seed(0)
        )
        x = 0.5 * noise + 0.5 * (y / options.classes).view(-1, 1, 1, 1)
        return assembled("made_up_images", x.chunk(2, -1), y, "lenet", options)


@dataset("made_up_texts")
class MadeUpTexts(Loader[MadeUpTextOptions]):
    """Random tokens, those of one class from the lower half of the vocabulary."""

    summary = "texts of random tokens, two classes of different vocabularies, first and second halves"
    reference = "this benchmark"
    Options = MadeUpTextOptions

    def load(self, options: MadeUpTextOptions, root: Path) -> Dataset:
        """Make them up; the data root is not needed."""
        count, half = options.rows + TEST_ROWS, options.vocabulary // 2
        y = torch.arange(count) % 2
        drawn = torch.randint(1, half, (count, options.tokens), generator=torch.Generator().manual_seed(0))
        return assembled("made_up_texts", (drawn + half * y.unsqueeze(-1)).chunk(2, -1), y, "bert", options)


@dataclass(frozen=True)
class NetCase:
    """A net and the rows that it is trained on.

    Attributes:
        title: for the table.
        dataset: its name and options, but for the number of rows.
        model: its name and options.
        sizes: training rows, rows of a batch, and epochs.
        trials: that train in one pass, by three seeds; None where the net takes one at a time.
        attacks: for which trainings are recorded.
    """

    title: str
    dataset: Mapping[str, Any]
    model: Mapping[str, Any]
    sizes: Mapping[SizeName, tuple[int, int, int]]
    trials: int | None = None
    attacks: tuple[str, ...] = ("default",)


# From cheap to dear: what one leaves of its time, the next ones have.
CASES: dict[str, NetCase] = {
    "mlp": NetCase(
        "MLP, 20 columns",
        {"name": MadeUp.name},
        {"name": "mlp", "bottom_hidden": [32, 32], "embedding_dim": 10, "top_hidden": [32]},
        {"full": (10_000, 256, 4), "small": (2_000, 256, 2), "quick": (256, 128, 1)},
        trials=24,
    ),
    "lenet": NetCase(
        "LeNet, 28x28",
        {"name": "made_up_images", "side": 28, "channels": 1},
        {"name": "lenet"},
        {"full": (4_096, 128, 4), "small": (1_024, 128, 2), "quick": (64, 32, 1)},
    ),
    "bert": NetCase(
        "BERT-tiny, 64 tokens",
        {"name": "made_up_texts"},
        {"name": "bert", "hidden": 128, "layers": 2, "heads": 2},
        {"full": (2_048, 64, 2), "small": (256, 64, 1), "quick": (32, 32, 1)},
    ),
    "resnet18": NetCase(
        "ResNet-18, 3x32x32",
        {"name": "made_up_images"},
        {"name": "resnet18"},
        {"full": (512, 64, 1), "small": (64, 32, 1), "quick": (32, 32, 1)},
    ),
}
ATTACKED = replace(CASES["lenet"], dataset={**CASES["lenet"].dataset, "classes": 2})
"""What is attacked: with two classes, for which there are more attacks than for ten."""


class OpenedCase:
    """A case opened for trainings.

    Args:
        case: to open.
        size: of its data.

    Attributes:
        task, pack: what is trained.
        steps: of a training.
    """

    def __init__(self, case: NetCase, size: SizeName) -> None:
        rows, batch, epochs = case.sizes[size]
        raw = {
            "study": "gpu",
            "dataset": {**case.dataset, "rows": rows},
            "model": dict(case.model),
            "defense": "laplace",
            "attacks": list(case.attacks),
            "training": {"epochs": epochs, "batch_size": batch, "lr": 1e-3},
            "budget": {"seeds": 3 if case.trials else 1},
        }
        self.task: Task = open_task(parse(raw))
        trials = case.trials if size != "quick" else case.trials and 2
        seeds = self.task.cell.seeds
        self.pack = Pack(seeds, trials) if self.task.stackable and trials else Pack(seeds[:1], None)
        self.steps = epochs * -(-rows // batch)
        built = defense_params("laplace", DEFENSE, num_classes=self.task.cell.num_classes)
        self._params = [built] * (self.pack.trials or 1)
        # Built once here: the first network of a kind imports its library, which belongs to no training.
        build_network(self.task, split_of(self.task, self.pack), self.pack, Streams(self.pack.member_seeds))

    @property
    def members(self) -> int:
        """Networks that train in one pass."""
        return len(self.pack.seed_of_each)

    def train(self, device: str) -> Run:
        """Train a pack, recorded for the attacks that watch; its network ends on the CPU, so a GPU has ended too."""
        return train_pack(self.task, self._params, self.pack, self.task.watching, device=device)

    def estimated_bytes(self) -> int:
        """Return what the program expects the pack's recordings to hold in main memory."""
        width = int(self.task.cell.model.options.get("embedding_dim", 1))
        size = {"members": self.members, "rows": len(self.task.dataset.y), "width": width}
        each = sum(keeper.bytes_needed(self.task.watching, **size) for keeper in keepers_for(self.task.watching))
        return len(self.task.dataset.passive) * each
