"""Which client holds which rows."""

import numpy as np
import pytest
import torch

from tune_vfl.errors import DataError
from tune_vfl.horizontal.shards import shards
from tune_vfl.spec.federation import Federation

Y = torch.arange(1000) % 10


def cut(clients: int = 8, seed: int = 0, **how: object) -> list[torch.Tensor]:
    return shards(Y, Federation(name="horizontal", clients=clients, **({"shards": how} if how else {})), seed)


@pytest.mark.parametrize("how", [{}, {"dirichlet": 0.3}, {"classes": 2}])
def test_no_row_is_held_twice_and_the_seed_draws_it(how):
    held = cut(**how)
    rows = torch.cat(held)
    assert len(rows.unique()) == len(rows)
    assert all((one.diff() > 0).all() for one in held), "in the order of the training rows"
    assert all(a.equal(b) for a, b in zip(held, cut(**how), strict=True))
    assert not all(a.equal(b) for a, b in zip(held, cut(seed=1, **how), strict=True))


def test_equal_shares_leave_less_than_a_row_a_client_over():
    for clients in (1, 3, 7, 8):
        sizes = {len(one) for one in cut(clients)}
        assert sizes == {1000 // clients}


def test_dirichlet_gives_every_row_away_and_a_small_alpha_parts_the_classes():
    def largest_share(alpha: float) -> float:
        held = cut(dirichlet=alpha)
        assert sum(map(len, held)) == 1000
        counts = np.array([np.bincount(Y[one], minlength=10) for one in held])
        return float((counts.max(1) / counts.sum(1)).mean())

    assert largest_share(0.1) > 0.4
    assert largest_share(1000.0) < 0.15


def test_classes_leaves_each_client_a_few_classes_and_equally_many_rows():
    held = cut(clients=5, classes=2)
    assert {len(one) for one in held} == {200}
    assert all(len(Y[one].unique()) == 2 for one in held)


def test_too_many_clients_are_refused():
    with pytest.raises(DataError, match="lower federation"):
        shards(Y[:15], Federation(name="horizontal", clients=8), 0)
    with pytest.raises(DataError, match="always had fewer than 2 rows; raise"):
        cut(clients=60, dirichlet=0.001)
    with pytest.raises(DataError, match="pieces of single classes"):
        cut(clients=400, classes=3)
