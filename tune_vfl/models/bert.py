"""BERT at every party: trained from scratch, or from a pretrained model."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from tune_vfl.errors import SpecError
from tune_vfl.models.base import Architecture, ModelOptions, Width, model
from tune_vfl.models.layers import reseed, stack_of
from tune_vfl.seeds import Stream

_SPREAD = 0.02
"""Standard deviation of BERT's own starting weights."""
_DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout")


class BertOptions(ModelOptions):
    """A pretrained model by its folder or hub name, or the size of a model to train from scratch."""

    embedding_dim: int = Field(32, ge=1, description="width of each party's embedding")
    pretrained: str | None = Field(
        None, description="folder or hub name of a transformers model to start from; none: from scratch"
    )
    vocabulary: int = Field(8000, ge=10, description="tokens, from scratch; the data set's own number")
    positions: int = Field(65, ge=2, description="longest text, from scratch")
    hidden: int = Field(64, ge=1, description="width of its layers, from scratch")
    layers: int = Field(2, ge=1, description="number of its layers, from scratch")
    heads: int = Field(2, ge=1, description="attention heads, from scratch; divides hidden")
    top_hidden: tuple[Width, ...] = Field((32,), description="hidden widths of the top model")


class TextEncoder(nn.Module):
    """A transformers encoder, the mean of its outputs over a text's tokens, and a linear map to the embedding.

    Args:
        encoder: takes ``input_ids`` and ``attention_mask``.
        head: the linear map.
    """

    def __init__(self, encoder: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens ``(B, L)``, 0 after the end, to ``(B, d)``."""
        there = tokens != 0
        states = self.encoder(input_ids=tokens, attention_mask=there.long()).last_hidden_state
        weight = there.unsqueeze(-1).to(states.dtype)
        mean = (states * weight).sum(-2) / weight.sum(-2).clamp_min(1)
        embedding: Tensor = self.head(mean)
        return embedding


@model("bert")
class Bert(Architecture[BertOptions]):
    """A BERT for each party, the mean of its outputs over the tokens, and an MLP on top.

    There is no dropout, so that a seed decides the whole training. Source: Devlin et al. 2019, as in transformers.
    """

    summary = "BERT at every party, from scratch or pretrained (model.pretrained), an MLP on top"
    reference = "Devlin et al. 2019, BERT"
    Options = BertOptions
    stackable = False
    modalities = frozenset({"text"})

    def bottom(self, shape: tuple[int, ...], d_out: int, stream: Stream) -> nn.Module:
        """Build the encoder for texts of ``shape`` (L,).

        Raises:
            SpecError: when the options make no BERT, or nothing can be loaded from ``pretrained``.
        """
        encoder = self._pretrained() if self.options.pretrained else self._from_scratch(shape[0], stream)
        width = int(encoder.config.hidden_size)
        return TextEncoder(encoder, reseed(nn.Linear(width, d_out), stream))

    def top(self, d_in: int, d_out: int, stream: Stream) -> nn.Module:
        """Build ``d_in - hidden... - d_out``."""
        return nn.Sequential(*stack_of([d_in, *self.options.top_hidden, d_out], nn.ReLU, stream=stream))

    def _from_scratch(self, length: int, stream: Stream) -> Any:
        options = self.options
        if options.hidden % options.heads:
            raise SpecError(f"model.heads: {options.heads} heads do not divide hidden={options.hidden}")
        if length > options.positions:
            raise SpecError(f"model.positions: texts have {length} tokens a party, got {options.positions}")
        encoder = auto().AutoModel.from_config(self._config())
        _redraw(encoder, stream)
        return encoder

    def _config(self) -> Any:
        o = self.options
        return auto().BertConfig(
            vocab_size=o.vocabulary,
            hidden_size=o.hidden,
            num_hidden_layers=o.layers,
            num_attention_heads=o.heads,
            intermediate_size=2 * o.hidden,
            max_position_embeddings=o.positions,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )

    def _pretrained(self) -> Any:
        transformers, name = auto(), str(self.options.pretrained)
        try:
            config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
            if config.model_type not in ("bert", "distilbert"):
                raise SpecError(f"model.pretrained {name!r} is a {config.model_type}, expected a bert or distilbert")
            for share in _DROPOUTS:
                if hasattr(config, share):
                    setattr(config, share, 0.0)
            return transformers.AutoModel.from_pretrained(name, config=config, trust_remote_code=False)
        except (OSError, ValueError) as error:
            raise SpecError(
                f"model.pretrained {name!r}: no model can be loaded from it ({str(error).splitlines()[0]}); give the "
                "folder that save_pretrained wrote, or a name on the hub that this machine can reach"
            ) from error


def auto() -> Any:
    """Import transformers lazily, which takes seconds, and return it."""
    from tune_vfl.machine.vision import import_torchvision

    import_torchvision()  # transformers imports torchvision itself
    return importlib.import_module("transformers")


@torch.no_grad()
def _redraw(encoder: nn.Module, stream: Stream) -> None:
    """Draw all weights as BERT does: N(0, .02^2), biases 0, and in layer norms weights 1 and biases 0."""
    for module in encoder.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            module.weight.copy_(stream.normal(*module.weight.shape) * _SPREAD)
            if isinstance(module, nn.Linear) and module.bias is not None:
                module.bias.zero_()
            if isinstance(module, nn.Embedding) and module.padding_idx is not None:
                module.weight[module.padding_idx].zero_()
