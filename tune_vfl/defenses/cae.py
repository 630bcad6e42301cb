"""Confusional autoencoder: training labels replaced by codes that name other classes, and predictions decoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.defenses.parts.codec import LARGEST, Codec, CodecRecipe, find_codec
from tune_vfl.protocol.losses import class_probabilities
from tune_vfl.spec import Strict


class CaeParams(Strict):
    """Parameters of :class:`Cae`."""

    confusion: float = Field(
        1.0, ge=0, allow_inf_nan=False, description="weight of the code's entropy: more blurs each code over classes"
    )
    entropy: Literal["sum", "mean"] = Field(
        "sum", description="the entropy's sum over classes, or their mean as in released code (K times weaker)"
    )
    samples: int = Field(30_000, ge=128, description="made-up labels that the autoencoder is trained on")
    epochs: int = Field(20, ge=1, description="most passes over them; training ends when the loss has settled")


def blocks(num_classes: int) -> list[int]:
    """Return the sizes of the blocks of neighboring classes that are coded together, as equal as can be."""
    count = -(-num_classes // LARGEST)
    return [len(range(start, num_classes, count)) for start in range(count)]


class BlockCode:
    """The code of all classes: an autoencoder for each block of them.

    Attributes:
        codes: ``(K, K)``, a class's code in its row.
    """

    def __init__(self, codecs: Sequence[Codec]) -> None:
        self._codecs = codecs
        self._sizes = [len(c.codes) for c in codecs]
        self.codes = torch.zeros(sum(self._sizes), sum(self._sizes))
        start = 0
        for codec, size in zip(codecs, self._sizes, strict=True):
            self.codes[start : start + size, start : start + size] = codec.codes
            start += size

    def decode(self, probabilities: Tensor) -> Tensor:
        """Distribute each block's probability by its decoder: ``(B, K)`` to float64 ``(B, K)``."""
        parts = []
        blocks_of = probabilities.double().split_with_sizes(self._sizes, dim=-1)
        for codec, part in zip(self._codecs, blocks_of, strict=True):
            share = part.sum(-1, keepdim=True)
            parts.append(share * codec.decode(part / share.clamp_min(1e-300)))
        return torch.cat(parts, dim=-1)


@defense("cae")
class Cae(Defense[CaeParams]):
    """Trains on each class's code in place of the class, and decodes predictions.

    An autoencoder is trained once on made-up labels: its code of a class is a distribution over the classes that names
    other ones, blurred by ``confusion``, and its decoder finds the class again. Codes are per class, not per row, so an
    attacker with a few labeled rows of its own learns the code. More than 20 classes are coded in blocks. Source: Zou
    et al. 2022; nearest to its released code, without the second softmax there.
    """

    summary = "labels replaced by an autoencoder's codes, predictions decoded"
    reference = (
        "Zou et al. 2022, Defending Batch-Level Label Inference and Replacement Attacks in Vertical Federated Learning"
    )
    paper_attacks = ("bli",)
    Params = CaeParams
    capabilities = DefenseCapabilities(stackable=True, protects=("labels",), random=("labels",), head="classes")
    quick = {"samples": 2000}  # noqa: RUF012 - read only, as its declaration in the base says

    def setup(
        self, y: Tensor, ids: Tensor, *, active_features: Tensor | None = None, seed: int | Sequence[int] = 0
    ) -> None:
        """H0: train the autoencoders, or load them from the cache."""
        super().setup(y, ids, active_features=active_features, seed=seed)
        seeds = [seed] * len(self.members) if isinstance(seed, int) else list(seed)
        sizes = blocks(self.num_classes)
        # One by one, not stacked: the last bits of a product depend on what is beside it, and a code must not.
        self._codes = [
            BlockCode([find_codec(size, recipe, s) for size in sizes])
            for recipe, s in zip(self._recipes(), seeds, strict=True)
        ]
        tables = torch.stack([code.codes for code in self._codes]).to(self._device)
        self._tables = tables if self.stacked else tables[0]

    def _recipes(self) -> list[CodecRecipe]:
        return [CodecRecipe(p.confusion, p.entropy, p.samples, p.epochs) for p in self.members]

    def labels(self, y: Tensor, ids: Tensor) -> Tensor:
        """H1: return the codes ``(*trials, B, K)`` of these rows' classes."""
        rows = y.unsqueeze(-1).expand(*y.shape, self.num_classes)
        return self._tables.gather(-2, rows)

    def decode(self, logits: Tensor) -> Tensor:
        """H10: return the decoder's class scores ``(*trials, B, K)``, float64."""
        probabilities = class_probabilities(logits)
        members = probabilities if self.stacked else probabilities.unsqueeze(0)
        decoded = [code.decode(p) for code, p in zip(self._codes, members, strict=True)]
        return torch.stack(decoded) if self.stacked else decoded[0]

    def logged(self) -> dict[str, Sequence[float]]:
        """Return ``code_entropy``: the mean entropy of the classes' codes, in nats."""
        tables = [code.codes.double() for code in self._codes]
        return {"code_entropy": [float(torch.special.entr(t).sum(-1).mean()) for t in tables]}

    def notes(self, member: int = 0) -> list[str]:
        """Return a note where the gradient shows which class a code leaves out."""
        if self.mode != "nosplit" or self.num_classes == 2:
            return []
        note = (
            "cae: a code leaves its own class out, so without a top model the largest entry of a row's first gradient "
            "names the true class; of the direct attack's rules only argmax sees that"
        )
        return [note]
