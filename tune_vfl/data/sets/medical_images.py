"""Medical images: photographs of skin (ISIC), and X-ray pictures of children's chests (pneumonia)."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from tune_vfl.data.base import Recipe, dataset
from tune_vfl.data.options import SplitChoice
from tune_vfl.data.public import PublicSet, Rows
from tune_vfl.data.reading.public_images import read_parts
from tune_vfl.data.sample import SampledOptions
from tune_vfl.spec import Training


class IsicOptions(SampledOptions):
    """Whole images at the passive party, labels alone at the other, unless ``split`` says otherwise."""

    split: SplitChoice = Field(1.0, description="share of the pixel columns that the passive side holds")


@dataset("isic")
class Isic(PublicSet[IsicOptions]):
    """Images ``(1, 64, 64)`` in [0, 1], 1 in 10 a melanoma; 1 row in 5 held out.

    GAFM trains a net of its own (gafm_cnn), 40 wide at the cut, with Adam 1e-6 for 250 epochs. The recipe here is LeNet
    with an embedding of the same width and Adam 1e-4 for 30 epochs. That gives an AUC of .75; GAFM's net with the same
    training gives .67 (one seed).
    """

    summary = "gray photographs of skin, 64x64 pixels, 10% melanoma; labels alone at the label party"
    reference = "Tschandl, Rosendahl, Kittler 2018, HAM10000; shares and width of Han et al. 2023 (GAFM)"
    Options = IsicOptions
    kept = True
    files = ("isic/isic.npz",)
    source = (
        "https://www.isic-archive.com; write gray images of 64x64 pixels as x (uint8, N x 64 x 64 x 1) and y with "
        "numpy.savez"
    )
    classes = ("benign", "melanoma")
    recipe = Recipe.of("lenet", Training(epochs=30, batch_size=256, lr=1e-4), embedding_dim=40)
    test_share = 0.2

    def read(self, options: IsicOptions, root: Path) -> Rows:
        """Read ``x``, uint8 ``(N, 64, 64, 1)``, and ``y``, 1 for melanoma."""
        del options
        path = self.file(root)
        return Rows.of_images(read_parts(path, (64, 64, 1), len(self.classes), [("x", "y")]), None, path)


@dataset("pneumonia")
class Pneumonia(PublicSet[SampledOptions]):
    """5,856 images ``(1, 28, 28)`` in [0, 1]: official training and validation rows to train on, the 624 test rows.

    Batches of 64 and 30 labeled rows a class are what Fu et al. and LADSG use on BHI, which are medical images too.
    Halves of the images are at the parties.
    """

    summary = "5,232 + 624 X-ray pictures of 28x28 pixels, pneumonia or not, left and right halves"
    reference = "Yang et al. 2023, MedMNIST v2 (PneumoniaMNIST)"
    Options = SampledOptions
    kept = True
    files = ("pneumoniamnist/pneumoniamnist.npz",)
    source = "https://medmnist.com"
    classes = ("normal", "pneumonia")
    recipe = Recipe.of("lenet", Training(epochs=20, batch_size=64, lr=1e-3), 30)

    def read(self, options: SampledOptions, root: Path) -> Rows:
        """Read the images and labels of the three parts."""
        del options
        path = self.file(root)
        pairs = [(f"{part}_images", f"{part}_labels") for part in ("train", "val", "test")]
        *train, test = read_parts(path, (28, 28), len(self.classes), pairs)
        return Rows.of_images(train, test, path)
