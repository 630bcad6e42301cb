"""Rows are added to those of their numbers, in machine code as in torch."""

import pytest
import torch
from torch import Tensor

from tune_vfl.kernels import rows
from tune_vfl.kernels.rows import add_rows, native_adder


@pytest.fixture(params=["torch", "native"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What does it."""
    if request.param == "torch":
        monkeypatch.setattr(rows, "native_adder", lambda: None)
    elif native_adder() is None:
        pytest.skip("no compiler on this machine")
    return str(request.param)


def made_up(members: tuple[int, ...], columns: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return sums of 9 rows, numbers of 23 rows, so that all come twice, and the rows."""
    g = torch.Generator().manual_seed(columns)
    sums, given = torch.randn(*members, 9, columns, generator=g), torch.randn(*members, 23, columns, generator=g)
    return sums, torch.randint(0, 9, (*members, 23), generator=g), given


@pytest.mark.parametrize("members", [(), (4,), (2, 3)])
@pytest.mark.parametrize("columns", [1, 10, 16, 37])
def test_rows_are_added_in_their_order(way: str | None, members: tuple[int, ...], columns: int) -> None:
    """To the last bit: a sum in another order is another float."""
    sums, ids, given = made_up(members, columns)
    expected = sums.clone().view(-1, 9, columns)
    for member, (numbers, added) in enumerate(zip(ids.view(-1, 23), given.view(-1, 23, columns), strict=True)):
        for number, row in zip(numbers.tolist(), added, strict=True):
            expected[member, number] += row
    add_rows(sums, ids, given)
    assert torch.equal(sums, expected.view(sums.shape))


def test_what_lies_apart_is_added_too(way: str) -> None:
    sums, ids, given = made_up((4,), 6)
    whole = sums.clone()
    add_rows(whole, ids.repeat(1, 2)[:, :23], given.repeat(1, 1, 2)[..., 6:])
    add_rows(sums, ids, given)
    assert torch.equal(sums, whole)


def test_doubles_are_added_as_doubles(way: str) -> None:
    sums, ids, given = (x.double() if x.is_floating_point() else x for x in made_up((2,), 3))
    sums /= 3
    expected = sums.clone().index_put_((torch.arange(2).unsqueeze(-1), ids), given, accumulate=True)
    add_rows(sums, ids, given)
    torch.testing.assert_close(sums, expected, atol=1e-15, rtol=1e-15)


@pytest.mark.parametrize("number", [-1, 9, 2**40])
def test_a_number_that_no_row_has_is_refused(number: int) -> None:
    if native_adder() is None:
        pytest.skip("no compiler on this machine")
    sums, ids, given = made_up((4,), 5)
    ids[1, 2] = number
    with pytest.raises(IndexError, match="1 of 92 numbers are out of range: expected 0 to 8"):
        add_rows(sums, ids, given)
