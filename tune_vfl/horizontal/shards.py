"""The partition of training rows among clients."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tune_vfl.data.base import Holders
from tune_vfl.errors import DataError
from tune_vfl.seeds import derive, numpy_rng
from tune_vfl.spec import Federation

FEWEST = 2
"""Rows that every client holds at least."""
_DRAWS = 200

Rows = NDArray[np.int64]


def client_seed(seed: int, client: int) -> int:
    """Return the seed of one client's own draws: order of rows, noise, secrets."""
    return derive(seed, f"client/{client}")


def shards(y: Tensor, federation: Federation, seed: int, holders: Holders | None = None) -> list[Tensor]:
    """Share the training rows of a seed out to the clients.

    Where clients hold equally many rows, up to ``clients - 1`` rows are left over, at no client.

    Args:
        y: ``(N,)`` labels of the training rows.
        federation: how many clients, and which of the four ways.
        seed: draws it, from the stream ``shards``.
        holders: whose these rows are, where the data say so.

    Returns:
        For each client its positions among the training rows, in their order.

    Raises:
        DataError: where there are too few rows for so many clients, or the data do not say whose they are.
    """
    if federation.shards.name == "column":
        return _by_column(federation.shards.column or "", holders)
    labels, rng = y.numpy(), numpy_rng(seed, "shards")
    clients, how = federation.clients, federation.shards
    if len(labels) < clients * FEWEST:
        raise DataError(
            f"{len(labels)} training rows do not give {clients} clients {FEWEST} rows each; lower federation.clients"
        )
    if how.name == "iid":
        held = _in_equal_parts(rng.permutation(len(labels)), clients)
    elif how.name == "classes":
        held = _few_classes(labels, clients, how.per_client, rng)
    else:
        held = _by_dirichlet(labels, clients, how.alpha, rng)
    return [torch.from_numpy(np.sort(rows)) for rows in held]


def _by_column(column: str, holders: Holders | None) -> list[Tensor]:
    if holders is None:
        raise DataError(f"federation.shards.column: the data do not say by {column!r} whose a row is")
    held = [(holders.of == client).nonzero().squeeze(1) for client in range(len(holders.names))]
    for name, rows in zip(holders.names, held, strict=True):
        if len(rows) < FEWEST:
            raise DataError(
                f"client {name!r} of column {column!r} has {len(rows)} rows to train on, every one needs {FEWEST}; "
                "leave its rows out, or join it with another"
            )
    return held


def _in_equal_parts(order: Rows, parts: int) -> list[Rows]:
    size = len(order) // parts
    return [order[k * size : (k + 1) * size] for k in range(parts)]


def _few_classes(labels: Rows, clients: int, per_client: int, rng: np.random.Generator) -> list[Rows]:
    """Deal each client ``per_client`` equal pieces of the rows sorted by class (McMahan et al.).

    A piece at a border between two classes has rows of both.
    """
    if len(labels) < clients * per_client:
        raise DataError(
            f"{len(labels)} training rows do not make {clients} x {per_client} pieces of single classes; lower "
            "federation.clients or federation.shards.classes"
        )
    mixed = rng.permutation(len(labels))
    pieces = _in_equal_parts(mixed[np.argsort(labels[mixed], kind="stable")], clients * per_client)
    dealt = rng.permutation(len(pieces))
    return [np.concatenate([pieces[k] for k in mine]) for mine in np.split(dealt, clients)]


def _by_dirichlet(labels: Rows, clients: int, alpha: float, rng: np.random.Generator) -> list[Rows]:
    by_class = [np.flatnonzero(labels == k) for k in np.unique(labels)]
    for _ in range(_DRAWS):
        held: list[list[Rows]] = [[] for _ in range(clients)]
        for rows in by_class:
            cuts = (np.cumsum(rng.dirichlet([alpha] * clients))[:-1] * len(rows)).astype(np.int64)
            for mine, part in zip(held, np.split(rng.permutation(rows), cuts), strict=True):
                mine.append(part)
        whole = [np.concatenate(parts) for parts in held]
        if min(map(len, whole)) >= FEWEST:
            return whole
    raise DataError(
        f"in {_DRAWS} draws of shards by dirichlet {alpha:g} some client of {clients} always had fewer than {FEWEST} "
        "rows; raise federation.shards.dirichlet or lower federation.clients"
    )
