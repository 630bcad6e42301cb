"""Architectures by their parts: shapes, widths, and dropout that a pack shares with its members."""

import copy
from itertools import pairwise

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from tune_vfl.models.base import MODELS, Architecture, build
from tune_vfl.models.gafm import GafmNet, GafmOptions
from tune_vfl.models.layers import Dropout, Linear, select_member
from tune_vfl.models.lenet import Lenet, LenetOptions
from tune_vfl.models.mlp import Mlp, MlpOptions
from tune_vfl.seeds import Stream, Streams

NETS = [name for name in MODELS.names() if issubclass(MODELS[name], Architecture) and name != "logistic"]
IMDB = GafmOptions(bottom_hidden=(256, 128), activation="relu", dropout=0.5)


def widths(net: nn.Module) -> list[tuple[int, ...]]:
    return [tuple(m.weight.shape[-2:]) for m in net.modules() if isinstance(m, (Linear, nn.Linear))]


@pytest.mark.parametrize(
    ("shape", "flat"), [((1, 28, 14), 7 * 4), ((1, 8, 4), 2), ((1, 28, 28), 49), ((3, 32, 16), 32), ((1, 1, 1), 1)]
)
def test_lenet_reads_images_of_any_size_and_loses_no_pixel(shape: tuple[int, ...], flat: int) -> None:
    net = Lenet(LenetOptions(embedding_dim=9)).bottom(shape, 9, Stream(0, "init"))
    x = torch.rand(5, *shape, requires_grad=True)
    out = net(x)
    assert out.shape == (5, 9)
    assert widths(net) == [(9, 16 * flat)]
    assert [tuple(m.weight.shape) for m in net.modules() if isinstance(m, nn.Conv2d)] == [
        (6, shape[0], 5, 5),
        (16, 6, 5, 5),
    ]
    seen = torch.zeros(shape)
    for start in range(20):
        x = torch.rand(64, *shape, generator=torch.Generator().manual_seed(start), requires_grad=True)
        net(x).sum().backward()
        assert x.grad is not None
        seen += x.grad.abs().sum(0)
    assert (seen > 0).all()


