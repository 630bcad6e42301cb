"""The base class of defenses that insert passport layers into the owners' models."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import TypeVar

from tune_vfl.defenses.base import Defense
from tune_vfl.defenses.parts.passports import Law, PassportLayer, opened, with_passports
from tune_vfl.errors import SpecError
from tune_vfl.seeds import Stream, Streams
from tune_vfl.spec import Strict


class PassportParams(Strict):
    """Parameters of every defense by passports."""

    mean_range: float = Field(
        100.0, gt=0, allow_inf_nan=False, description="N: every input channel's passports have a mean from U(-N, 0)"
    )
    variance: float = Field(
        5.0, ge=0, allow_inf_nan=False, description="variance of a passport's entries around their channel's mean"
    )


PP = TypeVar("PP", bound=PassportParams, default=PassportParams)


class Passported(Defense[PP]):
    """Base class: draws passports by their law, and gives attackers models without the true passports."""

    def disguised(self, bottom: nn.Module, *, stream: Stream) -> nn.Module:
        """Return a copy with redrawn passports of the same law, the best guess without knowing them."""
        known = copy.deepcopy(bottom)
        for module in known.modules():
            if isinstance(module, PassportLayer):
                module.redraw(stream)
        return known

    def open_bottom(self, bottom: nn.Module, *, stream: Stream) -> nn.Module:
        """Return a copy whose passport layers have scale and shift as free parameters."""
        return opened(copy.deepcopy(bottom), stream)

    def given_passports(self, root: nn.Module, find: Callable[[nn.Module], str | None], part: str) -> nn.Module:
        """Insert passports drawn from the streams of ``part`` into the layer that ``find`` names; return the model.

        Raises:
            SpecError: where there is no such layer.
        """
        name = find(root)
        if name is None:
            raise SpecError(f"{self.name} found no layer for passports in the {part} model: it needs a linear layer")
        # On the CPU, so that weights and passports are the same wherever the network is trained.
        start = Streams(self.streams.seeds, prefix=self.stream_prefix)
        law = Law(
            mean_range=self._of_members(self.values(lambda p: p.mean_range)),
            variance=self._of_members(self.values(lambda p: p.variance)),
            start=start[f"passport/init/{part}"],
            secret=start[f"passport/{part}"],
        )
        return with_passports(root, name, law)

    def _of_members(self, values: Sequence[float]) -> Tensor:
        numbers = torch.tensor(values).view(-1, 1, 1)
        return numbers if self.stacked else numbers[0]
