"""Shared parts of deep image nets: weights from a stream or a file, batch norms for any batch, rows in chunks."""

from __future__ import annotations

import math
import pickle
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from tune_vfl.errors import SpecError
from tune_vfl.models.base import Architecture, ModelOptions, Width
from tune_vfl.models.layers import stack_of
from tune_vfl.seeds import Stream

_AT_ONCE = 256

M = TypeVar("M", bound=nn.Module)


class DeepOptions(ModelOptions):
    """Options of deep nets for images: hidden widths of the top model."""

    top_hidden: tuple[Width, ...] = Field(
        (20, 10, 10), description="hidden widths of the top model; three make FCNN-4, none FCNN-1"
    )


class CutOptions(DeepOptions):
    """Options of nets that can be cut between any two of their stages, see :class:`tune_vfl.models.cutting.CutNet`."""

    cut: int | None = Field(
        None,
        ge=1,
        description="how many of the convolutions are the bottom's, which then sends its feature maps whatever "
        "embedding_dim is; none: all of them, and a linear map to the embedding",
    )

    @property
    def cuts(self) -> tuple[int, ...]:
        """After how many convolutions the net can be cut."""
        return ()

    @model_validator(mode="after")
    def _between_stages(self) -> Self:
        if self.cut is not None and self.top == "none":
            raise ValueError("cut: without a top model there is nothing to cut")
        if self.cut is not None and self.cut not in self.cuts:
            raise ValueError(f"cut: expected one of {', '.join(map(str, self.cuts))}")
        return self


class PretrainedOptions(CutOptions):
    """Options of nets for which torchvision publishes weights."""

    weights: str | None = Field(
        None,
        description="file of torchvision's weights of this net to start from; its last layer is left out, and its "
        "first where that has another shape here; none: drawn from the seed",
    )


T_co = TypeVar("T_co", bound=DeepOptions, covariant=True)


class DeepNet(Architecture[T_co]):
    """Base class: a trunk of convolutions, a linear map from its output to the embedding, and an MLP on top."""

    stackable = False
    modalities = frozenset({"image"})

    def bottom(self, shape: tuple[int, ...], d_out: int, stream: Stream) -> nn.Module:
        """Build the bottom for images of ``shape`` (C, H, W).

        Raises:
            SpecError: where the options name weights that cannot be read, or that are another net's.
        """
        trunk = self.started(shape, stream)
        with torch.no_grad():
            width = trunk.eval()(torch.zeros(1, *shape)).shape[-1]
        return nn.Sequential(InPortions(trunk.train()), *self.head(width, d_out, stream))

    @abstractmethod
    def trunk(self, shape: tuple[int, ...]) -> nn.Module:
        """Build ``(B, C, H, W) -> (B, width)``; its weights are drawn afterward."""

    def started(self, shape: tuple[int, ...], stream: Stream) -> nn.Module:
        """Build the trunk with initial weights, drawn or from the file in the options.

        Raises:
            SpecError: where that file cannot be read, or is another net's.
        """
        trunk = drawn(without_weights(lambda: self.trunk(shape)), stream)
        weights = getattr(self.options, "weights", None)
        if weights is not None:
            load_weights(trunk, str(weights))
        return trunk

    def head(self, width: int, d_out: int, stream: Stream) -> list[nn.Module]:
        """Build ``(B, width) -> (B, d_out)``, the layers between the trunk and the cut."""
        return stack_of([width, d_out], nn.ReLU, stream=stream)

    def top(self, d_in: int, d_out: int, stream: Stream) -> nn.Module:
        """Build ``d_in - hidden... - d_out``."""
        return nn.Sequential(*stack_of([d_in, *self.options.top_hidden, d_out], nn.ReLU, stream=stream))


# Every batch norm of torch: they have no public base.
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


class BatchNorm(nn.BatchNorm2d):
    """Batch norm that accepts a batch of one value a channel, normalized by the running statistics.

    Such a batch occurs: the last batch of an epoch may be a single row, and of a small image a deep net may leave a
    single place.
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name for it
        """Map ``(B, C, H, W)`` to the same shape."""
        if self.training and input.numel() == self.num_features:
            return F.batch_norm(
                input, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps
            )
        return super().forward(input)


class InPortions(nn.Module):
    """Evaluates a net on a few hundred rows at a time: the activations of thousands would fill the memory.

    In training, and where gradients are needed, all rows pass at once.

    Args:
        net: ``(B, ...) -> (B, d)``, each row on its own in evaluation.
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(B, ...)`` to ``(B, d)``."""
        if self.training or torch.is_grad_enabled() or len(x) <= _AT_ONCE:
            whole: Tensor = self.net(x)
            return whole
        return torch.cat([self.net(part) for part in torch.split(x, _AT_ONCE)])


def without_weights(make: Callable[[], M]) -> M:
    """Build a module without drawing its weights, so that nothing is drawn from torch's global generator."""
    with torch.device("meta"):
        module = make()
    return module.to_empty(device="cpu")


@torch.no_grad()
def drawn(net: M, stream: Stream) -> M:
    """Draw a convolutional net's weights: N(0, 2 / fan_out), biases 0, batch norms 1 and 0 (He et al. 2015)."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            fan_out = module.weight[:, 0].numel()
            module.weight.copy_(stream.normal(*module.weight.shape) * math.sqrt(2 / fan_out))
            if module.bias is not None:
                module.bias.zero_()
        elif isinstance(module, nn.BatchNorm2d):
            module.reset_parameters()
    return net


def load_weights(net: nn.Module, path: str) -> None:
    """Load a net's weights from a file that torchvision's ``state_dict`` was saved to.

    Layers of the file that follow the convolutions are not used. The first convolution keeps the weights it has where
    its shape differs: it has a smaller kernel for small images, and one channel for gray ones.

    Raises:
        SpecError: when the file cannot be read, or holds another net's weights.
    """
    own = net.state_dict()
    first = next(iter(own))
    state = _state(path)
    counts = [name for name in own if name.endswith("num_batches_tracked")]  # files of old releases lack them
    for name, tensor in own.items():
        found = state.get(name)
        if name not in counts and not isinstance(found, Tensor):
            raise SpecError(f"model.weights {path!r}: holds no {name!r}; it is another net's, or not a state_dict")
        if isinstance(found, Tensor) and found.shape == tensor.shape:
            tensor.copy_(found)
        elif name not in (first, *counts):
            raise SpecError(
                f"model.weights {path!r}: {name!r} is {tuple(found.shape)}, expected {tuple(tensor.shape)}; it is "  # type: ignore[union-attr]
                "another net's"
            )


def _state(path: str) -> dict[str, Any]:
    try:
        state = torch.load(Path(path).expanduser(), map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError) as error:
        why = next(iter(str(error).splitlines()), type(error).__name__)
        raise SpecError(
            f"model.weights {path!r}: cannot be read ({why}); give a file that torch.save wrote a state_dict to"
        ) from error
    if not isinstance(state, dict):
        raise SpecError(f"model.weights {path!r}: holds a {type(state).__name__}, expected a state_dict")
    return state
