"""Handwritten digits of 8x8 pixels, cut into a left and a right half."""

from __future__ import annotations

from pathlib import Path

import torch

from tune_vfl.data.assemble import assemble
from tune_vfl.data.base import Dataset, Loader, Recipe, dataset
from tune_vfl.data.options import PartyOptions
from tune_vfl.data.partition import image_parties
from tune_vfl.data.reading.bundled import bundled_rows
from tune_vfl.spec import Training


@dataset("digits")
class Digits(Loader[PartyOptions]):
    """1,797 images ``(1, 8, 8)`` in [0, 1], bundled with scikit-learn; ``split`` cuts them along the width."""

    summary = "1,797 handwritten digits of 8x8 pixels, 10 classes, bundled with scikit-learn"
    reference = "Alpaydin and Kaynak 1998, UCI Optical Recognition of Handwritten Digits (test part)"
    Options = PartyOptions

    def load(self, options: PartyOptions, root: Path) -> Dataset:
        """Load the bundled images; the data root is not needed."""
        pixels, y = bundled_rows("digits")
        images = torch.tensor(pixels, dtype=torch.float32).view(-1, 1, 8, 8) / 16
        return assemble(
            "digits",
            image_parties(images, options.share, options.passive_parties, "digits"),
            torch.tensor(y, dtype=torch.int64),
            [str(k) for k in range(10)],
            metric=options.metric,
            recipe=Recipe.of("mlp", Training(epochs=30, batch_size=64, lr=3e-3)),
        )
