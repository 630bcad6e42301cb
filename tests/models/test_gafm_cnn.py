"""GAFM's net for photographs: published sizes, the same numbers in any order of memory, GAFM on it."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.helpers.bottoms import bottom
from tune_vfl import evaluate
from tune_vfl.models.base import MODELS
from tune_vfl.models.layers import Linear
from tune_vfl.seeds import Stream


def test_gafms_net_for_photographs_is_the_published_one() -> None:
    net = bottom("gafm_cnn", (1, 64, 64))
    assert [m.out_channels for m in net.modules() if isinstance(m, nn.Conv2d)] == [6, 16, 32]
    assert {(m.kernel_size, m.stride, m.padding) for m in net.modules() if isinstance(m, nn.Conv2d)} == {
        ((3, 3), (1, 1), (0, 0))
    }
    assert [m.weight.shape[0] for m in net.modules() if isinstance(m, Linear)] == [120, 84, 40]
    assert next(m.weight.shape[1] for m in net.modules() if isinstance(m, Linear)) == 32 * 6 * 6  # appendix E.2
    sent = net(torch.rand(8, 1, 64, 64))
    assert (sent >= 0).all()
    assert (sent == 0).any()
    architecture = MODELS["gafm_cnn"](MODELS["gafm_cnn"].Options())
    assert architecture.outputs(2) == 1
    assert [
        tuple(m.weight.shape) for m in architecture.top(40, 1, Stream(0, "t")).modules() if isinstance(m, Linear)
    ] == [
        (16, 40),
        (1, 16),
    ]


@pytest.mark.parametrize(("sides", "small"), [((30, 22), False), ((30, 21), True), ((28, 14), True)])
def test_gafms_net_maps_as_relu_before_pooling_does_in_any_order_of_memory(
    sides: tuple[int, int], *, small: bool
) -> None:
    net, images = bottom("gafm_cnn", (1, *sides)), torch.rand(5, 1, *sides)
    weights = [p for m in net.modules() if isinstance(m, nn.Conv2d) for p in m.parameters()]
    sent = net(images)
    kept = images
    for weight, bias in zip(weights[::2], weights[1::2], strict=True):
        kept = F.max_pool2d(F.conv2d(kept, weight, bias, padding=int(small)).relu(), 2, ceil_mode=small)
    expected = nn.Sequential(nn.Flatten(), *list(net.children())[1:])(kept)
    torch.testing.assert_close(sent, expected)
    ours, plain = (torch.autograd.grad(out.square().sum(), weights) for out in (sent, expected))
    for one, other in zip(ours, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_gafm_defends_its_own_net_whose_output_is_no_probability(images: dict[str, object]) -> None:
    answer = evaluate(
        {**images, "split": 1.0},
        defense="gafm",
        attacks=["norm"],
        seeds=1,
        settings=["model.name=gafm_cnn", "training.epochs=2", "training.batch_size=31"],
    )
    assert answer["outcome"] == "ok", answer
