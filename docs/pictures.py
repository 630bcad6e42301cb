"""Draw the pictures of leakage.md from trainings that it runs: python -m docs.pictures.

Bundled data, some seconds. The pictures are kept beside the page, so that the site is built without a training.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from tune_vfl import evaluate
from tune_vfl.defenses import Laplace
from tune_vfl.evaluation.own_loop import OwnLoop
from tune_vfl.evaluation.resolving import open_task
from tune_vfl.metrics import leak_auc
from tune_vfl.spec import parse

HERE = Path(__file__).parent
CLASSES, LEAK = ("#1b6ca8", "#d1495b"), "#d1495b"
SEEDS = 6
SCALE = 0.003
ATTACKED = {
    "defense": "laplace",
    "params": {"scale": 0.001},
    "attacks": ["pmc", "gradient_completion", "matched_filter"],
}


def received(scale: float) -> tuple[Tensor, Tensor]:
    """Train once on breast_cancer, and return what the passive party received in the second epoch, and the labels."""
    spec = parse({"study": "pictures", "dataset": {"name": "breast_cancer"}, "defense": "laplace", "attacks": ["norm"]})
    defense = Laplace(Laplace.Params(scale=scale), num_classes=2, embedding_dims=[8])
    run = OwnLoop(open_task(spec), defense, seed=0)
    y = run.split.y_train
    defense.setup(y, torch.arange(len(y)), seed=0)
    bottom, own, top = run.bottoms[0], run.own_bottom, run.top
    optimizer, _ = run.optimizer(torch.nn.ModuleList([bottom, own, top]).parameters())
    last = torch.zeros(len(y), 0)
    for _epoch in range(2):
        rows = []
        for batch in run.rows.batches(32):
            sent = bottom(batch.passive[0])
            arrived = sent.detach().requires_grad_()
            defense.loss(top(run.join([arrived, own(batch.own)])), batch.y, [arrived]).backward()
            leaves = defense.cut_gradient(arrived.grad, y=batch.y) if scale else arrived.grad
            sent.backward(leaves)
            optimizer.step()
            optimizer.zero_grad()
            rows.append((batch.ids, leaves))
        ids = torch.cat([i for i, _ in rows])
        last = torch.cat([g for _, g in rows])[ids.argsort()]
    return last, y


def drawn(name: str, panels: int, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure of some panels side by side."""
    figure = Figure(figsize=(8, height), layout="constrained")
    figure.suptitle(name, fontsize=11)
    axes = figure.subplots(1, panels, squeeze=False)[0]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, list(axes)


def gradients() -> Figure:
    """Draw the gradients of both classes, without a defense and under noise, along their two largest directions."""
    figure, axes = drawn("What the passive party receives: a gradient for each row", 2, 3.2)
    for ax, scale, title in zip(axes, (0.0, SCALE), ("no defense", "Laplace noise"), strict=True):
        rows, y = received(scale)
        points = rows @ torch.linalg.svd(rows - rows.mean(0), full_matrices=False).Vh[:2].T
        for label, color in enumerate(CLASSES):
            ax.plot(*points[y == label].T.tolist(), ".", color=color, alpha=0.6, label=f"class {label}")
        ax.set_title(
            f"{title}: the first direction's leak AUC is {leak_auc(points[:, 0].numpy(), y.numpy()):.2f}", fontsize=9
        )
        ax.set_xticks([])
        ax.set_yticks([])
    axes[0].legend(frameon=False)
    return figure


def advantages(found: dict[str, Any]) -> Figure:
    """Draw each attack's success beside the floor that all of them have, on the way from a guess to certainty."""
    figure, (ax,) = drawn("From a success to an advantage: the share of the way from the floor to certainty", 1, 2.4)
    for place, name in enumerate(found["attacks"]):
        score = found["attacks"][name]
        floor, success = score["floor"], score["mean"]
        ax.barh(place, 1 - floor, left=floor, color="#dddddd", height=0.5)
        ax.barh(place, max(success - floor, 0), left=floor, color=LEAK, height=0.5)
        ax.plot([success], [place], "|", color="black", markersize=18)
        ax.text(1.005, place, f"{score['advantage']:.2f}", va="center")
    ax.axvline(floor, color="gray")
    ax.text(floor - 0.003, place, f"floor {floor:.2f}: {score['floor_by']}", ha="right", va="center", fontsize=9)
    ax.set_yticks(range(len(found["attacks"])), list(found["attacks"]))
    ax.set_xlim(0.6, 1.02)
    ax.set_xlabel("success: share of the rows whose label is found; the stroke")
    return figure


def seeds(found: dict[str, Any]) -> Figure:
    """Draw the advantage of each attack in each seed, and the leakage with its interval."""
    figure, (ax,) = drawn("From several attacks and seeds to one leakage", 1, 2.6)
    low, high = found["leakage_interval"]
    ax.axvspan(low, high, color=LEAK, alpha=0.15, label=f"90% interval, {low:.2f} to {high:.2f}")
    ax.axvline(found["leakage"], color=LEAK, label=f"leakage {found['leakage']:.2f}: the worst attack's mean")
    for place, name in enumerate(found["attacks"]):
        score = found["attacks"][name]
        single = score["advantages"]
        ax.plot(single, [place] * len(single), "o", color="#1b6ca8", alpha=0.5)
        ax.plot([score["advantage"]], [place], "|", color="black", markersize=18)
    ax.set_yticks(range(len(found["attacks"])), list(found["attacks"]))
    ax.set_xticks([-0.5, 0, 0.5, 1])
    ax.set_ylim(-0.6, len(found["attacks"]) - 0.4)
    ax.set_xlabel("advantage in each seed; the stroke is the mean")
    ax.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def main(folder: Path = HERE) -> None:
    """Write the three pictures, beside their page."""
    mpl.rcParams["svg.hashsalt"] = "tune-vfl"
    found = evaluate("digits", seeds=SEEDS, **ATTACKED)
    pictures = {"gradients": gradients(), "advantages": advantages(found), "seeds": seeds(found)}
    for name, figure in pictures.items():
        figure.savefig(folder / f"leakage-{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
