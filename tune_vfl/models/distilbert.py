"""DistilBERT at every party: half of BERT's layers and none of its token types."""

from __future__ import annotations

from typing import Any

from tune_vfl.models.base import model
from tune_vfl.models.bert import Bert, auto


@model("distilbert")
class DistilBert(Bert):
    """As ``bert``, with the architecture of Sanh et al. 2019; LADSG's teacher for texts is such a net."""

    summary = "DistilBERT at every party, from scratch or pretrained (model.pretrained), an MLP on top"
    reference = "Sanh et al. 2019, DistilBERT"

    def _config(self) -> Any:
        o = self.options
        return auto().DistilBertConfig(
            vocab_size=o.vocabulary,
            dim=o.hidden,
            n_layers=o.layers,
            n_heads=o.heads,
            hidden_dim=2 * o.hidden,
            max_position_embeddings=o.positions,
            dropout=0.0,
            attention_dropout=0.0,
        )
