"""Train a pack: from a task and its members' settings to a trained network and the recorded material of attacks."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tune_vfl.attacks.base import Attack
from tune_vfl.data.base import Dataset, Split
from tune_vfl.data.split import split as split_for_seed
from tune_vfl.data.split import stacked_split
from tune_vfl.defenses.base import Defense
from tune_vfl.evaluation.checks import NEARLY_DONE
from tune_vfl.evaluation.federations.base import FEDERATIONS
from tune_vfl.evaluation.grants.base import keepers_for
from tune_vfl.evaluation.keeper import Keeper
from tune_vfl.evaluation.run import Run
from tune_vfl.evaluation.table import write_seconds
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.teacher_rows import label_party_rows
from tune_vfl.models.base import VflNetwork
from tune_vfl.protocol.members import Pack
from tune_vfl.seeds import Streams
from tune_vfl.spec import RowsUsed, Strict

Measure = Callable[[str, NDArray[np.float64], NDArray[np.integer[Any]]], float]


def train_pack(
    task: Task,
    params: Sequence[Strict],
    pack: Pack,
    attacks: Sequence[Attack[Strict]] = (),
    *,
    deadline: float | None = None,
    device: str = "cpu",
) -> Run:
    """Train a pack under its defense, with the keepers of the attacks that share this training.

    Args:
        task: the task to train.
        params: one set of defense parameters per trial, of equal structure.
        pack: the members of the training.
        attacks: those that watch, or the one that takes part in the training after the defense.
        deadline: ``time.monotonic()`` after which TimeoutError is raised.
        device: where the network is trained.

    Returns:
        The finished training; its table holds utility, lost members, the defense's notes and values, and the seconds.
    """
    start = time.perf_counter()
    training = FEDERATIONS[task.cell.federation.name](task, params, pack, attacks, device=device)
    ready = time.perf_counter()
    nearly = max(1, math.floor(NEARLY_DONE * training.total)) if task.cell.defense == "none" else None
    before_end: list[float] | None = None
    for done, _ in enumerate(training.steps(deadline=deadline), 1):
        if done == nearly:
            before_end = training.utilities()
    run = training.finish()
    write_seconds(run.table, {"setup": ready - start, "train": time.perf_counter() - ready})
    if before_end is not None:
        run.table["before_end", "utility"] = before_end
    return run


@lru_cache(maxsize=4)
def _stacked_split(dataset: Dataset, seeds: tuple[int, ...], rows: RowsUsed) -> Split:
    return stacked_split(dataset, seeds, rows)


def split_of(task: Task, pack: Pack) -> Split:
    """Return the rows of a pack, those that the task's cell uses; packs of the same seeds share them."""
    dataset, rows = task.dataset, task.cell.rows
    if pack.trials is None:
        return split_for_seed(dataset, pack.seeds[0], rows)
    return _stacked_split(dataset, pack.seeds, rows)


def extended(split: Split, defense: Defense, pack: Pack) -> Split:
    """Return the rows of a pack with the extension columns that the defense adds to the parties."""
    if type(defense).extend is Defense.extend:
        return split
    seed = pack.seeds[0] if pack.trials is None else pack.seeds
    train = defense.extend(split.features("train"), seed=seed, part="train")
    return split.with_features(train, defense.extend(split.features("test"), seed=seed, part="test"))


def build_network(task: Task, split: Split, pack: Pack, streams: Streams, *, widened: int = 0) -> VflNetwork:
    """Build a network for a pack's rows, with weights from ``streams``."""
    axes = 1 if pack.trials is None else 2
    return task.architecture.network(
        passive_shapes=[tuple(x.shape[axes:]) for x in split.passive_train],
        own_shape=None if split.active_train is None else tuple(split.active_train.shape[axes:]),
        num_classes=task.dataset.num_classes,
        streams=streams,
        fields=[columns.fields for columns in task.dataset.parties],
        widened=widened,
    )


def embedding_width(task: Task) -> int:
    """Return the number of columns of a passive party's embedding and gradient."""
    return task.architecture.width(task.dataset.passive[0].shape, task.dataset.num_classes)


def build_defense(task: Task, params: Sequence[Strict], pack: Pack, *, widened: int = 0) -> Defense:
    """Build the task's defense for a pack: each trial's parameters, repeated for the trial's seeds."""
    dataset = task.dataset
    width = embedding_width(task)
    members = params[0] if pack.trials is None else [p for p in params for _ in pack.seeds]
    dims = [width + widened, *[width] * (len(dataset.passive) - 1)]
    return task.defense(members, num_classes=dataset.num_classes, embedding_dims=dims, mode=task.cell.mode)


def by_member(measure: Measure, metric: str, scores: Tensor, labels: Tensor) -> list[float]:
    """Return a measure of each member's class scores; NaN for scores that are not finite.

    Args:
        measure: of ``(n, K)`` scores and ``(n,)`` labels by a utility metric.
        metric: the utility metric.
        scores: ``(*members, n, K)``, on the CPU.
        labels: ``(*members, n)``.
    """
    scores = scores.reshape(-1, *scores.shape[-2:])
    finite = torch.isfinite(scores).flatten(1).all(1).tolist()
    rows = zip(finite, scores.double().numpy(), labels.reshape(len(scores), -1).numpy(), strict=True)
    return [measure(metric, s, y) if sound else math.nan for sound, s, y in rows]


def untrained(task: Task, pack: Pack, attacks: Sequence[Attack[Strict]] = (), start: int = 0) -> Run:
    """Return a pack with an untrained network, with weights of its own for each ``start``.

    What must be kept of a training for these attacks is kept of none: noise that carries nothing stands in for it,
    where a keeper knows such.
    """
    split = split_of(task, pack)
    streams = Streams(pack.member_seeds, prefix=f"untrained/{start}/" if start else "untrained/")
    keepers: dict[type[Keeper], Keeper] = {}
    for kind in keepers_for(attacks):
        if kind.stands_in():
            keepers[kind] = kind(attacks, task.cell.training, split.y_train.shape[-1])
            keepers[kind].keep_noise(embedding_width(task), streams)
    return Run(task, pack, split, build_network(task, split, pack, streams).eval(), keepers)


def set_up(defense: Defense, network: VflNetwork, split: Split, pack: Pack) -> None:
    """H0, H2 and H4: show the defense the training rows, and let it put its layers into the network."""
    show_rows(defense, split, pack)
    wrap(network, defense)


def show_rows(defense: Defense, split: Split, pack: Pack) -> None:
    """H0: show the defense the training rows and labels."""
    view = label_party_rows(split, full_view=defense.wants_full_view)
    y = pack.spread(split.y_train)
    ids = torch.arange(y.shape[-1], device=y.device).expand(y.shape)
    defense.setup(y, ids, active_features=None if view is None else pack.spread(view), seed=pack.member_seeds)


def wrap(network: VflNetwork, defense: Defense) -> None:
    """H2 and H4: let the defense put layers into the passive bottoms and the top."""
    network.bottoms = nn.ModuleList([defense.wrap_bottom(b) for b in network.bottoms])
    if network.top is not None:
        network.top = defense.wrap_top(network.top)
