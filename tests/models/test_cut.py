"""Nets for images, cut between two convolutions: what is on either side, that both together are the net, refusals."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tune_vfl import evaluate
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.driver.planning import plan_study
from tune_vfl.errors import SpecError
from tune_vfl.evaluation.resolving import open_task
from tune_vfl.evaluation.training import embedding_width
from tune_vfl.models.base import MODELS, build, build_architecture
from tune_vfl.models.cutting import CutNet
from tune_vfl.models.layers import Linear
from tune_vfl.seeds import Stream, Streams
from tune_vfl.spec import Named, parse

CIFAR, MNIST = (3, 32, 32), (1, 28, 28)

# How FedAdOb cuts its nets, tables II and IX: convolutions below, convolutions and linear layers above.
PUBLISHED = [
    ("lenet", {"cut": 1, "channels": [6, 16, 32]}, MNIST, (1, 2, 3), (6, 14, 14)),
    ("lenet", {"cut": 1}, MNIST, (1, 1, 3), (6, 14, 14)),
    ("lenet", {"cut": 2}, MNIST, (2, 0, 3), (16, 7, 7)),
    ("alexnet", {"cut": 1}, CIFAR, (1, 4, 1), (64, 16, 16)),
    ("alexnet", {"cut": 5}, CIFAR, (5, 0, 1), (256, 4, 4)),
    ("resnet18", {"cut": 1, "top_hidden": []}, CIFAR, (1, 16, 1), (64, 32, 32)),
    ("resnet18", {"cut": 17, "top_hidden": []}, CIFAR, (17, 0, 1), (512, 1, 1)),
]
CUTS = [
    *[(name, options, shape) for name, options, shape, *_ in PUBLISHED[:4]],
    ("alexnet", {"cut": 3, "batch_norm": True}, (3, 96, 64)),
    ("resnet18", {"cut": 9}, (1, 8, 8)),
    ("resnet20", {"cut": 7}, (3, 16, 16)),
    ("lenet", {"cut": 1, "activation": "tanh", "batch_norm": True}, (1, 9, 5)),
    ("lenet_dlg", {}, MNIST),
    ("lenet_dlg", {"cut": 1, "top_hidden": [5]}, (1, 1, 1)),
]


def net(name: str, options: dict[str, Any]) -> CutNet[Any]:
    made = build_architecture(Named(name=name, **options))
    assert isinstance(made, CutNet)
    return made


def convolutions(module: nn.Module) -> int:
    """Count convolutions as the nets' names do: without those of shortcuts."""
    return sum(isinstance(m, nn.Conv2d) for name, m in module.named_modules() if "downsample" not in name)


@pytest.mark.parametrize(("name", "options", "shape", "layers", "sent"), PUBLISHED)
def test_the_published_cuts(
    name: str, options: dict[str, Any], shape: tuple[int, ...], layers: tuple[int, ...], sent: tuple[int, ...]
) -> None:
    made = net(name, options)
    whole = build(made, passive_shapes=[shape], own_shape=None, num_classes=10, streams=Streams(0))
    assert whole.top is not None
    linear = sum(isinstance(m, Linear) for m in whole.top.modules())
    assert (convolutions(whole.bottoms), convolutions(whole.top), linear) == layers
    assert not any(isinstance(m, (Linear, nn.Linear)) for m in whole.bottoms.modules())
    assert made.sent(shape) == sent
    assert whole.bottoms[0](torch.rand(2, *shape)).shape == (2, math.prod(sent))


@pytest.mark.parametrize(("name", "options", "shape"), CUTS)
def test_bottom_and_top_are_the_net_that_was_cut(name: str, options: dict[str, Any], shape: tuple[int, ...]) -> None:
    made, x = net(name, options), torch.rand(3, *shape, generator=torch.Generator().manual_seed(0))
    width = made.width(shape, 4)
    # From the same stream, bottom and top start from the same weights, each with its own part of them.
    bottom = made.bottom(shape, width, Stream(0, "init")).eval()
    top = made.top_of([shape], width, 4, Stream(0, "init")).eval()
    sent = bottom(x)
    assert sent.shape == (3, width)
    before = torch.random.get_rng_state()
    trunk = made.started(shape, Stream(0, "init")).eval()
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.testing.assert_close(top(sent), top.get_submodule("3")(trunk(x)), rtol=1e-4, atol=1e-5)
    assert sum(convolutions(part) for part in (bottom, top)) == convolutions(trunk)


