"""Gradient inversion of single MNIST images on undefended nets: how near it comes, its pictures, and what it costs.

Run: python -m benchmarks.inversion --picture inversion.png (with TUNE_VFL_DATA holding mnist)
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tune_vfl.attacks.parts.lbfgs import minimize
from tune_vfl.attacks.parts.single_steps import SingleStep, as_trained
from tune_vfl.attacks.wgi import Wgi, WgiParams
from tune_vfl.data.loading import load
from tune_vfl.machine.runtime import prepare_process
from tune_vfl.models.lenet import Lenet, LenetOptions
from tune_vfl.protocol.uploaded import KnownClient, Uploads
from tune_vfl.protocol.view import View
from tune_vfl.seeds import Stream, Streams, numpy_rng
from tune_vfl.spec import Named

CLASSES, SHAPE = 10, (1, 28, 28)
NEAR = 1e-3
"""The mean squared error that counts as found."""


def dlg_lenet(seed: int) -> nn.Module:
    """Return the LeNet of Zhu et al.: 12 channels, strides 2, 2 and 1, sigmoids, weights from U(-0.5, 0.5)."""
    layers: list[nn.Module] = []
    for channels, stride in ((1, 2), (12, 2), (12, 1)):
        layers += [nn.Conv2d(channels, 12, 5, stride, 2), nn.Sigmoid()]
    net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(588, CLASSES))
    stream = Stream(seed, "weights")
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(stream.uniform(*p.shape) - 0.5)
    return net


def relu_lenet(seed: int) -> nn.Module:
    """Return this project's LeNet, bottom and top: ReLU and max pooling, starting weights as they are drawn."""
    model = Lenet(LenetOptions())
    return nn.Sequential(model.bottom(SHAPE, 64, Stream(seed, "bottom")), model.top(64, CLASSES, Stream(seed, "top")))


def images(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draw MNIST images ``(count, 1, 28, 28)`` and their labels."""
    data = load(Named.model_validate({"name": "mnist", "split": 1.0}))
    at = torch.from_numpy(numpy_rng(seed, "targets").permutation(len(data.y))[:count])
    return data.passive[0].x[at], data.y[at]


def uploads(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Return the gradients ``(M, n)`` of single images, by plain backward passes."""
    found = []
    for row, label in zip(x, y, strict=True):
        loss = F.cross_entropy(net(row.unsqueeze(0)), label.unsqueeze(0))
        found.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(net.parameters()))]))
    return torch.stack(found)


def attacked(net: nn.Module, x: Tensor, y: Tensor, **params: Any) -> dict[str, tuple[Tensor, Tensor]]:
    """Return by method the images ``(M, 1, 28, 28)`` and labels that ``wgi`` finds, knowing the net."""
    seen = Uploads(torch.arange(len(x)), 1, {"first": uploads(net, x, y)}, SHAPE)
    known = KnownClient(lambda _at, _name: nn.Sequential(copy.deepcopy(net)), 0)
    held = {"client_gradients": seen, "client_model": known}
    attack = Wgi(WgiParams(rows=len(x), moments=("first",), **params))
    found = attack.run(View("wgi", (), CLASSES, Streams(0), held))
    return {name.removesuffix("_first"): (a.rows, a.labels) for name, a in found.items() if a.labels is not None}


def table(title: str, x: Tensor, y: Tensor, found: dict[str, tuple[Tensor, Tensor]], seconds: float) -> None:
    """Print each method's errors."""
    for method, (rows, labels) in found.items():
        errors = (rows - x).square().flatten(1).mean(-1)
        near, right = int((errors < NEAR).sum()), int((labels == y).sum())
        worst = " ".join(f"{e:.1e}" for e in errors.sort().values.tolist())
        print(f"| {title}, {method} | {errors.median():.1e} | {near} of {len(x)} | {right} | {seconds:.0f} | {worst} |")


