"""Passport layers: scale and shift come from the layer's own weights and from a secret input of the owner."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tune_vfl.models.layers import Linear
from tune_vfl.seeds import Stream

SLOPE = 0.01
"""Slope of the LeakyReLU between encoder and decoder."""
LINEAR = (Linear, nn.Linear)
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)


@dataclass(frozen=True, eq=False)
class Law:
    """The law of passports: each input channel has a mean from U(-mean_range, 0), entries are normal around it.

    Attributes:
        mean_range: ``(*trials, 1, 1)``.
        variance: ``(*trials, 1, 1)``.
        start: where the starting weights of encoder and decoder come from.
        secret: where passports come from.
    """

    mean_range: Tensor
    variance: Tensor
    start: Stream
    secret: Stream


def _starting(d_out: int, d_in: int, stream: Stream) -> nn.Parameter:
    return nn.Parameter((stream.uniform(d_out, d_in) * 2 - 1) / math.sqrt(d_in))


class PassportLayer(nn.Module):
    """Base: ``scale * norm(layer(x)) + shift``, both made from the layer's answers to two passports.

    Those answers, averaged over places, pass an encoder and a decoder without biases, which scale and shift share. So
    the layer's weights learn in three ways: through x and through each of the passports.

    Args:
        layer: the layer that gets passports; it stays, with its parameters.
        norm: applied to its output; never to the answers to passports.
        width: channels of its output.
        law: how passports are drawn.

    Attributes:
        passports: ``(*trials, 2, *shape of one input)``: the scale's and the shift's, no parameters.
    """

    # As buffers, so that a member that is taken out of a pack takes its own law and passports along.
    mean_range: Tensor
    deviation: Tensor
    passports: Tensor | None

    def __init__(self, layer: nn.Module, norm: nn.Module, width: int, law: Law) -> None:
        super().__init__()
        self.layer, self.norm = layer, norm
        hidden = max(1, width // 4)
        self.encode, self.decode = _starting(hidden, width, law.start), _starting(width, hidden, law.start)
        self.register_buffer("mean_range", law.mean_range)
        self.register_buffer("deviation", law.variance.sqrt())
        self.register_buffer("passports", None)
        self._secret = law.secret

    def draw(self, shape: Sequence[int]) -> Tensor:
        """Draw both passports for inputs of this shape: channels, then spatial axes if any."""
        means = self._secret.uniform(2, shape[0], *[1] * (len(shape) - 1)).to(self.mean_range)
        spread = self._secret.normal(2, *shape).to(self.mean_range)
        return spread * self.deviation - means * self.mean_range

    def redraw(self, stream: Stream) -> None:
        """Forget the passports; take others of the same law from ``stream``."""
        self._secret = stream
        if self.passports is not None:
            self.passports = self.draw(self.passports.shape[self.mean_range.dim() - 1 :])

    def secrets(self) -> tuple[Tensor, Tensor]:
        """Return scale and shift of the layer's normalized output, the secrets that passports determine."""
        raise NotImplementedError

    @staticmethod
    def finish(y: Tensor) -> Tensor:
        """Map the scaled and shifted output; by default the identity."""
        return y

    def scale_and_shift(self, answers: Tensor) -> list[Tensor]:
        """Decode the answers ``(*trials, 2, width)``; each of the two comes back as ``(*trials, 1, width)``."""
        encoded = nn.functional.leaky_relu(answers @ self.encode.transpose(-1, -2), SLOPE)
        decoded = encoded @ self.decode.transpose(-1, -2)
        return list(decoded.split_with_sizes((1, 1), dim=-2))


