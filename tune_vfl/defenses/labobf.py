"""LabObf: classes split into sub-classes by random numbers of all parties, trained on as interleaved numbers."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.defenses.parts.by_id import RowTable
from tune_vfl.errors import ShapeError, UsageError
from tune_vfl.protocol.mechanism import ClassParts, Mechanism
from tune_vfl.seeds import Stream, Streams
from tune_vfl.spec import Strict
from tune_vfl.spec.cell import Mode

LARGEST = 200
"""Each party's random numbers are the integers from 0 to this one; its column holds them divided by it."""
EPSILON = ((0.0, 0.8), (0.2, 1.0))
"""The values picked by hand for the data set Epsilon, a class in each row."""

TableName = Literal["interleave", "interleave_half", "epsilon"]


class LabobfParams(Strict):
    """Parameters of :class:`Labobf`."""

    bins: int = Field(2, ge=2, le=4, description="sub-classes of each class, m")
    table: TableName = Field(
        "interleave",
        description="the sub-classes' values. interleave: (class + K * bin) / (m K - 1), from 0 to 1; interleave_half: "
        "(class + K * bin) / 2; epsilon: 0 and 0.8, 0.2 and 1 (two classes, two bins)",
    )
    decode: Literal["nearest", "bin_aware"] = Field(
        "nearest",
        description="nearest: the class of the nearest of all values; bin_aware: of those of the row's own bin, which "
        "the label party knows",
    )
    honest: bool = Field(
        True, description="false: the first passive party reports other numbers than those it trains on"
    )


def soft_values(num_classes: int, bins: int, table: TableName = "interleave") -> Tensor:
    """Return the value ``(K, m)`` that stands for each sub-class.

    Neighboring values belong to different classes; the values of one class lie K steps apart.
    """
    if table == "epsilon":
        return torch.tensor(EPSILON)
    places = torch.arange(num_classes).unsqueeze(-1) + num_classes * torch.arange(bins)
    return places / 2 if table == "interleave_half" else places / (bins * num_classes - 1)


@cache
def cut_points(parties: int, bins: int) -> tuple[int, ...]:
    """Return the ``bins - 1`` largest sums of each bin but the last: quantiles of the sum of all parties' numbers.

    The first bins are the smallest that hold at least their share of all rows: up to 200 for two parties and two bins.
    """
    ways = [1]  # how many draws of all parties have the sum 0, 1, ...
    for _ in range(parties):
        before = [0] * LARGEST + ways + [0] * LARGEST
        ways = [sum(before[total : total + LARGEST + 1]) for total in range(len(ways) + LARGEST)]
    up_to = list(accumulate(ways))
    return tuple(bisect_left(up_to, up_to[-1] * share, key=lambda n: n * bins) for share in range(1, bins))


def draw_numbers(stream: Stream, rows: int) -> Tensor:
    """Draw uniform integers from 0 to :data:`LARGEST`: ``(*seeds, rows)``, as floats."""
    return (stream.uniform(rows) * (LARGEST + 1)).floor()


