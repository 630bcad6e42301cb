"""GAFM's recipe on Spambase, written once more from its description in plain torch, beside this library's.

Both train on the same rows of each seed, and share nothing else: weights, noise, batches and responses are drawn by
each for itself. Of the recipe: nets of one hidden layer of 16 with LeakyReLU, sigmoids at the end of each party and of
the generator, weights of the critic within .1, Adam 1e-4, batches of 1,028, 300 epochs; sigma .01, delta .05, gamma 1.
Several parties send the mean of their outputs, and each gets the gradient at that mean divided by their number. Leaks
are AUCs of hard guesses of the last epoch, turned round where they are below one half; centers are those of a batch.
Under Max-Norm they are also read off the gradients before the noise, which nobody sends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from tune_vfl.data.loading import load
from tune_vfl.data.split import split
from tune_vfl.evaluation import evaluate
from tune_vfl.spec import Named

HIDDEN, EPOCHS, BATCH, RATE = 16, 300, 1028, 1e-4
SIGMA, DELTA, GAMMA, BOUND = 0.01, 0.05, 1.0, 0.1
COLUMNS = ("utility", "norm", "mean", "median")
Defense = Literal["none", "gafm", "responses", "max_norm"]
"""``responses``: GAFM at a weight of 0 for the critic, which then is not trained either."""


def net(width: int, *, end: nn.Module) -> nn.Sequential:
    """Return a net of one hidden layer and one output."""
    return nn.Sequential(nn.Linear(width, HIDDEN), nn.LeakyReLU(), nn.Linear(HIDDEN, 1), end)


def unit(x: Tensor) -> Tensor:
    """Return a batch's gradient at length 1, nothing where it is nothing."""
    length = x.norm()
    return x / length if length > 1e-12 else torch.zeros_like(x)


def stretched(x: Tensor) -> Tensor:
    """Return Max-Norm's gradient of one column: along itself, by noise that gives each row the largest one's length."""
    return x * (1 + torch.randn_like(x) * (x.abs().max().square() / x.square().clamp_min(1e-32) - 1).sqrt())


@dataclass(eq=False)
class Twin:
    """The label party and its passive parties; outputs of these are ``(B, 1)`` between 0 and 1."""

    widths: Sequence[int]
    defense: Defense
    parties: list[nn.Sequential] = field(init=False)

    def __post_init__(self) -> None:
        self.parties = [net(width, end=nn.Sigmoid()) for width in self.widths]
        self.generator, self.critic = net(1, end=nn.Sigmoid()), net(1, end=nn.LeakyReLU())
        self.of_parties, self.of_generator, self.of_critic = (
            torch.optim.Adam(parameters, RATE)
            for parameters in (
                [p for party in self.parties for p in party.parameters()],
                self.generator.parameters(),
                self.critic.parameters(),
            )
        )

    def sent(self, columns: Sequence[Tensor]) -> Tensor:
        """Return the mean of the parties' outputs."""
        return torch.stack([party(x) for party, x in zip(self.parties, columns, strict=True)]).mean(0)

    def step(self, columns: Sequence[Tensor], y: Tensor) -> tuple[Tensor, Tensor]:
        """Train on a batch; return the gradient ``(B,)`` that each party receives, and what it was without noise."""
        together = self.sent(columns)
        at = together.detach().requires_grad_()
        game = self.defense in ("gafm", "responses")
        clean = (self._gafm(at, y) if game else self._undefended(at, y)) / len(self.parties)
        received = stretched(clean) if self.defense == "max_norm" else clean
        self.of_parties.zero_grad()
        together.backward(received * len(self.parties))  # the mean passes each party its share
        self.of_parties.step()
        return received.squeeze(-1), clean.squeeze(-1)

    def _undefended(self, at: Tensor, y: Tensor) -> Tensor:
        loss = F.binary_cross_entropy(self.generator(at).squeeze(-1), y)
        return self._taught(loss, at)

    def _gafm(self, at: Tensor, y: Tensor) -> Tensor:
        if self.defense == "gafm":
            noisy = (y + SIGMA * torch.randn_like(y)).unsqueeze(-1)
            self.of_critic.zero_grad()
            (self.critic(self.generator(at).detach()).mean() - self.critic(noisy).mean()).backward()
            self.of_critic.step()
        with torch.no_grad():
            for weights in self.critic.parameters():
                weights.clamp_(-BOUND, BOUND)
        from_critic = self._taught(-self.critic(self.generator(at)).mean(), at)
        response = 0.5 + DELTA * torch.rand_like(y) * (2 * y - 1)
        s = at.detach().squeeze(-1).clamp(1e-7, 1 - 1e-7)
        towards = ((s - response) / (s * (1 - s))).unsqueeze(-1)
        return unit(towards) + (GAMMA * unit(from_critic) if self.defense == "gafm" else 0)

    def _taught(self, loss: Tensor, at: Tensor) -> Tensor:
        """Take a step of the generator; return the loss's gradient at what the parties sent."""
        weights = list(self.generator.parameters())
        of_sent, *of_weights = torch.autograd.grad(loss, [at, *weights])
        for weight, gradient in zip(weights, of_weights, strict=True):
            weight.grad = gradient
        self.of_generator.step()
        return of_sent


