"""Known gradients go back as autograd's own way takes them."""

import pytest
import torch

from tune_vfl.protocol.known import take_back, taken_back


def outputs():
    """Two results of two leaves, one of which both need."""
    torch.manual_seed(0)
    first, second = (torch.randn(3, 4, 5, requires_grad=True) for _ in range(2))
    return (first, second), [(first * second).sigmoid(), first.mean(-1)]


def test_the_gradients_are_those_of_torchs_own_way():
    leaves, results = outputs()
    gradients = [torch.randn_like(result) for result in results]
    expected = torch.autograd.grad(results, leaves, gradients, retain_graph=True)
    take_back(results, gradients)
    for leaf, wanted in zip(leaves, expected, strict=True):
        assert torch.equal(leaf.grad, wanted)


def test_a_graph_that_is_kept_takes_another_gradient():
    (first, _), (result, _) = outputs()
    for scale in (1.0, -2.0):
        given = torch.full_like(result, scale)
        found = taken_back([result], [given], [first], retain_graph=True)
        assert torch.equal(found[0], torch.autograd.grad(result, first, given, retain_graph=True)[0])


def test_a_gradient_of_another_shape_is_refused():
    _, (result, _) = outputs()
    with pytest.raises(RuntimeError, match="invalid gradient"):
        take_back([result], [torch.ones(7, 2)])


def test_the_gradient_of_what_nothing_depends_on_is_zero():
    (first, second), (_, mean) = outputs()
    found = taken_back([mean], [torch.ones_like(mean)], [first, second])
    assert torch.equal(found[0], torch.full_like(first, 0.2))
    assert torch.equal(found[1], torch.zeros_like(second))
