"""Gradient perturbation: the gradient that a noisy label would have, as far as it is sent."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.errors import UsageError
from tune_vfl.protocol.hooks import Context
from tune_vfl.protocol.mechanism import Mechanism
from tune_vfl.spec import Strict


class GradPerturbParams(Strict):
    """Parameters of :class:`GradPerturb`."""

    epsilon: float = Field(
        1.0, gt=0, allow_inf_nan=False, description="label privacy of one release; less is more noise"
    )
    two_classes: Literal["difference", "per_class"] = Field(
        "difference",
        description="noise for two classes: Laplace(1/epsilon) along the difference of the classes' gradients, or, as "
        "for more classes, Laplace(2/epsilon) on each",
    )


@defense("grad_perturb")
class GradPerturb(Defense[GradPerturbParams]):
    """Adds to each row u_c times the gradient that the row would have had with label c, for every class c.

    The gradient of the cross-entropy is linear in the one-hot label, and labels differ by 2 in the 1-norm: with
    u_c ~ Laplace(2 / epsilon) the row is what a label vector of that privacy would have given. Two classes need one
    number only: u ~ Laplace(1 / epsilon) along the difference of the classes' gradients. The expected gradient stays,
    and the label party's own models learn from the true labels. ``epsilon`` is for one release of a row, and is spent
    anew in each epoch. Needs the gradients per class, which a loop offers in ``context``. Source: Yang et al. 2022.
    """

    summary = "the cut gradient of a label with Laplace noise"
    reference = "Yang et al. 2022, Differentially Private Label Protection in Split Learning"
    Params = GradPerturbParams
    capabilities = DefenseCapabilities(stackable=True, random=("gradients",), needs_context=True)

    def cut_gradient(self, grad: Tensor, *, y: Tensor, context: Context | None = None, party: int = 0) -> Tensor:
        """Return ``grad`` with noise in the span of the classes' gradients; same shape and dtype.

        Raises:
            UsageError: without a context, which knows the gradients per class.
        """
        if context is None:
            raise UsageError(
                "grad_perturb needs the gradient that each label would give: got no context; pass "
                "cut_gradient(..., context=Context(..., per_class_gradient=...)), or choose laplace or iso"
            )
        along_difference = self.num_classes == 2 and self.shared.two_classes == "difference"
        sensitivity = 1.0 if along_difference else 2.0
        draws = self.streams[f"cut/{party}"].laplace(grad.shape[-2], 1 if along_difference else self.num_classes)
        noise = (draws * sensitivity / self.number(lambda p: p.epsilon)).to(grad.dtype)
        weights = torch.cat([-noise, noise], dim=-1) if along_difference else noise
        return grad + context.per_class_gradient(weights).to(grad.dtype)

    def mechanism(self) -> Mechanism:
        """Return that the noise lies along the difference of the classes' gradients."""
        return Mechanism(blurred=True)
