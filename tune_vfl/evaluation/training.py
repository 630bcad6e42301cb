"""Train a pack: from a task and its members' settings to a trained network and the recorded material of attacks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from tune_vfl.attacks.base import Attack
from tune_vfl.data.base import Dataset, Split
from tune_vfl.data.split import split as split_for_seed
from tune_vfl.data.split import stacked_split
from tune_vfl.defenses.base import Defense
from tune_vfl.evaluation.before_end import BeforeEnd
from tune_vfl.evaluation.grants.base import keepers_for, view_of
from tune_vfl.evaluation.keeper import Keeper
from tune_vfl.evaluation.row_variance import row_variance
from tune_vfl.evaluation.run import Run
from tune_vfl.evaluation.table import Trained, write_training
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.teacher_rows import label_party_rows
from tune_vfl.metrics.utility import utility
from tune_vfl.models.base import VflNetwork, build
from tune_vfl.protocol.loop import SplitTraining, overriding
from tune_vfl.protocol.members import Pack, Rows
from tune_vfl.seeds import Streams
from tune_vfl.spec import RowsUsed, Strict

_ROWS_AT_ONCE = 4096


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
    return build(
        task.architecture,
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
        task: the task to evaluate.
        params: one set of defense parameters per trial, of equal structure.
        pack: the members of the training.
        attacks: those that watch, or the one that takes part in the training after the defense.
        deadline: ``time.monotonic()`` after which TimeoutError is raised, looked at once an epoch.
        device: where the network is trained; weights and orders are the same on every device, noise is the device's.

    Returns:
        The finished training; its table holds utility, lost members, the defense's notes and values, and the seconds.
    """
    start, recipe = time.perf_counter(), task.cell.training
    defense, network, rows, split = prepared(task, params, pack, widened=sum(a.widens for a in attacks), device=device)
    before = Run(task, pack, rows, network)
    parts = [hook for a in attacks if a.capabilities.acts for hook in a.hooks(recipe, view_of(a, before))]
    keepers = {kind: kind(attacks, recipe, split.y_train.shape[-1]) for kind in keepers_for(attacks)}
    ready = time.perf_counter()
    near = [BeforeEnd(recipe.epochs * -(-split.y_train.shape[-1] // recipe.batch_size))] if undefended(task) else []
    loop = SplitTraining(network, Rows(split, pack), recipe, [defense, *parts, *near, *keepers.values()], pack.lead)
    for hook in near:
        hook.look = lambda: scores_before_end(loop, defense, split, pack)
    for keeper in keepers.values():
        keeper.begin(loop)
    loop.run(deadline=deadline)
    scores = scores_on_test_rows(loop, defense, split, pack).cpu()
    on_training = scores_on_training_rows(loop, defense, split, pack).cpu() if task.asks_training_rows else None
    for keeper in keepers.values():  # after everything else that draws noise: asking for it must move nothing
        keeper.end(loop)
    seconds = {"setup": ready - start, "train": time.perf_counter() - ready}
    run = replace(before, network=network.cpu(), keepers=keepers)
    fill(run, defense, scores, loop.diverged.cpu(), seconds)
    if near and near[0].scores is not None:
        run.table["before_end", "utility"] = utilities(run, near[0].scores)
    if on_training is not None:
        run.table["training_rows", "utility"] = utilities(run, on_training, run.y_train)
    return run


class Prepared(NamedTuple):
    """The state of a training before its first step.

    Attributes:
        defense: set up.
        network: with the defense's layers in it, on the device.
        rows: of the pack, with the defense's extension columns; ``split``: the same on the device.
    """

    defense: Defense
    network: VflNetwork
    rows: Split
    split: Split


def prepared(task: Task, params: Sequence[Strict], pack: Pack, *, widened: int = 0, device: str = "cpu") -> Prepared:
    """Prepare a training up to its first step; arguments are those of :func:`train_pack`.

    Args:
        task: the task to train.
        params: one set of defense parameters per trial.
        pack: the members of the training.
        widened: columns that attackers add to the first passive party's embedding.
        device: where the network is trained.
    """
    defense = build_defense(task, params, pack, widened=widened)
    rows = extended(split_of(task, pack), defense, pack)
    network = build_network(task, rows, pack, Streams(pack.member_seeds), widened=widened).to(device)
    split = rows.to(device)
    set_up(defense, network, split, pack)
    return Prepared(defense, network, rows, split)


def undefended(task: Task) -> bool:
    """Return whether the task trains the undefended model."""
    return task.cell.defense == "none"


def scores_before_end(loop: SplitTraining, defense: Defense, split: Split, pack: Pack) -> Tensor:
    """Return :func:`scores_on_test_rows` of a network whose training continues afterwards."""
    loop.network.eval()
    scores = scores_on_test_rows(loop, defense, split, pack)
    loop.network.train()
    return scores


def utilities(run: Run, scores: Tensor, labels: Tensor | None = None) -> list[float]:
    """Return each member's utility of ``(*trials, n, K)`` class scores; NaN for scores that are not finite.

    Args:
        run: the training.
        scores: on the CPU.
        labels: ``(*trials, n)``; None takes those of the test rows.
    """
    by_member = scores.reshape(-1, *scores.shape[-2:])
    truth = run.y_test if labels is None else labels
    return utilities_of(run.task.cell.metric, by_member, truth.reshape(len(by_member), -1))


def utilities_of(metric: str, scores: Tensor, labels: Tensor) -> list[float]:
    """Return the utility of each of ``(members, n, K)`` class scores; NaN for scores that are not finite.

    Args:
        metric: the utility metric.
        scores: on the CPU.
        labels: ``(members, n)``.
    """
    by_member = scores.double().numpy()
    finite = np.isfinite(by_member).all((1, 2))
    return [
        utility(metric, s, y) if sound else float("nan")
        for s, y, sound in zip(by_member, labels.numpy(), finite, strict=True)
    ]


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


def fill(run: Run, defense: Defense, scores: Tensor, diverged: Tensor, seconds: Mapping[str, float]) -> None:
    """Write a training's results into its table, one row per member.

    Args:
        run: the training.
        defense: as it ended.
        scores: ``(*trials, n_test, K)`` class scores of the test rows.
        diverged: ``(*trials,)`` bool.
        seconds: wall seconds of the whole pack by stage; each member gets an equal share.
    """
    by_member = scores.reshape(-1, *scores.shape[-2:])
    # Weights may end finite and yet too large for the logits to be: that is a lost training, not a failed evaluation.
    gone = (diverged.reshape(-1) | ~torch.isfinite(by_member).all(-1).all(-1)).tolist()
    labels = run.y_test.reshape(len(by_member), -1).numpy()
    metric = run.task.cell.metric
    variance = [
        float("nan") if g else row_variance(metric, s, y)
        for g, s, y in zip(gone, by_member.double().numpy(), labels, strict=True)
    ]
    notes = [defense.notes(member) for member in range(len(gone))]
    logged = {name: [float(x) for x in values] for name, values in defense.logged().items()}
    write_training(run.table, Trained(gone, utilities(run, scores), variance, notes, logged, seconds))


@torch.no_grad()
def scores_on_test_rows(loop: SplitTraining, defense: Defense, split: Split, pack: Pack) -> Tensor:
    """Return the class scores ``(*trials, n_test, K)`` of the test rows, sent as in training (H3) and decoded (H10)."""
    return _scores(loop, defense, [pack.spread(x) for x in split.features("test")])


@torch.no_grad()
def scores_on_training_rows(loop: SplitTraining, defense: Defense, split: Split, pack: Pack) -> Tensor:
    """Return the class scores ``(*trials, N, K)`` of the unchanged training rows, a few thousand at a time."""
    axis = len(loop.lead)
    parts = zip(*(torch.split(pack.spread(x), _ROWS_AT_ONCE, axis) for x in split.features("train")), strict=True)
    return torch.cat([_scores(loop, defense, list(part)) for part in parts], axis)


def _scores(loop: SplitTraining, defense: Defense, features: list[Tensor]) -> Tensor:
    network = loop.network
    parties = len(network.bottoms)
    embeddings = [bottom(x) for bottom, x in zip(network.bottoms, features[:parties], strict=True)]
    for send in overriding(loop.hooks, "send_embedding"):
        embeddings = [send(e, party=party) for party, e in enumerate(embeddings)]
    own = [network.own_bottom(x) for x in features[parties:]] if network.own_bottom is not None else []
    return defense.decode_rows(network.head(network.join([*embeddings, *own])), features)


def set_up(defense: Defense, network: VflNetwork, split: Split, pack: Pack) -> None:
    """H0, H2 and H4: show the defense the training rows, and let it put its layers into the network."""
    view = label_party_rows(split, full_view=defense.wants_full_view)
    y = pack.spread(split.y_train)
    ids = torch.arange(y.shape[-1], device=y.device).expand(y.shape)
    defense.setup(y, ids, active_features=None if view is None else pack.spread(view), seed=pack.member_seeds)
    wrap(network, defense)


def wrap(network: VflNetwork, defense: Defense) -> None:
    """H2 and H4: let the defense put layers into the passive bottoms and the top."""
    network.bottoms = nn.ModuleList([defense.wrap_bottom(b) for b in network.bottoms])
    if network.top is not None:
        network.top = defense.wrap_top(network.top)