@defense("labobf")
class Labobf(Defense[LabobfParams]):
    """Each class becomes m sub-classes, and the model regresses on one number per sub-class, interleaved with the rest.

    Before training every party appends a column of random integers from 0 to 200 (divided by 200) to its rows and tells
    the label party which (:meth:`extend`). The sum of a row's numbers decides on its sub-class, by quantiles of equal
    probability; the model has one output and a squared error. Bottom models have to pass the random numbers on, and so
    embeddings gather by sub-class. A passive party knows its own numbers, and by them the odds of each bin: what an
    attack can condition on (``pmc``, variant ``conditioned``). A party that reports numbers it does not train on ruins
    the model for all. There is no setting that is the same as no defense. Source: He et al., section 5 and algorithm 2,
    which have two parties; with more all numbers are added up.
    """

    summary = "classes split by random columns of all parties and trained on as interleaved numbers"
    reference = (
        "He et al. 2024, LabObf: A Label Protection Scheme for Vertical Federated Learning Through Label Obfuscation"
    )
    paper_attacks = ("pmc", "embedding_extension")
    Params = LabobfParams
    capabilities = DefenseCapabilities(
        stackable=True,
        modes=frozenset({"split"}),
        modalities=frozenset({"table"}),
        run_by="both",
        protects=("labels", "embeddings"),
        needs_active_features=True,
        head="scalar",
        random=("labels",),
    )

    def __init__(
        self,
        params: LabobfParams | Sequence[LabobfParams],
        *,
        num_classes: int,
        embedding_dims: Sequence[int],
        mode: Mode = "split",
    ) -> None:
        super().__init__(params, num_classes=num_classes, embedding_dims=embedding_dims, mode=mode)
        bins, parties = [p.bins for p in self.members], len(embedding_dims) + 1
        self._values = self._by_member([soft_values(num_classes, m, self.shared.table) for m in bins])
        self._cuts = self._by_member([torch.tensor(cut_points(parties, m), dtype=torch.float32) for m in bins])
        self._sums: Tensor | None = None

    @classmethod
    def problems(cls, params: LabobfParams, *, num_classes: int, mode: Mode) -> list[str]:
        """Refuse Epsilon's table for another shape, and the decoder that needs true reports of a party that lies."""
        found = []
        if params.table == "epsilon" and (num_classes, params.bins) != (2, 2):
            found.append(
                f"labobf: table epsilon is for two classes and two bins, got {num_classes} and {params.bins}; "
                "use interleave"
            )
        if params.decode == "bin_aware" and not params.honest:
            found.append("labobf: decode bin_aware needs honest reports; with honest: false use nearest")
        return found

    def extend(
        self, features: Sequence[Tensor], *, seed: int | Sequence[int], part: Literal["train", "test"]
    ) -> list[Tensor]:
        """H0, before the models are built: append each party's random column; the training rows' are remembered.

        Args:
            features: ``(*seeds, n, d)`` of each passive party, then the label party's own.
            seed: the seed of the rows, or one for each entry of their leading axis.
            part: which rows they are.

        Returns:
            The same rows with one column more, in the same order.

        Raises:
            UsageError: without the rows of every party, the label party's own among them.
        """
        wanted = len(self.embedding_dims) + 1
        if len(features) != wanted:
            raise UsageError(
                f"labobf: expected the rows of {wanted - 1} passive parties and the label party's own, got "
                f"{len(features)} tensors; the label party needs features"
            )
        streams = Streams(seed if isinstance(seed, int) else list(seed), prefix=f"{self.stream_prefix}{part}/")
        rows, own = features[0].shape[-2], len(features) - 1
        drawn = [draw_numbers(streams["own" if k == own else f"passive/{k}"], rows) for k in range(own + 1)]
        if part == "train":
            reports = list(drawn) if self.shared.honest else [draw_numbers(streams["lie"], rows), *drawn[1:]]
            self._sums = torch.stack(reports).sum(0)
        return [torch.cat([x, (r / LARGEST).to(x).unsqueeze(-1)], -1) for x, r in zip(features, drawn, strict=True)]

    def setup(
        self, y: Tensor, ids: Tensor, *, active_features: Tensor | None = None, seed: int | Sequence[int] = 0
    ) -> None:
        """H0: file the reports of the training rows under their ids.

        Raises:
            UsageError: when the rows were not extended first.
            ShapeError: when they were other rows.
        """
        super().setup(y, ids, active_features=active_features, seed=seed)
        if self._sums is None:
            raise UsageError(
                "labobf: the parties' rows have no random columns yet; before the models are built, call "
                'extend([passive, own], seed=0, part="train")'
            )
        if self._sums.shape[-1] != y.shape[-1]:
            extended, here = self._sums.shape[-1], y.shape[-1]
            raise ShapeError(f"labobf: {extended} rows were extended and {here} are set up; hand over the same rows")
        sums = self._sums.to(y.device)
        self._reported = sums.repeat(len(y) // len(sums), 1) if self.stacked else sums
        self._where = RowTable(ids)
        self._values, self._cuts = self._values.to(y.device), self._cuts.to(y.device)

    def labels(self, y: Tensor, ids: Tensor) -> Tensor:
        """H1: return the values ``(*trials, B)`` of these rows' sub-classes."""
        bins = self._bins(self._reported.gather(-1, self._where.positions(ids)))
        return self._values.flatten(-2).gather(-1, y * self._values.shape[-1] + bins)

    def loss(self, logits: Tensor, targets: Tensor, embeddings: Sequence[Tensor]) -> Tensor:
        """H5: the squared error ``(*trials,)`` of one output, a mean over the batch."""
        return (logits.squeeze(-1) - targets).square().mean(-1)

    def decode(self, logits: Tensor) -> Tensor:
        """H10: return minus the distance to each class's nearest value, ``(*trials, B, K)``."""
        return -self._distances(logits).amin(-1)

    def decode_rows(self, logits: Tensor, features: Sequence[Tensor]) -> Tensor:
        """H10 for rows with their random columns: within their own bin, where the decoder is to be aware of it."""
        if self.shared.decode != "bin_aware":
            return self.decode(logits)
        total = torch.stack([x[..., -1] for x in features]).sum(0)
        distances = self._distances(logits)
        bins = self._bins((total * LARGEST).round())[..., None, None].expand(*distances.shape[:-1], 1)
        return -distances.gather(-1, bins).squeeze(-1)

    def mechanism(self) -> Mechanism | None:
        """Return the values of all sub-classes and the bins' cut points, where reports are honest."""
        if not self.shared.honest:
            return None
        parts = ClassParts(self._values.cpu(), self._cuts.cpu(), len(self.embedding_dims) + 1, LARGEST)
        return Mechanism(parts=parts)

    def notes(self, member: int = 0) -> list[str]:
        """Say so where a party lies."""
        if self.shared.honest:
            return []
        return ["labobf: the first passive party reports other random numbers than those it trains on"]

    def _bins(self, sums: Tensor) -> Tensor:
        """Return the bin ``(*trials, B)`` of each row by the sum of its parties' numbers."""
        return (sums.unsqueeze(-1) > self._cuts.unsqueeze(-2)).sum(-1)

    def _distances(self, logits: Tensor) -> Tensor:
        """Return the distances ``(*trials, B, K, m)`` of one output to all values."""
        return (logits.unsqueeze(-1) - self._values.unsqueeze(-3)).abs()

    def _by_member(self, tables: Sequence[Tensor]) -> Tensor:
        """Stack the members' tables; infinity, which no number reaches, fills up those with fewer bins."""
        widest = max(t.shape[-1] for t in tables)
        padded = [torch.nn.functional.pad(t, (0, widest - t.shape[-1]), value=math.inf) for t in tables]
        return torch.stack(padded) if self.stacked else padded[0]
