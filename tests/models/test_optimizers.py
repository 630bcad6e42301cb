"""Optimizers without torch's compiler take the steps that torch's own take."""

from typing import Any

import pytest
import torch

from tune_vfl.models.optimizers import Adam, Optimizer, Sgd


@pytest.mark.parametrize(
    ("ours", "theirs", "options"),
    [
        (Adam, torch.optim.Adam, {"lr": 0.1}),
        (Adam, torch.optim.Adam, {"lr": 0.1, "weight_decay": 0.01, "fused": True}),
        (Adam, torch.optim.Adam, {"lr": 0.1, "eps": 1e-3, "amsgrad": True}),
        (Adam, torch.optim.Adam, {"lr": 0.1, "maximize": True, "fused": True}),
        (Sgd, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "fused": True}),
    ],
)
def test_steps_are_those_of_torch(ours: type[Optimizer], theirs: Any, options: dict[str, Any]) -> None:
    start = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    found = []
    for kind in (ours, theirs):
        weight = start.clone().requires_grad_()
        optimizer = kind([weight], **options)
        for power in (2, 3, 4):
            weight.pow(power).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            assert weight.grad is None
            optimizer.param_groups[0]["lr"] /= 2
        assert not optimizer.state[weight]["exp_avg" if kind in {Adam, torch.optim.Adam} else "momentum_buffer"].grad_fn
        found.append(weight.detach())
    assert torch.equal(*found)
    assert not torch.equal(found[0], start)


def test_a_parameter_without_a_gradient_is_left_as_it_is() -> None:
    used, unused = (torch.ones(2, requires_grad=True) for _ in range(2))
    optimizer = Adam([used, unused], lr=0.1, weight_decay=0.5, fused=True)
    optimizer.step()
    (3 * used).sum().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    assert torch.equal(unused, torch.ones(2))
    assert not torch.equal(used, torch.ones(2))
    assert used.grad is not None
    assert not used.grad.any()
