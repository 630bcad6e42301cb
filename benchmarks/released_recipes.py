"""GAFM's recipe on Spambase, written once more from its description in plain torch, beside this library's.

Run: python -m benchmarks.released_recipes [--seeds 10] [--parties 1 3] (with TUNE_VFL_DATA holding spambase)

Both train on the same rows of each seed, and share nothing else: weights, noise, batches and responses are drawn by
each for itself. Of the recipe: nets of one hidden layer of 16 with LeakyReLU, sigmoids at the end of each party and of
the generator, weights of the critic within .1, Adam 1e-4, batches of 1,028, 300 epochs; sigma .01, delta .05, gamma 1.
Several parties send the mean of their outputs, and each gets the gradient at that mean divided by their number. Leaks
are AUCs of hard guesses of the last epoch, turned round where they are below one half; centers are those of a batch.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from scipy.stats import ttest_ind
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from tune_vfl.data.loading import load
from tune_vfl.data.split import split
from tune_vfl.evaluation import evaluate
from tune_vfl.spec import Named

HIDDEN, EPOCHS, BATCH, RATE = 16, 300, 1028, 1e-4
SIGMA, DELTA, GAMMA, BOUND = 0.01, 0.05, 1.0, 0.1
COLUMNS = ("utility", "norm", "mean", "median")


def net(width: int, *, end: nn.Module) -> nn.Sequential:
    """Return a net of one hidden layer and one output."""
    return nn.Sequential(nn.Linear(width, HIDDEN), nn.LeakyReLU(), nn.Linear(HIDDEN, 1), end)


def unit(x: Tensor) -> Tensor:
    """Return a batch's gradient at length 1, nothing where it is nothing."""
    length = x.norm()
    return x / length if length > 1e-12 else torch.zeros_like(x)


@dataclass(eq=False)
class Twin:
    """The label party and its passive parties; outputs of these are ``(B, 1)`` between 0 and 1."""

    widths: Sequence[int]
    defended: bool
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

    def step(self, columns: Sequence[Tensor], y: Tensor) -> Tensor:
        """Train on a batch; return the gradient ``(B,)`` that each party receives."""
        together = self.sent(columns)
        at = together.detach().requires_grad_()
        received = (self._gafm(at, y) if self.defended else self._undefended(at, y)) / len(self.parties)
        self.of_parties.zero_grad()
        together.backward(received * len(self.parties))  # the mean passes each party its share
        self.of_parties.step()
        return received.squeeze(-1)

    def _undefended(self, at: Tensor, y: Tensor) -> Tensor:
        loss = F.binary_cross_entropy(self.generator(at).squeeze(-1), y)
        return self._taught(loss, at)

    def _gafm(self, at: Tensor, y: Tensor) -> Tensor:
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
        return GAMMA * unit(from_critic) + unit(towards)

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


def trained(columns: Sequence[Tensor], y: Tensor, *, defended: bool) -> Twin:
    """Train a twin for all epochs but the last."""
    twin = Twin([x.shape[1] for x in columns], defended)
    for _ in range(EPOCHS - 1):
        for rows in torch.randperm(len(y)).split(BATCH):
            twin.step([x[rows] for x in columns], y[rows])
    return twin


def by_twin(seed: int, parties: int, *, defended: bool, signed: bool) -> list[float]:
    """Return utility and the leaks by the norm, mean and median attack of one seed.

    Args:
        seed: of the rows and of all draws.
        parties: passive ones.
        defended: under GAFM, else trained by the cross-entropy.
        signed: the median attack guesses by the sign, as the released code of three parties does.
    """
    dataset = load(Named.model_validate({"name": "spambase", "passive_parties": parties}))
    rows = split(dataset, seed)
    torch.manual_seed(seed)
    columns, test = list(rows.passive_train), list(rows.passive_test)
    y, y_test = rows.y_train.float(), rows.y_test
    twin = trained(columns, y, defended=defended)
    order = torch.randperm(len(y)).split(BATCH)
    batches = [(twin.step([x[at] for x in columns], y[at]), y[at]) for at in order]
    g, truth = (torch.cat(part) for part in zip(*batches, strict=True))
    means = torch.cat([nearer_to_positives(of, labels) for of, labels in batches])
    medians = torch.cat([(of > (0 if signed else of.median())).float() for of, _ in batches])
    with torch.no_grad():
        told = twin.generator(twin.sent(test)).squeeze(-1)
    # The game leaves open which end of the predictions is positive; a cross-entropy does not.
    utility = auc(y_test, told) if defended else float(roc_auc_score(y_test, told))
    return [utility, auc(truth, g.abs()), auc(truth, means), auc(truth, medians)]


def by_library(seeds: int, parties: int, *, defended: bool, signed: bool) -> list[list[float]]:
    """Return the same of this library, ``(seeds, 4)``."""
    median = {"name": "median", "rule": "sign"} if signed else {"name": "median", "rule": "pooled"}
    last = {"moments": ["last"], "average": 0}
    answer = evaluate(
        {"name": "spambase", "passive_parties": parties},
        defense="gafm" if defended else "none",
        params={"sigma": SIGMA, "delta": DELTA, "gamma": GAMMA} if defended else {},
        attacks=[
            {"name": "norm", **last},
            {"name": "mean", "centers": "batch", "space": "sum", "held_out": False, **last},
            {**median, **last},
        ],
        seeds=seeds,
        settings=["model.aggregation=mean"] if parties > 1 else [],
    )
    leaks = [answer["attacks"][name]["values"] for name in COLUMNS[1:]]
    return [list(row) for row in zip(answer["utility"]["values"], *leaks, strict=True)]


def main() -> None:
    """Print both sides' means and deviations, and how likely a difference as large is among equals (Welch)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--parties", type=int, nargs="+", default=[1, 3], help="passive ones")
    given = parser.parse_args()
    print("| passive parties, defense | column | twin | library | difference in standard errors | p |")
    print("|---|---|---|---|---|---|")
    for parties in given.parties:
        for defended in (False, True):
            options = {"defended": defended, "signed": parties > 1}
            twin = np.array([by_twin(seed, parties, **options) for seed in range(given.seeds)])
            ours = np.array(by_library(given.seeds, parties, **options))
            for column, a, b in zip(COLUMNS, twin.T, ours.T, strict=True):
                error = np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / given.seeds)
                apart, p = abs(a.mean() - b.mean()) / max(error, 1e-9), ttest_ind(a, b, equal_var=False).pvalue
                print(
                    f"| {parties}, {'gafm' if defended else 'none'} | {column} | {a.mean():.3f} ± {a.std(ddof=1):.3f} "
                    f"| {b.mean():.3f} ± {b.std(ddof=1):.3f} | {apart:.1f} | {p:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
