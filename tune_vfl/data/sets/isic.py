"""ISIC: gray photographs of skin, melanoma or not, all at one party, the labels at another."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from tune_vfl.data.base import Dataset, Loader, Recipe, dataset
from tune_vfl.data.options import SplitChoice
from tune_vfl.data.reading.files import find
from tune_vfl.data.reading.public_images import ImageSet, image_set, read_parts
from tune_vfl.data.sample import SampledOptions
from tune_vfl.spec import Training


class IsicOptions(SampledOptions):
    """Whole images at the passive party, labels alone at the other, unless ``split`` says otherwise."""

    split: SplitChoice = Field(1.0, description="share of the pixel columns that the passive side holds")


@dataset("isic")
class Isic(Loader[IsicOptions]):
    """Images ``(1, 64, 64)`` in [0, 1], 1 in 10 a melanoma; 1 row in 5 held out.

    GAFM trains a net of its own (gafm_cnn), 40 wide at the cut, with Adam 1e-6 for 250 epochs. The recipe here is LeNet
    with an embedding of the same width and Adam 1e-4 for 30 epochs. That gives an AUC of .75; GAFM's net with the same
    training gives .67 (one seed).
    """

    summary = "gray photographs of skin, 64x64 pixels, 10% melanoma; labels alone at the label party"
    reference = "Tschandl, Rosendahl, Kittler 2018, HAM10000; shares and width of Han et al. 2023 (GAFM)"
    Options = IsicOptions
    kept = True

    def load(self, options: IsicOptions, root: Path) -> Dataset:
        """Read ``isic/isic.npz``: ``x`` uint8 ``(N, 64, 64, 1)`` and ``y``, 1 for melanoma."""
        path = find(
            root,
            "isic/isic.npz",
            "https://www.isic-archive.com; write gray images of 64x64 pixels as x (uint8, N x 64 x 64 x 1) and y with "
            "numpy.savez",
        )
        known = ImageSet(
            name="isic",
            shape=(64, 64, 1),
            classes=("benign", "melanoma"),
            recipe=Recipe.of("lenet", Training(epochs=30, batch_size=256, lr=1e-4), embedding_dim=40),
            test_share=0.2,
        )
        return image_set(known, read_parts(path, known, [("x", "y")]), None, options, path=path)
