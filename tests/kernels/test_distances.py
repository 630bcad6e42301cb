"""Distance correlation with classes in machine code: values and gradients of its twin in torch, whatever the rows."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tune_vfl.kernels import distances
from tune_vfl.kernels.distances import class_correlation, native_correlation
from tune_vfl.metrics.correlation import class_distance_correlation

native = pytest.mark.skipif(native_correlation() is None, reason="no compiler on this machine")


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def classes(seed: int, count: int, *shape: int) -> Tensor:
    return torch.randint(count, shape, generator=torch.Generator().manual_seed(seed))


def found(way: object, x: Tensor, y: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the correlations and the gradient of their weighted sum."""
    assert callable(way)
    rows = x.clone().requires_grad_()
    value = way(rows, y, count)
    weights = torch.arange(1.0, value.numel() + 1).view(value.shape)
    (gradient,) = torch.autograd.grad((value * weights).sum(), rows)
    return value.detach(), gradient


def check(x: Tensor, y: Tensor, count: int) -> None:
    value, gradient = found(class_correlation, x, y, count)
    expected, slope = found(class_distance_correlation, x, y, count)
    # A correlation is a root: where it is 0, rounding of 1e-16 in its square is 1e-8 in itself.
    torch.testing.assert_close(value.square(), expected.square(), rtol=2e-9, atol=1e-14)
    torch.testing.assert_close(gradient, slope, rtol=1e-6, atol=1e-8)


@native
@given(
    members=st.sampled_from([(), (1,), (3,), (2, 2)]),
    rows=st.integers(2, 40),
    d=st.integers(1, 11),
    count=st.integers(2, 5),
    grid=st.sampled_from([0.0, 0.5, 2.0]),
    offset=st.sampled_from([0.0, 1000.0]),
    shared=st.booleans(),
    seed=st.integers(0, 1000),
)
@settings(max_examples=100, deadline=None)
def test_it_is_its_twin(
    members: tuple[int, ...], rows: int, d: int, count: int, grid: float, offset: float, *, shared: bool, seed: int
) -> None:
    """Any leading axes, equal rows where a grid rounds, absent classes, labels of each trial or of all."""
    x = drawn(seed, *members, rows, d).double()
    x = (torch.round(x / grid) * grid if grid else x) + offset
    y = classes(seed, count, *(() if shared else members), rows)
    uneven = (y != y[..., :1]).any(-1) & (x != x[..., :1, :]).flatten(-2).any(-1)
    if bool(uneven.all()):
        check(x, y, count)


@native
@pytest.mark.parametrize("d", [1, 10, 16])
def test_a_whole_batch(d: int) -> None:
    y = (torch.arange(1028) % 50 == 0).long()
    check(torch.sigmoid(drawn(0, 3, 1028, d) + y[:, None]).double(), y, 2)


@native
def test_single_precision_in_is_single_precision_out() -> None:
    x, y = drawn(1, 4, 30, 3), classes(1, 3, 4, 30)
    value, gradient = found(class_correlation, x, y, 3)
    wide, slope = found(class_correlation, x.double(), y, 3)
    assert (value.dtype, gradient.dtype) == (torch.float64, torch.float32)
    assert torch.equal(value, wide)
    assert torch.equal(gradient, slope.float())


@native
@pytest.mark.parametrize("d", [1, 4])
def test_rows_that_are_not_finite_spoil_their_own_member_alone(d: int) -> None:
    x, y = drawn(2, 3, 20, d), classes(2, 2, 3, 20)
    expected = found(class_correlation, x, y, 2)
    x[1, 7] = torch.nan
    x[0, 3] = torch.inf
    value, gradient = found(class_correlation, x, y, 2)
    assert value[:2].isnan().all()
    assert gradient[:2].isnan().all()
    assert torch.equal(value[2], expected[0][2])
    assert torch.equal(gradient[2], expected[1][2])


@native
@pytest.mark.parametrize("label", [-1, 2])
def test_a_class_that_there_is_not_is_refused(label: int) -> None:
    with pytest.raises(IndexError, match="expected classes 0 to 1, got"):
        class_correlation(drawn(3, 5, 2), torch.tensor([0, 1, 0, 1, label]), 2)


def test_without_a_compiler_torch_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distances, "native_correlation", lambda: None)
    x, y = drawn(4, 3, 12, 2), classes(4, 2, 3, 12)
    assert torch.equal(class_correlation(x, y, 2), class_distance_correlation(x, y, 2))