class PassportLinear(PassportLayer):
    """``tanh(scale) * layer(x) + tanh(shift)``: bounded, whatever the passports' size; inputs have no spatial axes."""

    def __init__(self, layer: Linear | nn.Linear, norm: nn.Module | None, law: Law) -> None:
        super().__init__(layer, norm or nn.Identity(), layer.weight.shape[-2], law)
        self.passports = self.draw(layer.weight.shape[-1:])

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(*trials, B, d_in)`` to ``(*trials, B, d_out)``."""
        # Rows go through the layer before passports do: an attack that records what enters it takes the first input.
        y = self.norm(self.layer(x))
        scale, shift = self.secrets()
        shifted: Tensor = scale * y + shift
        return shifted

    def secrets(self) -> tuple[Tensor, Tensor]:
        """Return scale and shift ``(*trials, 1, d_out)``, in (-1, 1)."""
        scale, shift = self.scale_and_shift(self.layer(self.passports))
        return torch.tanh(scale), torch.tanh(shift)


class PassportConv(PassportLayer):
    """``relu(scale * norm(layer(x)) + shift)`` with a batch norm; passports are as large as the first images are."""

    def __init__(self, layer: nn.Conv2d, norm: nn.Module | None, law: Law) -> None:
        super().__init__(layer, norm or nn.BatchNorm2d(layer.out_channels, affine=False), layer.out_channels, law)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(B, C, H, W)`` to ``(B, C', H', W')``."""
        if self.passports is None:
            self.passports = self.draw(x.shape[1:])
        y = self.norm(self.layer(x))
        scale, shift = self.secrets()
        return self.finish(scale * y + shift)

    def secrets(self) -> tuple[Tensor, Tensor]:
        """Return scale and shift ``(1, C', 1, 1)``, of any size.

        Raises:
            ValueError: before the first images, which say how large passports are.
        """
        if self.passports is None:
            raise ValueError("a passport layer that has seen no image yet has neither scale nor shift")
        scale, shift = self.scale_and_shift(self.layer(self.passports).mean((-2, -1)))
        return scale.view(1, -1, 1, 1), shift.view(1, -1, 1, 1)

    @staticmethod
    def finish(y: Tensor) -> Tensor:
        """ReLU."""
        return torch.relu(y)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        # A fresh layer that has seen no image yet still takes the passports of a saved one.
        saved = state_dict.get(prefix + "passports")
        if self.passports is None and saved is not None:
            self.passports = torch.empty_like(saved, device=self.mean_range.device)
        super()._load_from_state_dict(state_dict, prefix, *args)


class OpenLayer(nn.Module):
    """A passport layer with scale and shift as free parameters, for an attacker without the passports.

    Args:
        known: the layer; weights and norm are shared with it, scale and shift start where its passports put them.
    """

    def __init__(self, known: PassportLayer) -> None:
        super().__init__()
        self.layer, self.norm, self._finish = known.layer, known.norm, known.finish
        with torch.no_grad():
            scale, shift = known.secrets()
        self.scale, self.shift = nn.Parameter(scale), nn.Parameter(shift)

    def forward(self, x: Tensor) -> Tensor:
        """Map inputs as the passport layer does."""
        return self._finish(self.scale * self.norm(self.layer(x)) + self.shift)


def opened(root: nn.Module, stream: Stream) -> nn.Module:
    """Put an :class:`OpenLayer` with passports from ``stream`` in the place of each passport layer of ``root``.

    Returns:
        ``root``, or the new layer where that is all there is of it.
    """
    for name in [n for n, module in root.named_modules() if isinstance(module, PassportLayer)]:
        layer = root.get_submodule(name)
        assert isinstance(layer, PassportLayer)  # noqa: S101 - found as one
        layer.redraw(stream)
        root = _put(root, name, OpenLayer(layer))
    return root


def _names(root: nn.Module, kinds: tuple[type[nn.Module], ...]) -> list[str]:
    return [name for name, module in root.named_modules() if isinstance(module, kinds)]


def last_layer(root: nn.Module) -> str | None:
    """Name a bottom model's last convolution, else its last linear layer; None without either."""
    return next(reversed(_names(root, (nn.Conv2d,)) or _names(root, LINEAR)), None)


def first_linear(root: nn.Module) -> str | None:
    """Name the first linear layer of a top model; None without one."""
    return next(iter(_names(root, LINEAR)), None)


def with_passports(root: nn.Module, name: str, law: Law) -> nn.Module:
    """Replace the layer ``name`` of ``root`` by a passport layer.

    A batch norm right after the layer would undo scale and shift: it moves in between, without those of its own.

    Returns:
        ``root``, or the new layer where that is all there is of it.
    """
    layer = root.get_submodule(name)
    norm = _taken_norm(root, name)
    device = layer.weight.device
    kind = PassportConv if isinstance(layer, nn.Conv2d) else PassportLinear
    made = kind(layer, norm, law).to(device)  # type: ignore[arg-type]
    return _put(root, name, made)


def _put(root: nn.Module, name: str, module: nn.Module) -> nn.Module:
    if not name:
        return module
    parent, _, child = name.rpartition(".")
    setattr(root.get_submodule(parent), child, module)
    return root


def _taken_norm(root: nn.Module, name: str) -> nn.Module | None:
    leaves = [n for n, module in root.named_modules() if not any(module.children())]
    following = leaves[leaves.index(name) + 1 :][:1]
    norm = root.get_submodule(following[0]) if following else None
    if not isinstance(norm, _BATCH_NORMS):
        return None
    _put(root, following[0], nn.Identity())
    return type(norm)(norm.num_features, eps=norm.eps, momentum=norm.momentum, affine=False)