def auc(y: Tensor, scores: Tensor) -> float:
    """Return an AUC, turned round below one half."""
    found = float(roc_auc_score(y, scores))
    return max(found, 1 - found)


def nearer_to_positives(g: Tensor, y: Tensor) -> Tensor:
    """Return hard guesses by the nearer of both classes' means in a batch."""
    return ((g - g[y == 1].mean()).abs() < (g - g[y == 0].mean()).abs()).float()


def leaks(batches: Sequence[tuple[Tensor, Tensor]], *, signed: bool) -> list[float]:
    """Return what the norm, mean and median attack find in an epoch's gradients, with their labels."""
    g, truth = (torch.cat(part) for part in zip(*batches, strict=True))
    means = torch.cat([nearer_to_positives(of, labels) for of, labels in batches])
    medians = torch.cat([(of > (0 if signed else of.median())).float() for of, _ in batches])
    return [auc(truth, g.abs()), auc(truth, means), auc(truth, medians)]


def by_twin(seed: int, parties: int, defense: Defense) -> list[float]:
    """Return utility and the leaks by the norm, mean and median attack of one seed; then these before any noise.

    With three parties the median attack guesses by the sign, as the released code does there.
    """
    dataset = load(Named.model_validate({"name": "spambase", "passive_parties": parties}))
    rows = split(dataset, seed)
    torch.manual_seed(seed)
    columns, test = list(rows.passive_train), list(rows.passive_test)
    y, y_test = rows.y_train.float(), rows.y_test
    twin = Twin([x.shape[1] for x in columns], defense)
    received: list[tuple[Tensor, Tensor]] = []
    clean: list[tuple[Tensor, Tensor]] = []
    for epoch in range(EPOCHS):
        for at in torch.randperm(len(y)).split(BATCH):
            sent, before = twin.step([x[at] for x in columns], y[at])
            if epoch == EPOCHS - 1:
                received.append((sent, y[at]))
                clean.append((before, y[at]))
    with torch.no_grad():
        told = twin.generator(twin.sent(test)).squeeze(-1)
    # The game leaves open which end of the predictions is positive; a cross-entropy does not.
    turned = defense in ("gafm", "responses")
    utility = auc(y_test, told) if turned else float(roc_auc_score(y_test, told))
    return [utility, *leaks(received, signed=parties > 1), *leaks(clean, signed=parties > 1)]


def by_library(seeds: int, parties: int, defense: Defense) -> list[list[float]]:
    """Return utility and the three leaks of this library, ``(seeds, 4)``."""
    last = {"moments": ["last"], "average": 0}
    params = {"sigma": SIGMA, "delta": DELTA, "gamma": GAMMA if defense == "gafm" else 0}
    answer = evaluate(
        {"name": "spambase", "passive_parties": parties},
        defense="gafm" if defense == "responses" else defense,
        params=params if defense in ("gafm", "responses") else {},
        attacks=[
            {"name": "norm", **last},
            {"name": "mean", "centers": "batch", "space": "sum", "held_out": False, **last},
            {"name": "median", "rule": "sign" if parties > 1 else "pooled", **last},
        ],
        seeds=seeds,
        settings=["model.aggregation=mean"] if parties > 1 else [],
    )
    found = [answer["attacks"][name]["values"] for name in COLUMNS[1:]]
    return [list(row) for row in zip(answer["utility"]["values"], *found, strict=True)]


def cases(seeds: int) -> Iterator[tuple[str, Sequence[str], list[list[float]], list[list[float]]]]:
    """Yield what was compared: its name, columns, and both sides' numbers by seed."""
    for parties in (1, 3):
        for defense in get_args(Defense):
            twin = [by_twin(seed, parties, defense) for seed in range(seeds)]
            name = f"GAFM, {parties} passive, {defense}"
            yield name, COLUMNS, [row[:4] for row in twin], by_library(seeds, parties, defense)
            if defense == "max_norm":
                yield f"{name}, before the noise", COLUMNS[1:], [row[4:] for row in twin], []