def picture(path: str, rows: dict[str, Tensor]) -> None:
    """Draw images ``(M, 1, 28, 28)`` in lines, each under its name."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    many = len(next(iter(rows.values())))
    figure, axes = plt.subplots(len(rows), many, figsize=(many * 0.9, len(rows) * 1.1), squeeze=False)
    for line, (name, of) in zip(axes, rows.items(), strict=True):
        for place, image in zip(line, of, strict=True):
            place.imshow(image.squeeze().numpy(), cmap="gray", vmin=0, vmax=1)
            place.axis("off")
        line[0].set_title(name, loc="left", fontsize=8)
    figure.savefig(path, dpi=150, bbox_inches="tight")


def speeds(net: nn.Module, x: Tensor, y: Tensor, iterations: int) -> None:
    """Print CPU seconds of the same search for all targets at once, and target by target with torch's L-BFGS."""
    goal, step = uploads(net, x, y), SingleStep(as_trained(copy.deepcopy(net)))
    labels = F.one_hot(y, CLASSES).float()
    start = Stream(0, "starts").uniform(len(x), 784)
    square = goal.square().sum(-1)

    def apart(v: Tensor, g: Tensor, s: Tensor, label: Tensor) -> Tensor:
        return (step.gradient(v.view(1, *SHAPE), label.unsqueeze(0)) - g).square().sum() / s

    value = torch.func.vmap(torch.func.grad_and_value(apart))

    def objective(v: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        slope, found = value(v, goal[which], square[which], labels[which])
        return found.detach(), slope.detach()

    def one_by_one(line_search: str | None) -> Tensor:
        return torch.stack([_torch_lbfgs(net, *of, iterations, line_search) for of in zip(start, goal, y, strict=True)])

    ways: dict[str, Callable[[], Tensor]] = {
        "all at once": lambda: minimize(objective, start, iterations=iterations, enough=1e-11)[0],
        "torch, strong Wolfe": partial(one_by_one, "strong_wolfe"),
        "torch, no line search": partial(one_by_one, None),
    }
    for name, way in ways.items():
        begin = time.process_time()
        errors = (way().clamp(0, 1) - x.flatten(1)).square().mean(-1)
        print(f"| {name} | {time.process_time() - begin:.1f} | {int((errors < NEAR).sum())} of {len(x)} |")


def _torch_lbfgs(
    net: nn.Module, start: Tensor, goal: Tensor, label: Tensor, iterations: int, line_search: str | None
) -> Tensor:
    v, parameters = start.clone().requires_grad_(), list(net.parameters())
    optimizer = torch.optim.LBFGS([v], max_iter=iterations, history_size=50, line_search_fn=line_search)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(v.view(1, *SHAPE)), label.unsqueeze(0))
        mine = torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters, create_graph=True)])
        found = (mine - goal).square().sum() / goal.square().sum()
        (v.grad,) = torch.autograd.grad(found, v)
        return found.detach()

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return v.detach()


def main() -> None:
    """Print the tables and draw the picture."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--targets", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=500)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--picture")
    parser.add_argument("--speeds", action="store_true")
    asked = parser.parse_args()
    prepare_process()
    x, y = images(asked.targets, asked.seed)
    if asked.speeds:
        print("| L-BFGS | CPU s | found |\n|---|---|---|")
        speeds(dlg_lenet(asked.seed), x, y, asked.iterations)
        return
    lines = {"originals": x}
    print("| net, method | median MSE | MSE < 1e-3 | labels right | CPU s | MSE, sorted |\n|---|---|---|---|---|---|")
    cases: list[tuple[str, nn.Module, dict[str, Any]]] = [
        ("sigmoid LeNet", dlg_lenet(asked.seed), {"methods": [m], "iterations": asked.iterations})
        for m in ("dlg", "idlg")
    ]
    cases += [
        ("ReLU LeNet", relu_lenet(asked.seed), {"methods": [m], "steps": asked.steps, "iterations": asked.iterations})
        for m in ("cosine", "idlg")
    ]
    for title, net, params in cases:
        begin = time.process_time()
        found = attacked(net, x, y, **params)
        table(title, x, y, found, time.process_time() - begin)
        lines |= {f"{title}, {method}": rows for method, (rows, _) in found.items()}
    if asked.picture:
        picture(asked.picture, lines)


if __name__ == "__main__":
    main()
