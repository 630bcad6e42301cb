"""Coordinates by nearest rows: the kernel of a walk on the graph, any columns, more rows than the graph has."""

from __future__ import annotations

from typing import Any

import pytest
import scipy.sparse.linalg
import torch

from tune_vfl.attacks.parts import nearest_rows
from tune_vfl.attacks.parts.columns import evenly
from tune_vfl.attacks.parts.nearest_rows import by_nearest_rows


def test_products_are_those_of_the_main_part_of_the_kernel_of_the_graph() -> None:
    rows, nearest = 100, 8
    x = torch.rand(rows, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    apart = (x - x.mean(0)) / (x - x.mean(0)).square().mean().sqrt()
    weights = torch.zeros(rows, rows, dtype=torch.float64)
    distances = (apart[:, None] - apart[None]).norm(dim=-1)
    width = distances.sort(-1).values[:, nearest]
    for i in range(rows):
        for j in distances[i].argsort()[1 : nearest + 1].tolist():
            weights[i, j] = weights[j, i] = torch.exp(-(distances[i, j] ** 2) / (width[i] * width[j]))
    root = weights.sum(1).rsqrt()
    values, axes = torch.linalg.eigh(root[:, None] * weights * root)
    axes = axes[:, -32:] - axes[:, -32:].mean(0)
    kernel = axes @ torch.diag(1 / (1 - 0.99 * values[-32:])) @ axes.T
    found = by_nearest_rows(x.float().unsqueeze(0))[0].double()
    torch.testing.assert_close(found @ found.T, kernel / kernel.diagonal().mean(), atol=0.02, rtol=0)


@pytest.mark.parametrize(
    "columns",
    [
        torch.zeros(50, 3),
        torch.arange(50.0).unsqueeze(-1),
        torch.full((50, 2), torch.nan),
        (torch.arange(900) % 3).float().unsqueeze(-1),  # few distinct rows: the graph falls into many pieces
        torch.tensor([[1e30], [-1e30], [0.0], [1.0]]),
        torch.zeros(1, 2),
        torch.rand(2, 2, generator=torch.Generator().manual_seed(0)),
        torch.rand(40, 1, 4, 4, generator=torch.Generator().manual_seed(0)),
    ],
    ids=["one value", "a line", "no numbers", "three values", "huge", "one row", "two rows", "images"],
)
def test_any_columns_have_coordinates(columns: torch.Tensor) -> None:
    found = by_nearest_rows(columns.unsqueeze(0))
    assert found.shape[:2] == (1, len(columns))
    assert torch.isfinite(found).all()


def test_rows_beside_the_graph_stand_where_their_nearest_ones_do(monkeypatch: pytest.MonkeyPatch) -> None:
    g = torch.Generator().manual_seed(0)
    group = torch.arange(600) % 3
    x = (10 * group.unsqueeze(-1) + torch.rand(600, 2, generator=g)).unsqueeze(0)
    monkeypatch.setattr(nearest_rows, "MOST", 200)
    found = by_nearest_rows(x)[0]
    beside = torch.ones(600, dtype=torch.bool)
    beside[evenly(600, 200)] = False
    nearest = torch.cdist(found[beside], found[~beside]).argmin(-1)
    assert torch.equal(group[~beside][nearest], group[beside])


def test_where_few_eigenvectors_are_found_members_keep_one_width(monkeypatch: pytest.MonkeyPatch) -> None:
    real, made = scipy.sparse.linalg.eigsh, 0

    def stopped_once(*args: Any, **options: Any) -> Any:
        nonlocal made
        values, axes = real(*args, **options)
        made += 1
        if made == 1:
            raise scipy.sparse.linalg.ArpackNoConvergence("stopped", values[-3:], axes[:, -3:])
        return values, axes

    monkeypatch.setattr(scipy.sparse.linalg, "eigsh", stopped_once)
    monkeypatch.setattr(nearest_rows, "_KEPT", {})
    found = by_nearest_rows(torch.rand(2, 80, 3, generator=torch.Generator().manual_seed(0)))
    assert found.shape == (2, 80, 32)
    assert [int((member != 0).any(0).sum()) for member in found] == [3, 32]


def test_the_same_columns_are_joined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    g = torch.Generator().manual_seed(0)
    x = torch.rand(nearest_rows.MOST_KEPT + 1, 30, 2, generator=g)
    monkeypatch.setattr(nearest_rows, "_KEPT", {})
    first = by_nearest_rows(x[:1])
    made: list[int] = []
    monkeypatch.setattr(nearest_rows, "_of_graph", lambda columns: made.append(len(columns)) or columns)
    assert torch.equal(by_nearest_rows(x[:1].clone()), first)
    assert made == []
    by_nearest_rows(x[1:])
    by_nearest_rows(x[:1])
    assert len(made) == nearest_rows.MOST_KEPT + 1, "the oldest ones are forgotten"
