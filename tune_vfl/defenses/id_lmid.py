"""Defense of boosted trees: nodes that say much of their rows' labels are not told, nor made by others' columns."""

from __future__ import annotations

from pydantic import Field
from torch import Tensor, maximum

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.spec import TREES, Strict


class IdLmidParams(Strict):
    """Parameters of :class:`IdLmid`."""

    bound: float = Field(
        0.1, ge=0, allow_inf_nan=False, description="nats that a told node may say of the labels, inside or outside"
    )


@defense("id_lmid")
class IdLmid(Defense[IdLmidParams]):
    """Bounds what the set of a node's rows says of labels.

    A node is told where the divergence of its rows' classes from those of all rows is at most a bound, and that of the
    rows outside too: D(p_in || p) and D(p_out || p), with p the shares of the classes. The mutual information of a
    label and of being in the node is their mean, and so bounded as well. Splits of others' columns whose sides are not
    both like that are passed over; where the label party's column makes one, both sides stay at home. At a bound of 0
    nothing is told.
    """

    summary = "nodes whose classes diverge from all rows' by more than a bound are not told"
    reference = "Takahashi et al. 2023, Eliminating Label Leakage in Tree-Based Vertical Federated Learning (ID-LMID)"
    Params = IdLmidParams
    paper_attacks = ("id2graph",)
    capabilities = DefenseCapabilities(protects=("nodes",), federations=TREES, modalities=frozenset({"table"}))
    weakest = {"bound": 1000.0}  # noqa: RUF012 - read only, as its declaration in the base says

    def tellable(self, rows: Tensor, *, of_all: Tensor) -> Tensor:
        """Let nodes be told that diverge by at most the bound, inside and outside."""
        farthest = maximum(divergence(rows, of_all), divergence(of_all - rows, of_all))
        return farthest <= self.shared.bound


def divergence(rows: Tensor, of_all: Tensor) -> Tensor:
    """Return the Kullback-Leibler divergence ``(...)``, in nats, of rows' classes ``(..., K)`` from those of all.

    Args:
        rows: of each class; none at all diverge by 0.
        of_all: ``(K,)`` of each class; none of a class: it counts for nothing.
    """
    shares = rows.clamp(min=0) / rows.clamp(min=0).sum(-1, keepdim=True).clamp(min=1e-12)
    expected = (of_all / of_all.sum()).clamp(min=1e-12)
    return (shares * (shares.clamp(min=1e-12) / expected).log()).sum(-1)
