"""Train a passive party's model for a party that has labels and no columns, in a loop of your own, under a defense.

    python own_loop_label_only.py best.json loans.csv

``best.json`` is what ``tune-vfl export`` wrote. The passive party has all columns; the label party has the labels and a
top model that reads what the other one sends. Attacked as in the search, the loop shows its utility and leakage again.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import torch
from torch import nn

from tune_vfl import load_config

if TYPE_CHECKING:
    from tune_vfl.config import ExportedConfig
    from tune_vfl.evaluation.own_loop import OwnLoop
    from tune_vfl.outcome import Outcome


def train(cfg: ExportedConfig, csv: str | None, seed: int) -> OwnLoop:
    """Train with one seed, and have what was exchanged attacked."""
    defense = cfg.build_defense(embedding_dims=[cfg.embedding_dim])
    run = cfg.own_loop(defense, seed=seed, path=csv)
    (x_p,), y = run.split.features("train"), run.split.y_train  # (N, columns) of the passive party, (N,) labels
    defense.setup(y, torch.arange(len(y)), active_features=x_p if defense.wants_full_view else None, seed=seed)

    (bottom,), top = run.bottoms, run.top  # the study's models: any of yours may take their place
    bottom, top = defense.wrap_bottom(bottom), defense.wrap_top(top)
    models = nn.ModuleList([bottom, top]).train()
    optimizer, schedule = run.optimizer(models.parameters())
    run.begin([bottom])

    for epoch in range(cfg.training.epochs):
        for rows in run.rows.batches(cfg.training.batch_size):
            batch, scale = defense.inputs(rows, run.rows, epoch=epoch), run.gradient_scale(rows)
            # The passive party sends its embedding.
            sent = defense.send_embedding(bottom(batch.passive[0]), party=0)
            # The label party computes the loss, and sends back what the defense lets out.
            arrived = sent.detach().requires_grad_()
            logits = top(arrived)
            targets = defense.labels(batch.y, batch.ids)
            defense.loss(logits, targets, [arrived]).backward(retain_graph=True)
            assert arrived.grad is not None
            step = run.context(batch, epoch=epoch, logits=logits, targets=targets, embeddings=[arrived])
            leaves = defense.cut_gradient(arrived.grad * scale, y=batch.y, context=step, party=0) / scale
            # The passive party goes on from what it received.
            sent.backward(leaves)
            optimizer.step()
            optimizer.zero_grad()
            run.record(batch, epoch=epoch, sent=[sent], received=[leaves])
        schedule.step()

    models.eval()
    with torch.no_grad():
        (x_p,) = run.split.features("test")
        run.measure(defense.decode_rows(top(defense.send_embedding(bottom(x_p), party=0)), [x_p]))
    return run


def main(config: str, csv: str | None = None) -> Outcome:
    """Train with every seed of the search, and print its numbers beside this loop's."""
    cfg = load_config(config)
    if cfg.mode != "label_only":
        raise SystemExit(f"{config}: expected a setting of mode label_only, got {cfg.mode}; see own_loop_split.py")
    found = cfg.outcome([train(cfg, csv, seed) for seed in cfg.seeds])
    for name, here, searched in zip(("utility", "leakage"), found.objectives, cfg.measured.in_search, strict=True):
        error = getattr(cfg.measured, f"{name}_std") / len(cfg.seeds) ** 0.5
        print(f"{name} {here:.4f}; in the search {searched:.4f}, standard error {error:.4f}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", help="what tune-vfl export wrote")
    parser.add_argument("csv", nargs="?", help="the table, where it does not lie where it was searched")
    given = parser.parse_args()
    main(given.config, given.csv)
