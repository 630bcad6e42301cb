"""Train a pack: from a cell and the settings of its members to a trained network and what the attacker received."""

from __future__ import annotations

import copy
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

from tune_vfl.attacks.base import Attack
from tune_vfl.data import load
from tune_vfl.data.base import Dataset, Split
from tune_vfl.data.split import split as split_for_seed
from tune_vfl.defenses.base import DEFENSES, Defense
from tune_vfl.evaluation.granting import Surroundings, grant
from tune_vfl.evaluation.resolving import build_architecture
from tune_vfl.models.base import Architecture, ModelOptions, VflNetwork, build
from tune_vfl.protocol.hooks import Hooks
from tune_vfl.protocol.loop import SplitTraining, overriding
from tune_vfl.protocol.members import Pack, Rows
from tune_vfl.protocol.recorder import GradientRecorder
from tune_vfl.protocol.view import Moment, Recording
from tune_vfl.seeds import Stream, Streams
from tune_vfl.spec import Strict
from tune_vfl.spec.cell import Cell

_CHUNK = 4096


BAG = 1024
"""Bins of the bag of tokens that teachers read of a text."""


@dataclass(frozen=True, eq=False)
class Run:
    """A trained pack and everything that its evaluation reads.

    Attributes:
        pack: who trained together.
        split: the rows, stacked over the pack's seeds (not over its trials), with what the defense had parties add.
        network: trained, in eval mode, on the CPU.
        untrained_bottom: the first passive party's bottom model before the first step, None unless asked for.
        sent: ``(*trials, N, d)`` what the first passive party sends for the training rows, None unless asked for.
        test_scores: ``(*trials, n_test, K)`` class scores of the test rows, through the defense's decoder.
        defense: as it ended.
        recordings: what the attacking party received, by moment.
        diverged: ``(*trials,)`` bool.
        seconds: wall seconds of ``setup`` and ``train``.
    """

    pack: Pack
    split: Split
    network: VflNetwork
    test_scores: Tensor
    defense: Defense
    recordings: dict[Moment, Recording]
    diverged: Tensor
    seconds: dict[str, float]
    sent: Tensor | None = None
    untrained_bottom: nn.Module | None = None

    def known_bottom(self, name: str) -> nn.Module:
        """Return the first passive party's bottom model as the label party knows it, guessing from stream ``name``."""
        return self.defense.disguised(self.network.bottoms[0], stream=Stream(self.pack.member_seeds, name))


@lru_cache(maxsize=4)
def _stacked_split(dataset: Dataset, seeds: tuple[int, ...]) -> Split:
    return Split.stack([split_for_seed(dataset, seed) for seed in seeds])


def split_of(dataset: Dataset, pack: Pack) -> Split:
    """Return the rows of a pack; packs of the same seeds share them."""
    return split_for_seed(dataset, pack.seeds[0]) if pack.trials is None else _stacked_split(dataset, pack.seeds)


def extended(split: Split, defense: Defense, pack: Pack) -> Split:
    """Return the rows of a pack with the columns that the defense has the parties add."""
    if type(defense).extend is Defense.extend:
        return split
    seed = pack.seeds[0] if pack.trials is None else pack.seeds
    train = defense.extend(split.features("train"), seed=seed, part="train")
    return split.with_features(train, defense.extend(split.features("test"), seed=seed, part="test"))


def build_network(
    split: Split,
    pack: Pack,
    architecture: Architecture[ModelOptions],
    streams: Streams,
    *,
    dataset: Dataset,
    widened: int = 0,
) -> VflNetwork:
    """Build a network for a pack's rows of a data set, with weights from ``streams``."""
    axes = 1 if pack.trials is None else 2
    return build(
        architecture,
        passive_shapes=[tuple(x.shape[axes:]) for x in split.passive_train],
        own_shape=None if split.active_train is None else tuple(split.active_train.shape[axes:]),
        num_classes=dataset.num_classes,
        streams=streams,
        fields=[columns.fields for columns in dataset.parties],
        widened=widened,
    )


def build_defense(
    cell: Cell,
    params: Sequence[Strict],
    pack: Pack,
    dataset: Dataset,
    architecture: Architecture[ModelOptions],
    *,
    widened: int = 0,
) -> Defense:
    """Build the cell's defense for a pack: each trial's parameters, repeated for its seeds."""
    options = architecture.options
    width = architecture.outputs(dataset.num_classes) if options.top == "none" else options.embedding_dim
    members = params[0] if pack.trials is None else [p for p in params for _ in pack.seeds]
    dims = [width + widened, *[width] * (len(dataset.passive) - 1)]
    return DEFENSES[cell.defense](members, num_classes=dataset.num_classes, embedding_dims=dims, mode=cell.mode)


