"""The confusional autoencoder: a code of the classes that names other classes, and a decoder that undoes it."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from tune_vfl.errors import SpecError
from tune_vfl.models.optimizers import Adam
from tune_vfl.seeds import Stream, Streams

LARGEST = 20
"""Most classes that one autoencoder codes; its hidden layers have (6 K + 2)^2 units."""
SPREAD = 0.01
"""Standard deviation of the starting weights; biases start at 0."""
TEMPERATURE = 0.025
"""Sharpens the made-up labels: softmax of K uniform numbers over it."""
LEARNING_RATE = 5e-4
BATCH = 128
RECOVERY = 10.0
"""Weight of the decoding error, where naming other classes has weight 1."""
LOST = -math.log(1e-6)
"""A code's cross-entropy with its own class is rewarded up to this value; without a limit the loss has no minimum."""
SETTLED = 0.03
"""Training ends after an epoch that improves the loss by less than this share of it."""
ATTEMPTS = 10
ROWS_AT_ONCE = 1024


class Net(NamedTuple):
    """Linear, ReLU, linear, softmax. A batch's rows are columns here: that makes products of 10 by 3,844 much faster.

    Attributes:
        first, first_bias: ``(H, K)`` and ``(H, 1)``.
        second, second_bias: ``(K, H)`` and ``(K, 1)``.
    """

    first: Tensor
    first_bias: Tensor
    second: Tensor
    second_bias: Tensor

    def log_probabilities(self, columns: Tensor) -> Tensor:
        """Map ``(K, B)`` to the logarithms of the output, ``(K, B)``."""
        hidden = torch.addmm(self.first_bias, self.first, columns).relu_()
        return torch.addmm(self.second_bias, self.second, hidden).log_softmax(0)


class CodecRecipe(NamedTuple):
    """Hyperparameters of an autoencoder's training.

    Attributes:
        confusion: weight of the code's entropy.
        entropy: whether that entropy is a sum over the classes or their mean, K times weaker.
        samples: made-up labels.
        epochs: passes over them, at most.
    """

    confusion: float
    entropy: Literal["sum", "mean"]
    samples: int
    epochs: int


class Codec(NamedTuple):
    """A trained autoencoder.

    Attributes:
        codes: ``(K, K)``: the code of each class, a distribution over the classes whose largest entry is another class.
        decoder: in float64, so that sure decodings do not all round to 1.
    """

    codes: Tensor
    decoder: Net

    def decode(self, probabilities: Tensor) -> Tensor:
        """Map ``(B, K)`` probabilities to float64 class scores ``(B, K)``, rows summing to 1."""
        net = Net(*(w.to(probabilities.device) for w in self.decoder))
        columns, rows = probabilities.double().mT, range(0, len(probabilities), ROWS_AT_ONCE)
        return torch.cat([net.log_probabilities(columns[:, r : r + ROWS_AT_ONCE]).exp().mT for r in rows])


def _net(classes: int, stream: Stream) -> Net:
    hidden = (6 * classes + 2) ** 2
    first, second = SPREAD * stream.normal(hidden, classes), SPREAD * stream.normal(classes, hidden)
    return Net(*(w.requires_grad_() for w in (first, torch.zeros(hidden, 1), second, torch.zeros(classes, 1))))


def made_up_labels(samples: int, classes: int, stream: Stream) -> Tensor:
    """Return ``(K, samples)`` nearly hard labels, every class as often as any other."""
    return (stream.uniform(samples, classes) / TEMPERATURE).softmax(-1).mT.contiguous()


def codec_loss(encoder: Net, decoder: Net, labels: Tensor, recipe: CodecRecipe) -> Tensor:
    """Return the training loss: ten times the decoding error, less the code's error and its weighted entropy.

    Args:
        encoder: labels to codes.
        decoder: codes to labels.
        labels: ``(K, B)``.
        recipe: with the entropy's weight.
    """
    log_code = encoder.log_probabilities(labels)
    code = log_code.exp()
    wrong = -(labels * decoder.log_probabilities(code)).sum(0)
    confused = -(labels * log_code).sum(0)
    terms = -(code * log_code)
    entropy = terms.sum(0) if recipe.entropy == "sum" else terms.mean(0)
    return (RECOVERY * wrong - confused.clamp_max(LOST) - recipe.confusion * entropy).mean()


def _train(encoder: Net, decoder: Net, labels: Tensor, recipe: CodecRecipe, order: Stream) -> None:
    optimizer = Adam([*encoder, *decoder], lr=LEARNING_RATE, fused=True)
    before = math.inf
    for _ in range(recipe.epochs):
        total, shuffled = torch.zeros(()), labels[:, order.permutation(recipe.samples)]
        for start in range(0, recipe.samples, BATCH):
            batch = shuffled[:, start : start + BATCH]
            loss = codec_loss(encoder, decoder, batch, recipe)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()
            total += loss.detach() * batch.shape[1]
        mean = float(total) / recipe.samples
        # While the loss is above 0 the training is still on the plateau where small starting weights begin.
        if mean < 0 and before - mean < SETTLED * abs(mean):
            return
        before = mean


def confuses(codes: Tensor, decoded: Tensor) -> bool:
    """Whether every code names another class and is decoded to its own; both ``(K, K)``, a row a class."""
    own = torch.arange(len(codes))
    return bool((codes.argmax(-1) != own).all() and (decoded.argmax(-1) == own).all())


@torch.enable_grad()
def _attempt(classes: int, recipe: CodecRecipe, streams: Streams) -> Codec:
    encoder, decoder = _net(classes, streams["encoder"]), _net(classes, streams["decoder"])
    labels = made_up_labels(recipe.samples, classes, streams["labels"])
    _train(encoder, decoder, labels, recipe, streams["order"])
    with torch.no_grad():
        codes = encoder.log_probabilities(torch.eye(classes)).exp().mT.contiguous()
    return Codec(codes, Net(*(w.detach().double() for w in decoder)))


@lru_cache(maxsize=128)
def find_codec(classes: int, recipe: CodecRecipe, seed: int) -> Codec:
    """Return the autoencoder of a recipe and a seed; trained once per process, then cached.

    It is trained again from other draws while some class is decoded wrongly or coded as itself.

    Args:
        classes: K, from 2 to :data:`LARGEST`.
        recipe: how it is trained.
        seed: of its weights, made-up labels and order.

    Raises:
        SpecError: when no attempt gave a code that can be used.
    """
    for attempt in range(ATTEMPTS):
        codec = _attempt(classes, recipe, Streams(seed, prefix=f"codec/{attempt}/"))
        if confuses(codec.codes, codec.decode(codec.codes)):
            return codec
    raise SpecError(
        f"expected an autoencoder that codes {classes} classes as other ones and decodes all of them, got none in "
        f"{ATTEMPTS} attempts with confusion={recipe.confusion:g}, samples={recipe.samples}, epochs={recipe.epochs}; "
        "lower confusion, or raise samples or epochs"
    )