@pytest.mark.parametrize(("name", "options", "shape"), CUTS)
def test_a_batch_of_one_row_is_trained_on(name: str, options: dict[str, Any], shape: tuple[int, ...]) -> None:
    made = net(name, options)
    whole = build(made, passive_shapes=[shape], own_shape=None, num_classes=3, streams=Streams(0))
    whole([torch.rand(1, *shape)], None).square().sum().backward()
    # A ReLU may let nothing of a single row through, but no parameter is left out.
    assert all(p.grad is not None and p.grad.isfinite().all() for p in whole.parameters())
    assert all(b.isfinite().all() for b in whole.buffers())


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("lenet", {"cut": 3}, "expected one of 1, 2"),
        ("lenet", {"cut": 3, "channels": [4]}, "expected one of 1"),
        ("alexnet", {"cut": 6}, "expected one of 1, 2, 3, 4, 5"),
        ("resnet18", {"cut": 2}, "expected one of 1, 3, 5, 7, 9, 11, 13, 15, 17"),
        ("resnet20", {"cut": 20}, "expected one of 1, 3, 5, 7, 9, 11, 13, 15, 17, 19"),
        ("resnet50", {"cut": 3}, "expected one of 1, 4, 7, 10"),
        ("lenet_dlg", {"cut": 4}, "expected one of 1, 2, 3"),
        ("lenet", {"cut": 1, "top": "none"}, "without a top model there is nothing to cut"),
        ("lenet", {"channels": []}, "at least 1 item"),
        ("lenet", {"activation": "gelu"}, "'relu', 'sigmoid' or 'tanh'"),
    ],
)
def test_cuts_that_no_net_has(name: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        build_architecture(Named(name=name, **options))


def test_every_cut_that_is_offered_is_one_of_the_nets_stages() -> None:
    for name in MODELS.names():
        made = MODELS[name](MODELS[name].Options())
        if isinstance(made, CutNet):
            with torch.device("meta"):
                stages = made.stages(made.trunk((3, 32, 32)))
            assert tuple(stages) == made.options.cuts, name
            assert [convolutions(part) for part in stages.values()] == list(np.diff([0, *stages])), name


@pytest.mark.parametrize(("activation", "smooth"), [("relu", False), ("sigmoid", True), ("tanh", True), (None, False)])
def test_lenets_activation_is_between_all_its_layers(activation: str | None, smooth: bool) -> None:
    made = net("lenet", {"cut": 1, **({"activation": activation} if activation else {})})
    assert made.options.implied() == ({} if activation else {"activation": "relu"})
    whole = build(made, passive_shapes=[(1, 8, 8)], own_shape=None, num_classes=3, streams=Streams(0))
    kinds = {type(m) for m in whole.modules() if isinstance(m, (nn.ReLU, nn.Sigmoid, nn.Tanh))}
    assert kinds == {{"sigmoid": nn.Sigmoid, "tanh": nn.Tanh}.get(activation or "", nn.ReLU)}
    pools = {type(m) for m in whole.modules() if isinstance(m, (nn.MaxPool2d, nn.AvgPool2d))}
    assert pools == {nn.AvgPool2d if smooth else nn.MaxPool2d}


def _moves_along_a_gradient(whole: nn.Module, x: Tensor) -> float:
    """Return how strongly the gradient of a logit depends on the image, which gradient inversion descends on."""
    x = x.requires_grad_()
    (first,) = torch.autograd.grad(whole([x], None)[0, 0], x, create_graph=True)
    if not first.requires_grad:
        return 0.0
    (second,) = torch.autograd.grad(first.square().sum(), x, allow_unused=True)
    return 0.0 if second is None else float(second.abs().max())


@pytest.mark.parametrize(("name", "shape"), [("lenet", (1, 8, 8)), ("alexnet", (3, 32, 32))])
@pytest.mark.parametrize("cut", [None, 1, 2])
def test_a_batch_norm_follows_the_bottoms_last_convolution(name: str, shape: tuple[int, ...], cut: int | None) -> None:
    given = {} if cut is None else {"cut": cut}
    plain, normed = (
        build(net(name, {**given, **norm}), passive_shapes=[shape], own_shape=None, num_classes=3, streams=Streams(0))
        for norm in ({}, {"batch_norm": True})
    )
    held = [m for m in normed.modules() if isinstance(m, (nn.Conv2d, nn.BatchNorm2d))]
    below = [m for m in normed.bottoms.modules() if isinstance(m, (nn.Conv2d, nn.BatchNorm2d))]
    assert [type(m).__name__ for m in below[-2:]] == ["Conv2d", "BatchNorm"]
    assert sum(isinstance(m, nn.BatchNorm2d) for m in held) == 1
    # The other weights are those of the net without it.
    ours = [p for m in normed.modules() if not isinstance(m, nn.BatchNorm2d) for p in m.parameters(recurse=False)]
    assert all(torch.equal(a, b) for a, b in zip(ours, plain.parameters(), strict=True))
    assert build_architecture(Named(name=name)).options.model_dump(exclude_none=True).keys().isdisjoint({"batch_norm"})
    # It is the norm of a passport layer, which stands in its place.
    cls = DEFENSES["fedpass"]
    defense = cls([cls.Params.model_validate({"where": "bottom"})], num_classes=3, embedding_dims=[1])
    defense.setup(torch.zeros(4, dtype=torch.long), torch.arange(4), seed=0)
    norms = [m for m in defense.wrap_bottom(normed.bottoms[0]).modules() if isinstance(m, nn.BatchNorm2d)]
    assert [norm.affine for norm in norms] == [False]


def test_smooth_nets_have_second_derivatives_and_others_none() -> None:
    shape = (1, 8, 8)
    for name, options, smooth in (
        ("lenet", {"cut": 1}, False),
        ("lenet", {"cut": 1, "activation": "sigmoid"}, True),
        ("lenet_dlg", {}, True),
    ):
        whole = build(net(name, options), passive_shapes=[shape], own_shape=None, num_classes=3, streams=Streams(0))
        assert (_moves_along_a_gradient(whole, torch.rand(1, *shape)) > 0) == smooth, (name, options)


def test_dlgs_net_is_the_published_one() -> None:
    whole = build(net("lenet_dlg", {}), passive_shapes=[CIFAR], own_shape=None, num_classes=100, streams=Streams(0))
    twin = nn.Sequential(
        *(nn.Conv2d(3, 12, 5, padding=2, stride=2), nn.Sigmoid()),
        *(nn.Conv2d(12, 12, 5, padding=2, stride=2), nn.Sigmoid()),
        *(nn.Conv2d(12, 12, 5, padding=2, stride=1), nn.Sigmoid()),
        *(nn.Flatten(), nn.Linear(768, 100)),
    )
    ours = list(whole.parameters())
    assert [p.shape for p in ours] == [p.shape for p in twin.parameters()]
    with torch.no_grad():
        for mine, theirs in zip(ours, twin.parameters(), strict=True):
            theirs.copy_(mine)
    x = torch.rand(2, *CIFAR)
    torch.testing.assert_close(whole([x], None), twin(x))
    drawn = torch.cat([p.flatten() for p in ours])
    # 85,000 numbers: the mean of U(-1/2, 1/2) has a standard deviation of .001.
    assert drawn.abs().max() <= 0.5
    assert drawn.abs().max() > 0.499
    assert abs(drawn.mean()) < 0.005


def test_weights_of_a_file_reach_both_sides_of_a_cut(tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    trunk = net("alexnet", {}).started(CIFAR, Stream(7, "file"))
    torch.save(trunk.state_dict(), path)
    made = net("alexnet", {"cut": 2, "weights": str(path)})
    whole = build(made, passive_shapes=[CIFAR], own_shape=None, num_classes=3, streams=Streams(0))
    held = [p for name, p in whole.named_parameters() if p.dim() == 4]
    assert all(torch.equal(a, b) for a, b in zip(held, (p for p in trunk.parameters() if p.dim() == 4), strict=True))


def task_of(options: dict[str, Any], dataset: dict[str, Any], **spec: Any) -> Any:
    raw = {"dataset": {"name": "digits", **dataset}, "model": {"name": "lenet", **options}, "attacks": ["pmc"]}
    return open_task(parse({"study": "cut", "defense": "none", **raw, **spec}))


def test_the_width_of_what_is_sent_follows_from_the_images() -> None:
    task = task_of({"cut": 1}, {"split": 1.0})
    assert embedding_width(task) == 6 * 4 * 4
    assert task.cell.model.options["embedding_dim"] == 6 * 4 * 4
    assert embedding_width(task_of({}, {"split": 1.0})) == 64
    with pytest.raises(SpecError, match=r"sends 96 numbers of these rows, got 10"):
        task_of({"cut": 1, "embedding_dim": 10}, {"split": 1.0})


@pytest.mark.parametrize(
    ("dataset", "attack", "says"),
    [
        ({}, "pmc", "reads the feature maps of one party, and 2 have columns"),
        ({"split": 1.0, "passive_parties": 2}, "pmc", "reads the feature maps of one party, and 2 have columns"),
        ({"split": 1.0}, "embedding_extension", "sends columns beside its embedding, and the top model reads feature"),
    ],
)
def test_what_a_cut_does_not_go_with(dataset: dict[str, Any], attack: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        task_of({"cut": 1}, dataset, attacks=[attack])


def test_a_top_of_feature_maps_takes_nothing_beside_them() -> None:
    made, shape = net("lenet", {"cut": 1}), (1, 8, 8)
    for shapes, d_in in (([shape] * 2, 192), ([shape], 97)):
        with pytest.raises(SpecError, match="one party and nothing beside them"):
            made.top_of(shapes, d_in, 3, Stream(0, "top"))


def test_a_table_is_refused_as_ever() -> None:
    with pytest.raises(SpecError, match="reads image data"):
        task_of({"cut": 1}, {"name": "wine"})


def test_a_study_does_not_search_over_widths_that_follow_from_the_images() -> None:
    def planned(model: dict[str, Any]) -> Callable[[], object]:
        spec = {
            "study": "cut",
            "dataset": {"name": "digits", "split": 1.0},
            "model": {"name": "lenet", **model},
            "defense": {"name": "gaussian", "space": {"params": {"sigma": {"float": [0.01, 1]}}}},
            "attacks": ["pmc"],
        }
        return lambda: plan_study(parse(spec))

    with pytest.raises(SpecError, match="make a study of each"):
        planned({"cut": {"choice": [1, 2]}})()
    planned({"cut": 1, "top_hidden": {"choice": [[8], [8, 8]]}})()
    planned({"cut": 1, "activation": {"choice": ["relu", "tanh"]}})()


@pytest.mark.parametrize("model", ["lenet", "lenet_dlg"])
def test_a_vertical_evaluation_with_completion_and_inversion(model: str, images: dict[str, object]) -> None:
    answer = evaluate(
        {**images, "split": 1.0},
        attacks=[
            {"name": "pmc", "variants": ["logreg"], "steps": 2},
            {"name": "wmi", "iterations": 20, "rows": 8, "tv": 0.0, "l2": 0.1},
            "norm",
            "gradient_completion",
        ],
        seeds=1,
        settings=[f"model.name={model}", "model.cut=1", "training.epochs=2", "training.batch_size=31"],
    )
    assert answer["outcome"] == "ok", answer
    assert set(answer["attacks"]) == {"pmc", "wmi", "norm", "gradient_completion"}


@pytest.mark.parametrize("where", ["top", "bottom"])
def test_passports_go_into_either_side_of_a_cut(where: str) -> None:
    made, cls, shape = net("alexnet", {"cut": 1}), DEFENSES["fedpass"], (1, 8, 8)
    whole = build(made, passive_shapes=[shape], own_shape=None, num_classes=2, streams=Streams(0))
    defense = cls([cls.Params.model_validate({"where": where})], num_classes=2, embedding_dims=[1])
    defense.setup(torch.zeros(4, dtype=torch.long), torch.arange(4), seed=0)
    assert whole.top is not None
    bottom, top = defense.wrap_bottom(whole.bottoms[0]), defense.wrap_top(whole.top)
    assert top(bottom(torch.rand(4, *shape))).isfinite().all()
    layers = [type(m).__name__ for part in (bottom, top) for m in part.modules() if "Passport" in type(m).__name__]
    assert layers == [{"top": "PassportLinear", "bottom": "PassportConv"}[where]]