def label_party_rows(split: Split, *, full_view: bool) -> Tensor | None:
    """Return what a defense's teacher may read: the label party's own rows, or every party's where that was allowed."""
    if not full_view:
        return None if split.active_train is None else numbers(split.active_train)
    lead = split.y_train.dim()
    return torch.cat([numbers(p).flatten(lead) for p in split.features("train")], dim=-1)


def numbers(rows: Tensor) -> Tensor:
    """Return rows as a small net reads them: tokens ``(*seeds, n, L)`` become counts in ``BAG`` bins, others stay."""
    if rows.is_floating_point():
        return rows
    bins = torch.where(rows == 0, BAG, rows % BAG)  # after a text's end there is nothing to count
    counts = torch.zeros(*rows.shape[:-1], BAG + 1, device=rows.device)
    return counts.scatter_add_(-1, bins, torch.ones_like(bins, dtype=counts.dtype))[..., :BAG]


def train_pack(
    cell: Cell,
    params: Sequence[Strict],
    pack: Pack,
    moments: Collection[Moment],
    *,
    acting: Attack[Strict] | None = None,
    keep_sent: bool = False,
    keep_untrained: bool = False,
    deadline: float | None = None,
    device: str = "cpu",
) -> Run:
    """Train a pack under its defense and record what the attacker receives.

    Args:
        cell: what is evaluated.
        params: one set of defense parameters per trial, of equal structure.
        pack: who trains together.
        moments: what the attacks want recorded.
        acting: the attack that takes part in it, after the defense.
        keep_sent: whether to keep what the first passive party sends for the training rows at the end.
        keep_untrained: whether to keep that party's bottom model as it was before the first step.
        deadline: ``time.monotonic()`` after which TimeoutError is raised, looked at once an epoch.
        device: where the network is trained; weights and orders are the same on every device, noise is the device's.
    """
    start = time.perf_counter()
    dataset = load(cell.dataset)
    architecture = build_architecture(cell.model)
    widened = acting.widens if acting else 0
    defense = build_defense(cell, params, pack, dataset, architecture, widened=widened)
    rows = extended(split_of(dataset, pack), defense, pack)
    network = build_network(rows, pack, architecture, Streams(pack.member_seeds), dataset=dataset, widened=widened).to(
        device
    )
    split = rows.to(device)
    set_up(defense, network, split, pack)
    untrained = copy.deepcopy(network.bottoms[0]).cpu() if keep_untrained else None
    recorder = GradientRecorder(moments, rows=split.y_train.shape[-1], epochs=cell.training.epochs)
    ready = time.perf_counter()
    around = Surroundings(dataset, rows, pack, network.bottoms[0], {})
    parts = [] if acting is None else acting.hooks(cell.training, grant(acting, around))
    hooks = [defense, *parts, *([recorder] if moments else [])]
    training = SplitTraining(network, Rows(split, pack), cell.training, hooks, pack.lead)
    trained = training.run(deadline=deadline)
    scores = scores_on_test_rows(network, defense, hooks, split, pack).cpu()
    # After everything else that draws noise, so that asking for it moves nothing.
    sent = sent_embeddings(network, hooks, pack.spread(split.passive_train[0]), pack).cpu() if keep_sent else None
    seconds = {"setup": ready - start, "train": time.perf_counter() - ready}
    return Run(
        pack=pack,
        split=rows,
        network=network.cpu(),
        test_scores=scores,
        defense=defense,
        recordings=recorder.recordings(),
        diverged=trained.diverged.cpu(),
        seconds=seconds,
        sent=sent,
        untrained_bottom=untrained,
    )


@torch.no_grad()
def scores_on_test_rows(
    network: VflNetwork, defense: Defense, hooks: Sequence[Hooks], split: Split, pack: Pack
) -> Tensor:
    """Return the class scores ``(*trials, n_test, K)`` of the test rows, sent as in training (H3) and decoded (H10)."""
    features = [pack.spread(x) for x in split.features("test")]
    parties = len(network.bottoms)
    embeddings = [bottom(x) for bottom, x in zip(network.bottoms, features[:parties], strict=True)]
    for send in overriding(hooks, "send_embedding"):
        embeddings = [send(e, party=party) for party, e in enumerate(embeddings)]
    own = [network.own_bottom(x) for x in features[parties:]] if network.own_bottom is not None else []
    return defense.decode_rows(network.head(network.join([*embeddings, *own])), features)


@torch.no_grad()
def sent_embeddings(network: VflNetwork, hooks: Sequence[Hooks], x: Tensor, pack: Pack) -> Tensor:
    """Return ``(*trials, N, d)``: what the first passive party sends (H3) for its rows ``x``, in evaluation mode."""
    axis = len(pack.lead)
    embedding = torch.cat([network.bottoms[0](part) for part in torch.split(x, _CHUNK, axis)], axis)
    for send in overriding(hooks, "send_embedding"):
        embedding = send(embedding, party=0)
    return embedding


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
