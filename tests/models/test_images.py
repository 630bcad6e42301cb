"""Deep nets for images: published sizes, any image, weights by the seed or from a file, and a whole evaluation each."""

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.helpers.bottoms import bottom
from tune_vfl import evaluate
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.errors import SpecError
from tune_vfl.machine.vision import import_torchvision
from tune_vfl.models.base import MODELS, Architecture, build
from tune_vfl.models.images import BatchNorm, InPortions
from tune_vfl.models.layers import Linear
from tune_vfl.seeds import Stream, Streams

NETS = [name for name in MODELS.names() if issubclass(MODELS[name], Architecture)]
DEEP = ("resnet18", "resnet20", "resnet50", "alexnet", "gafm_cnn")


def parameters(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


@pytest.mark.parametrize(
    ("name", "published"),
    [
        # With one linear layer to ten classes, for 3x32x32: the literature says .27M, 11.2M and 23.5M.
        ("resnet20", 269_722),
        ("resnet18", 11_173_962),
        ("resnet50", 23_520_842),
        # Weights and biases of the convolutions, and of 4x4 places of 256 channels to ten classes.
        (
            "alexnet",
            64 * (75 + 1) + 192 * (1600 + 1) + 384 * (1728 + 1) + 256 * (3456 + 1) + 256 * (2304 + 1) + 10 * 4097,
        ),
    ],
)
def test_nets_for_ten_classes_have_the_published_number_of_parameters(name: str, published: int) -> None:
    assert parameters(bottom(name, (3, 32, 32), embedding_dim=10)) == published


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_large_images_meet_torchvisions_own_net(name: str) -> None:
    import_torchvision()
    from torchvision import models

    theirs = getattr(models, name)(num_classes=10)
    assert parameters(bottom(name, (3, 224, 224), embedding_dim=10)) == parameters(theirs)


@pytest.mark.parametrize("name", DEEP)
@pytest.mark.parametrize("shape", [(3, 32, 16), (1, 28, 14), (1, 8, 4), (1, 1, 1), (3, 63, 17), (3, 96, 64)])
def test_images_of_any_size_are_read_and_give_finite_embeddings(name: str, shape: tuple[int, ...]) -> None:
    net, x = bottom(name, shape, embedding_dim=7), torch.rand(3, *shape, requires_grad=True)
    out = net(x)
    assert out.shape == (3, 7)
    assert out.isfinite().all()
    out.square().sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


@pytest.mark.parametrize(
    ("name", "shape", "places"),
    [
        ("resnet18", (3, 32, 16), (4, 2)),
        ("resnet18", (1, 28, 14), (4, 2)),
        ("resnet18", (1, 8, 4), (1, 1)),
        ("resnet20", (3, 32, 16), (8, 4)),
        ("resnet20", (1, 28, 14), (7, 4)),
        ("alexnet", (3, 32, 16), (4, 2)),
        ("alexnet", (1, 28, 14), (4, 2)),
        ("alexnet", (3, 224, 112), (6, 6)),
        ("gafm_cnn", (1, 64, 64), (6, 6)),
        ("gafm_cnn", (1, 28, 14), (4, 2)),
    ],
)
def test_the_last_convolutions_leave_the_places_that_are_stated(
    name: str, shape: tuple[int, ...], places: tuple[int, int]
) -> None:
    net, seen = bottom(name, shape), []
    pools = [m for m in net.modules() if isinstance(m, (nn.AdaptiveAvgPool2d, nn.Flatten))]
    handle = pools[0 if name.startswith("resnet") else -1].register_forward_pre_hook(
        lambda _, given: seen.append(given[0])
    )
    net(torch.rand(2, *shape))
    handle.remove()
    assert seen[0].shape[-2:] == places


def test_all_pixels_of_small_images_count() -> None:
    for name in DEEP:
        net, seen = bottom(name, (1, 8, 4)).requires_grad_(False), torch.zeros(1, 8, 4)
        for start in range(4):
            x = torch.rand(32, 1, 8, 4, generator=torch.Generator().manual_seed(start), requires_grad=True)
            net(x).square().sum().backward()
            assert x.grad is not None
            seen += x.grad.abs().sum(0)
        assert (seen > 0).all(), name


@pytest.mark.parametrize("name", [name for name in NETS if name != "logistic"])  # whose weights start at 0
def test_weights_follow_the_seed_and_leave_torchs_generator_alone(name: str) -> None:
    cls = MODELS[name]
    modality = next(iter(sorted(cls.modalities)))
    shape = {"image": (1, 8, 4), "table": (5,), "text": (9,)}[modality]
    small = {"vocabulary": 20, "hidden": 8, "layers": 1} if modality == "text" else {}
    architecture = cls(cls.Options.model_validate(small))

    def made(seed: int) -> list[torch.Tensor]:
        parties, own = ([shape] * 2, shape) if architecture.joins else ([shape], None)
        net = build(architecture, passive_shapes=parties, own_shape=own, num_classes=2, streams=Streams(seed))
        return [*net.parameters(), *net.buffers()]

    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first = made(0)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(6)
    again, other = made(0), made(1)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    # What starts at the same number for every seed: biases and norms of some nets.
    weights = [(a, b) for a, b in zip(first, other, strict=True) if a.dim() > 1 and bool((a != a.flatten()[0]).any())]
    assert weights
    assert not any(torch.equal(a, b) for a, b in weights if a.is_floating_point())


def test_convolutions_start_with_the_variance_of_he() -> None:
    for name in DEEP:
        for conv in (m for m in bottom(name, (3, 32, 16)).modules() if isinstance(m, nn.Conv2d)):
            n = conv.weight.numel()
            if n > 20_000:
                expected = (2 / conv.weight[:, 0].numel()) ** 0.5
                assert conv.weight.std().item() == pytest.approx(expected, rel=5 / (2 * n) ** 0.5)


def test_a_batch_norm_takes_a_single_row_of_a_single_place() -> None:
    ours, theirs = BatchNorm(4), nn.BatchNorm2d(4)
    x = torch.randn(6, 4, 3, 2)
    assert torch.equal(ours(x), theirs(x))
    assert ours.running_mean is not None
    mean, one = ours.running_mean.clone(), torch.randn(1, 4, 1, 1)
    with pytest.raises(ValueError, match="more than 1 value"):
        theirs(one)
    assert torch.equal(ours(one), theirs.eval()(one))
    assert torch.equal(ours.running_mean, mean)
    for name in ("resnet18", "resnet20", "resnet50"):
        assert bottom(name, (1, 8, 4)).train()(torch.rand(1, 1, 8, 4)).isfinite().all()


def test_rows_pass_in_portions_in_evaluation_only() -> None:
    class Sizes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(len(x))
            return x * 2

    net, x = InPortions(Sizes()), torch.rand(600, 3)
    for mode, grad, sizes in [(True, False, [600]), (False, True, [600]), (False, False, [256, 256, 88])]:
        seen: list[int] = []
        with torch.set_grad_enabled(grad):
            assert torch.equal(net.train(mode)(x), x * 2)
        assert seen == sizes


def test_tops_have_the_layers_that_are_asked_for() -> None:
    for name, layers in [("resnet18", 4), ("resnet20", 4), ("resnet50", 4), ("alexnet", 1), ("gafm_cnn", 2)]:
        top = MODELS[name](MODELS[name].Options()).top(20, 10, Stream(0, "top"))
        assert len([m for m in top.modules() if isinstance(m, Linear)]) == layers
        for hidden in ([], [8], [8, 8], [8, 8, 8]):
            made = MODELS[name](MODELS[name].Options.model_validate({"top_hidden": hidden}))
            assert len([m for m in made.top(20, 10, Stream(0, "top")) if isinstance(m, Linear)]) == len(hidden) + 1


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_torchvisions_weights_are_read_from_a_file(name: str, tmp_path: Path) -> None:
    import_torchvision()
    from torchvision import models

    theirs, path = getattr(models, name)(), tmp_path / "weights.pth"
    torch.save(theirs.state_dict(), path)
    theirs.fc = nn.Identity()
    large = bottom(name, (3, 64, 48), weights=str(path))
    x = torch.rand(2, 3, 64, 48)
    assert torch.allclose(large[0].eval()(x), theirs.eval()(x), atol=1e-5)  # type: ignore[index]
    small, drawn = (bottom(name, (1, 28, 14), **given) for given in ({"weights": str(path)}, {}))
    own = dict(small[0].net.named_parameters())  # type: ignore[index, union-attr]
    for key, value in drawn[0].net.named_parameters():  # type: ignore[index, union-attr]
        kept = value if key == "conv1.weight" else theirs.get_parameter(key)
        assert torch.equal(own[key], kept), key


def test_alexnets_weights_are_read_by_torchvisions_names(tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    state = {f"features.{k}.{part}": v for k, part, v in _alexnet_features()}
    torch.save({**state, "classifier.1.weight": torch.zeros(1)}, path)
    x = torch.rand(1, 3, 96, 64)
    large = bottom("alexnet", (3, 96, 64), weights=str(path))
    for key, value in large[0].net.named_parameters():  # type: ignore[index, union-attr]
        assert torch.equal(value, state[key])
    assert large(x).isfinite().all()


def _alexnet_features() -> list[tuple[int, str, torch.Tensor]]:
    import_torchvision()
    from torchvision import models

    with torch.device("meta"):
        names = [name.split(".") for name in models.alexnet().features.state_dict()]
        shapes = [tuple(v.shape) for v in models.alexnet().features.state_dict().values()]
    return [(int(k), part, torch.randn(*shape)) for (k, part), shape in zip(names, shapes, strict=True)]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read"),
        (b"", "cannot be read"),
        (b"no weights at all", "cannot be read"),
        ({"some": torch.zeros(2)}, "holds no 'conv1.weight'"),
        ([1, 2], "expected a state_dict"),
        ("resnet50", "expected (64, 64, 3, 3)"),
    ],
)
def test_files_that_are_no_weights_of_the_net_are_named(content: object, says: str, tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content == "resnet50":
        torch.save(bottom("resnet50", (3, 32, 32))[0].net.state_dict(), path)  # type: ignore[index, union-attr]
    elif content is not None:
        torch.save(content, path)
    with pytest.raises(SpecError) as caught:
        bottom("resnet18", (3, 32, 32), weights=str(path))
    assert str(path) in str(caught.value)
    assert says in str(caught.value)


# A resnet50 takes half a minute, and goes the way of the other two resnets.
BY_HAND = {"resnet50": pytest.mark.slow}


@pytest.mark.parametrize("name", [pytest.param(name, marks=BY_HAND.get(name, ())) for name in DEEP])
def test_a_whole_evaluation_with_completion_of_a_bottom_that_trains_on(name: str, images: dict[str, object]) -> None:
    # 63 training rows in batches of 31 leave a last batch of one row.
    answer = evaluate(
        images,
        attacks=[{"name": "pmc", "variants": ["logreg", "logreg_all", "mixmatch_unfrozen"], "steps": 2}, "norm"],
        seeds=1,
        settings=[f"model.name={name}", "training.epochs=2", "training.batch_size=31", "training.lr=0.003"],
    )
    assert answer["outcome"] == "ok", answer
    assert answer["model"] == name
    assert set(answer["attacks"]["pmc"]["variants"]) == {"logreg", "logreg_all", "mixmatch_unfrozen"}
    assert answer["attacks"]["pmc"]["mean"] > 0.8


@pytest.mark.parametrize("name", DEEP)
def test_passports_go_into_the_last_convolution_and_keep_its_norm(name: str) -> None:
    cls = DEFENSES["fedpass"]
    made = cls([cls.Params.model_validate({"where": "bottom"})], num_classes=2, embedding_dims=[10])
    made.setup(torch.zeros(4, dtype=torch.long), torch.arange(4), seed=0)
    wrapped = made.wrap_bottom(bottom(name, (1, 8, 4)))
    out = wrapped(torch.rand(4, 1, 8, 4))
    assert out.isfinite().all()
    layers = [m for m in wrapped.modules() if type(m).__name__ == "PassportConv"]
    assert len(layers) == 1
    last = [m for m in wrapped.modules() if isinstance(m, nn.Conv2d)][-1]
    assert layers[0].layer is last
    assert isinstance(layers[0].norm, nn.BatchNorm2d)
