"""Bottom models of an architecture, drawn from a seed."""

from torch import nn

from tune_vfl.models.base import MODELS
from tune_vfl.seeds import Stream


def bottom(name: str, shape: tuple[int, ...], seed: int = 0, **options: object) -> nn.Module:
    made = MODELS[name](MODELS[name].Options.model_validate(options))
    return made.bottom(shape, made.options.embedding_dim, Stream(seed, "init"))
