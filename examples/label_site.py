"""The site with the labels: the loop of a training between sites, under the defense that a search found.

    python examples/label_site.py best.json [loans.csv] [--sites 2]

The other sites are objects with the methods of ``passive_site.PassiveSite``: in this process, or behind a network as
examples/nvflare and examples/flower have them.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from passive_site import PassiveSite
from torch import Tensor, nn

from tune_vfl import load_config
from tune_vfl.errors import TuneVflError, UsageError

if TYPE_CHECKING:
    from tune_vfl.config import ExportedConfig
    from tune_vfl.evaluation.own_loop import OwnLoop
    from tune_vfl.outcome import Outcome


UNFIT = ("mixup", "instahide", "labobf")
"""Defenses in which sites mix rows or add columns together: docs/own-loop.md says what they exchange for it."""


def train(
    cfg: ExportedConfig,
    sites: Sequence[PassiveSite],
    seed: int,
    csv: str | None = None,
    *,
    wire: torch.dtype = torch.float32,
    secret: int | None = None,
) -> OwnLoop:
    """Train with the passive sites, and have what was sent to them attacked.

    Args:
        cfg: the exported setting.
        sites: the passive ones, in any order: ``begin`` returns the number of each among the study's parties.
        seed: of the training; each of ``cfg.seeds`` gives the search's numbers.
        csv: the table, where it does not lie where it was searched.
        wire: the type in which embeddings and gradients go from site to site.
        secret: seed of the defense's noise. In a rehearsal it is that of the training, which all sites know; in use it
            must be known to this site alone, for who knows it can subtract the noise.
    """
    defense = cfg.build_defense(embedding_dims=[cfg.embedding_dim] * len(sites))
    run = cfg.own_loop(defense, seed=seed, path=csv)
    parts, y = run.split.features("train"), run.split.y_train  # the label party's columns, if any, come last
    own_columns = parts[len(sites)] if len(parts) > len(sites) else None
    known = torch.cat(parts, dim=1) if defense.wants_full_view else own_columns
    noise = seed if secret is None else secret
    defense.setup(y, torch.arange(len(y)), active_features=known, seed=noise)

    top = defense.wrap_top(run.top)
    own = None if own_columns is None else run.own_bottom
    models = nn.ModuleList([top] if own is None else [own, top]).train()
    optimizer, schedule = run.optimizer(models.parameters())
    bottoms = [defense.wrap_bottom(bottom) for bottom in run.bottoms]  # nets of the sites' form, not trained here
    run.begin(bottoms)
    begun = {int(site.begin(seed)): site for site in sites}
    if sorted(begun) != list(range(len(sites))):
        raise UsageError(f"{len(sites)} sites began as parties {sorted(begun)}: begin returns each one's, from 0")
    sites = [begun[party] for party in sorted(begun)]

    def logits_of(arrived: list[Tensor], columns: Tensor | None) -> Tensor:
        mine = [] if own is None else [own(columns)]
        scores: Tensor = top(run.join([*arrived, *mine]))
        return scores

    for epoch in range(cfg.training.epochs):
        for batch in run.rows.batches(cfg.training.batch_size):
            arrived = [site.embed(batch.ids).to(wire).float().requires_grad_() for site in sites]
            logits, targets = logits_of(arrived, batch.own), defense.labels(batch.y, batch.ids)
            defense.loss(logits, targets, arrived).backward(retain_graph=True)
            scale, sent = run.gradient_scale(batch), []
            for party, embedding in enumerate(arrived):
                assert embedding.grad is not None
                step = run.context(batch, epoch=epoch, logits=logits, targets=targets, embeddings=arrived, party=party)
                cut = defense.cut_gradient(embedding.grad * scale, y=batch.y, context=step, party=party) / scale
                sent.append(cut.to(wire))
            for site, gradient in zip(sites, sent, strict=True):
                site.learn(gradient.float(), float(schedule.get_last_lr()[0]))
            optimizer.step()
            optimizer.zero_grad()
            run.record(batch, epoch=epoch, sent=arrived, received=[gradient.float() for gradient in sent])
        schedule.step()

    models.eval()
    tests = run.split.features("test")
    with torch.no_grad():
        arrived = [site.embed_test().to(wire).float() for site in sites]
        scores = defense.decode_rows(logits_of(arrived, None if own is None else tests[-1]), tests)
    for bottom, site in zip(bottoms, sites, strict=True):
        bottom.load_state_dict(site.weights())
    run.measure(scores)
    return run


def prepare(config: str, folder: Path, csv: str | None = None, sites: int = 1) -> list[str]:
    """Write the folder of each passive site for a rehearsal, on a machine that may see all columns.

    Args:
        config: the exported file.
        folder: the place of the folders.
        csv: the table, where it does not lie where it was searched.
        sites: how many passive parties the study has.

    Returns:
        The folders, in the order of the study's parties.
    """
    cfg = load_config(config)
    if cfg.defense.name in UNFIT:
        raise UsageError(f"{config}: under {cfg.defense.name} sites mix rows or add columns together, and these do not")
    if cfg.model.name != "mlp":
        raise UsageError(f"{config}: passive_site.py builds an mlp, the study has {cfg.model.name}: build it there")
    defense = cfg.build_defense(embedding_dims=[cfg.embedding_dim] * sites)
    folders = [folder / f"site-{party + 1}" for party in range(sites)]
    for place in folders:
        place.mkdir(parents=True, exist_ok=True)
        if defense.capabilities.run_by != "active":
            shutil.copy(config, place / "best.json")
    for seed in cfg.seeds:
        run = cfg.own_loop(defense, seed=seed, path=csv)
        if len(run.bottoms) != sites:
            raise UsageError(
                f"{config}: expected {len(run.bottoms)} as the number of sites, "
                f"one for each passive party of the study, got {sites}"
            )
        train, test = run.split.features("train"), run.split.features("test")
        for party, (place, bottom) in enumerate(zip(folders, run.bottoms, strict=True)):
            steps, _ = run.optimizer(bottom.parameters())
            held = {"train": train[party], "test": test[party], "weights": bottom.state_dict()}
            recipe = {"optimizer": type(steps).__name__, "options": steps.defaults}
            torch.save({**held, **recipe, "party": party, "parties": sites}, place / f"{seed}.pt")
    return [str(place) for place in folders]


def report(cfg: ExportedConfig, runs: Sequence[OwnLoop]) -> Outcome:
    """Print utility and leakage of trainings with all seeds, the search's beside."""
    found = cfg.outcome(runs)
    for name, here, searched in zip(("utility", "leakage"), found.objectives, cfg.measured.in_search, strict=True):
        error = getattr(cfg.measured, f"{name}_std") / len(cfg.seeds) ** 0.5
        print(f"{name} {here:.4f}; in the search {searched:.4f}, standard error {error:.4f}")
    return found


def main(config: str, csv: str | None = None, sites: int = 1) -> Outcome:
    """Train with every seed of the search and all sites in this process; print its numbers beside this loop's."""
    cfg = load_config(config)
    with tempfile.TemporaryDirectory() as folder:
        passive = [PassiveSite(place) for place in prepare(config, Path(folder), csv, sites)]
        return report(cfg, [train(cfg, passive, seed, csv) for seed in cfg.seeds])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", help="what tune-vfl export wrote")
    parser.add_argument("csv", nargs="?", help="the table of a study of one file, where it has moved since the search")
    parser.add_argument("--sites", type=int, default=1, help="how many sites without labels the study has; default 1")
    given = parser.parse_args()
    try:
        main(given.config, given.csv, given.sites)
    except TuneVflError as error:
        raise SystemExit(str(error)) from error
