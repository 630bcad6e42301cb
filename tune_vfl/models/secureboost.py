"""SecureBoost: boosted trees over the columns of all parties, grown on sums of encrypted gradients."""

from __future__ import annotations

from typing import Literal, Unpack

from pydantic import Field

from tune_vfl.models.base import Learner, ModelOptions, RowsOfParties, VflNetwork, model
from tune_vfl.spec import TREES


class SecureBoostOptions(ModelOptions):
    """Options of trees. Those of networks stay what they are: trees send no embeddings."""

    aggregation: Literal["concat"] = Field("concat", exclude=True, description="of networks alone; leave it out")
    top: Literal["net"] = Field("net", exclude=True, description="of networks alone; leave it out")
    embedding_dim: Literal[1] = Field(1, exclude=True, description="of networks alone; leave it out")
    head: Literal["auto"] = Field("auto", exclude=True, description="of networks alone; leave it out")
    trees: int = Field(50, ge=1, le=10_000, description="rounds; each grows a tree, a tree a class for more than two")
    depth: int = Field(4, ge=1, le=10, description="levels of splits in a tree")
    learning_rate: float = Field(0.3, gt=0, le=1, description="factor of what each tree adds to the scores")
    bins: int = Field(32, ge=2, le=256, description="bins of a column, between which trees may split")
    rows: float = Field(1.0, gt=0, le=1, description="share of the rows, drawn for each round, that it is grown on")
    columns: float = Field(1.0, gt=0, le=1, description="share of all columns, drawn for each round, that may be split")
    min_child_weight: float = Field(
        1.0, ge=0, allow_inf_nan=False, description="the least sum of second derivatives on either side of a split"
    )
    l2: float = Field(1.0, ge=0, allow_inf_nan=False, description="added to the sum of second derivatives of a leaf")
    leaves: Literal["told", "kept"] = Field(
        "told",
        description="told: passive parties know the leaf of every row, as in XGBoost's vertical mode; kept: only the "
        "nodes that were still to be split, as in FATE, and both sides of their own splits",
    )


@model("secureboost")
class SecureBoost(Learner[SecureBoostOptions]):
    """Gradient boosting on histograms, grown level by level; the trees are those of one party with all columns.

    The label party chooses each split by the largest gain among all parties' bins. It brings the federation ``trees``
    along. Values of options are XGBoost's and FATE's defaults where these agree (bins, learning rate, ``l2``).
    """

    summary = "boosted trees (XGBoost over several parties)"
    reference = "Cheng et al. 2021, SecureBoost: A Lossless Federated Learning Framework"
    Options = SecureBoostOptions
    stackable = False
    federations = TREES
    brings = "trees"
    modalities = frozenset({"table"})

    def network(self, **rows: Unpack[RowsOfParties]) -> VflNetwork:
        """Return a network without parts: trees are no network."""
        return VflNetwork([], None, None, "concat")
