"""Train a horizontal federation in a loop of your own, under the defense that a search found.

    python own_loop_fedavg.py best.json loans.csv

``best.json`` is what ``tune-vfl export`` wrote. Clients hold rows of their own with all columns and labels; a server
averages what they train. Attacked as in the search, the loop shows its utility and leakage again.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import torch

from tune_vfl import load_config

if TYPE_CHECKING:
    from tune_vfl.config import ExportedConfig
    from tune_vfl.evaluation.own_rounds import Client, OwnRounds
    from tune_vfl.outcome import Outcome


def train(cfg: ExportedConfig, csv: str | None, seed: int) -> OwnRounds:
    """Train with one seed, and have one of the clients attacked."""
    run, federation = cfg.own_rounds(seed=seed, path=csv), cfg.federation
    if run.in_turn:
        raise SystemExit("this loop trains clients side by side, under this setting they train in turn; extend it")
    total = sum(client.count for client in run.clients)
    # The server holds what all share; a second one, which it cannot look into, what SplitFed hides from it.
    first = run.clients[0]
    shared, statistics, hidden = first.shared(), first.statistics(), first.hidden()

    for number in range(federation.rounds or 1):
        means = [torch.zeros_like(held) for held in (shared, statistics, hidden)]
        for client in run.clients:
            client.take(shared, statistics, hidden)
            local_training(client, cfg, number * federation.local_epochs)
            # All that the server gets of the client's training is its upload, and batch norms' statistics.
            arrived = client.upload(client.shared() - shared), client.statistics(), client.hidden()
            means = [mean + client.count / total * of for mean, of in zip(means, arrived, strict=True)]
        update, statistics, hidden = means
        shared = shared + update

    for client in run.clients:
        client.take(shared, statistics, hidden)
    run.measure()
    return run


def local_training(client: Client, cfg: ExportedConfig, passes: int) -> None:
    """Train a client's models on its own rows; ``passes`` over them were made before."""
    client.models.train()
    optimizer = client.optimizer(passes)
    for epoch in range(passes, passes + cfg.federation.local_epochs):
        for rows in client.rows.batches(cfg.training.batch_size):
            batch = client.defense.inputs(rows, client.rows, epoch=epoch)
            targets = client.defense.labels(batch.y, batch.ids)
            embedding = client.defense.send_embedding(client.bottom(batch.passive[0]), party=0)
            client.defense.loss(client.top(embedding), targets, [embedding]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()


def main(config: str, csv: str | None = None) -> Outcome:
    """Train with every seed of the search, and print its numbers beside this loop's."""
    cfg = load_config(config)
    if not cfg.federation.horizontal:
        raise SystemExit(f"{config}: expected a setting of a horizontal federation; see own_loop_split.py")
    if cfg.federation.local_steps is not None or cfg.federation.participation < 1 or cfg.federation.secure:
        raise SystemExit(f"{config}: this loop trains whole passes, with all clients; extend it to yours")
    found = cfg.outcome([train(cfg, csv, seed) for seed in cfg.seeds])
    for name, here, searched in zip(("utility", "leakage"), found.objectives, cfg.measured.in_search, strict=True):
        error = getattr(cfg.measured, f"{name}_std") / len(cfg.seeds) ** 0.5
        print(f"{name} {here:.4f}; in the search {searched:.4f}, standard error {error:.4f}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", help="what tune-vfl export wrote")
    parser.add_argument("csv", nargs="?", help="the table that was searched on, where it was a table")
    given = parser.parse_args()
    main(given.config, given.csv)