def test_lenets_top_has_three_layers_and_its_weights_follow_the_seed() -> None:
    def made(seed: int) -> nn.Module:
        return build(
            Lenet(LenetOptions()), passive_shapes=[(1, 28, 14)], own_shape=None, num_classes=10, streams=Streams(seed)
        )

    first, again, other = made(0), made(0), made(1)
    assert widths(first.top) == [(120, 64), (84, 120), (10, 84)]  # type: ignore[arg-type]
    for a, b, c in zip(first.parameters(), again.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
        assert not torch.equal(a, c)


def test_gafms_nets_are_the_published_ones() -> None:
    spambase = GafmNet(GafmOptions())
    assert widths(spambase.bottom((57,), 1, Stream(0, "a"))) == [(16, 57), (1, 16)]
    imdb = GafmNet(IMDB)
    bottom, top = imdb.bottom((500,), 1, Stream(0, "a")), imdb.top(1, 1, Stream(0, "b"))
    assert [type(m).__name__ for m in bottom] == [  # type: ignore[attr-defined]
        *("FlattenRows", "Linear", "ReLU", "Dropout", "Linear", "ReLU", "Dropout", "Linear", "Sigmoid")
    ]
    assert widths(bottom) == [(256, 500), (128, 256), (1, 128)]
    assert widths(top) == [(16, 1), (1, 16)]


@pytest.mark.parametrize("layers", [1, 2, 3, 4])
def test_an_mlp_of_n_layers_has_hidden_widths_one_less(layers: int) -> None:
    hidden = (20, 10, 10)[: layers - 1]
    net = Mlp(MlpOptions(bottom_hidden=hidden, top_hidden=hidden))
    expected = [*pairwise((156, *hidden, 5))]
    assert widths(net.bottom((156,), 5, Stream(0, "a"))) == [(d_out, d_in) for d_in, d_out in expected]
    assert widths(net.top(156, 5, Stream(0, "b"))) == [(d_out, d_in) for d_in, d_out in expected]


def test_a_top_with_hes_start_has_weights_of_twice_the_inverse_inputs_in_variance_alone_or_in_a_pack() -> None:
    usual, net = (Mlp(MlpOptions(top_hidden=(200,), top_start=start)) for start in (None, "he"))
    pack, alone = net.top(300, 50, Stream([4, 5], "top")), net.top(300, 50, Stream(5, "top"))
    for layer, single, as_torch in zip(pack, alone, usual.top(300, 50, Stream(5, "top")), strict=True):
        if isinstance(layer, Linear) and isinstance(single, Linear) and isinstance(as_torch, Linear):
            d_in = layer.weight.shape[-1]
            # At least 10,000 draws of variance 2 / d_in: their mean square is off by 1.4% in one deviation.
            assert single.weight.square().mean().item() * d_in / 2 == pytest.approx(1, abs=0.06)
            assert single.weight.abs().max() > 3 * (2 / d_in) ** 0.5
            assert torch.equal(layer.weight[1], single.weight)
            assert not torch.equal(layer.weight[0], single.weight)
            assert torch.equal(single.bias, as_torch.bias)
    bottoms = [one.bottom((7,), 3, Stream(1, "bottom")) for one in (usual, net)]
    assert all(torch.equal(a, b) for a, b in zip(*(one.parameters() for one in bottoms), strict=True))


@pytest.mark.parametrize("name", [n for n in NETS if "top_hidden" in MODELS[n].Options.model_fields])
@pytest.mark.parametrize("layers", [1, 2, 3, 4])
def test_every_net_takes_a_top_of_one_to_four_layers(name: str, layers: int) -> None:
    net = MODELS[name](MODELS[name].Options.model_validate({"top_hidden": [8] * (layers - 1)}))
    assert len(widths(net.top(6, 3, Stream(0, "a")))) == layers


def test_every_net_has_a_top_of_as_many_layers_as_asked() -> None:
    assert all("top_hidden" in MODELS[name].Options.model_fields for name in NETS)


def test_dropout_leaves_the_starting_weights_as_they_are() -> None:
    def weights(dropout: float) -> list[torch.Tensor]:
        net = GafmNet(IMDB.model_copy(update={"dropout": dropout})).bottom((7,), 1, Stream(3, "init"))
        net(torch.rand(4, 7))
        return list(net.parameters())

    for a, b in zip(weights(0.0), weights(0.5), strict=True):
        assert torch.equal(a, b)


def test_dropout_is_off_in_evaluation_and_keeps_the_mean_in_training() -> None:
    layer, x = Dropout(0.25, stream=Stream(0, "masks")), torch.ones(400, 50)
    assert torch.equal(layer.eval()(x), x)
    layer.train()
    first, second = layer(x), layer(x)
    assert set(first.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    # 20,000 entries: a standard deviation of .0041.
    assert first.mean().item() == pytest.approx(1, abs=0.02)
    assert not torch.equal(first, second)


def test_a_pack_with_dropout_equals_its_members() -> None:
    seeds, x, lead = [3, 5, 3], torch.rand(3, 11, 7), 3
    stacked = GafmNet(IMDB).bottom((7,), 1, Stream(seeds, "init")).train()
    passes = [stacked(x), stacked(x)]
    for member in range(lead):
        alone = GafmNet(IMDB).bottom((7,), 1, Stream(seeds[member], "init")).train()
        for together in passes:
            torch.testing.assert_close(together[member], alone(x[member]), rtol=1e-5, atol=1e-6)


def test_a_member_taken_out_of_a_pack_goes_on_with_its_own_masks() -> None:
    stacked = GafmNet(IMDB).bottom((7,), 1, Stream([3, 5], "init")).train()
    stacked(torch.rand(2, 4, 7))
    alone, x = select_member(stacked, 1), torch.rand(2, 9, 7)
    kept = copy.deepcopy(alone)
    together = stacked(x)[1]
    torch.testing.assert_close(alone(x[1]), together, rtol=1e-5, atol=1e-6)
    # A copy goes on from where the original was, undisturbed by it.
    torch.testing.assert_close(kept(x[1]), together, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", MODELS.names())
def test_every_architecture_describes_itself(name: str) -> None:
    cls = MODELS[name]
    assert cls.summary
    assert cls.reference
    assert all(field.description for field in cls.Options.model_fields.values())


@pytest.mark.parametrize("name", NETS)
def test_no_layer_is_without_width(name: str) -> None:
    options = MODELS[name].Options
    named = [n for n in ("bottom_hidden", "top_hidden", "channels") if n in options.model_fields]
    assert named
    for field in named:
        default = options.model_fields[field].default
        with pytest.raises(ValidationError, match="greater than or equal to 1"):
            options.model_validate({field: [0] * max(len(default), 1)})
