"""Direct label inference: without a top model the cut gradient of a row is p - y, its signs are the label."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from pydantic import BeforeValidator, Field
from torch.nn.functional import one_hot

from tune_vfl.attacks.base import Attack, AttackCapabilities, attack
from tune_vfl.attacks.parts.signs import RULES, Rule, infer, require_classes
from tune_vfl.protocol.granted import Instant, Moment, Recording
from tune_vfl.protocol.view import Answer, View
from tune_vfl.spec import Listed, Strict


def _all_rules(value: Any) -> Any:
    return RULES if value == "all" else value


class DirectParams(Strict):
    """Parameters of :class:`Direct`."""

    rule: Annotated[Listed[Rule], BeforeValidator(_all_rules)] = Field(
        RULES, min_length=1, description="one rule, a list of them, or `all`"
    )
    scope: Listed[Instant] = Field(
        ("first_batch", "epoch0"), min_length=1, description="the moments of training to attack, one or a list"
    )
    no_negative: Literal["guess", "fail"] = Field(
        "guess", description="a row that gives no answer: guess uniformly, or count it as wrong"
    )


@attack("direct")
class Direct(Attack[DirectParams]):
    """Reads labels off the signs of single rows; a variant ``rule@scope`` for every combination.

    ``first_negative`` takes the first negative entry, ``argmin`` the smallest, ``argmax_of_negatives`` the negative
    entry nearest to zero, which is where strong label smoothing puts the true class, and ``argmax`` the largest, which
    is the true class where training labels are codes that leave it out. A row gives no answer when all its entries are
    equal, when one is not finite, or when none is negative and the rule needs one. With a single logit the
    label is 1 where the entry is negative and 0 where it is positive, by any rule; exactly 0 gives no answer.
    """

    summary = "read labels off the signs of the cut gradient (no top model)"
    reference = "Fu et al. 2022, Label Inference Attacks Against Vertical Federated Learning"
    Params = DirectParams
    in_default = {}  # noqa: RUF012 - a constant
    capabilities = AttackCapabilities(modes=frozenset({"nosplit"}), sees=frozenset({"gradients"}), needs_logits=True)

    def moments(self) -> tuple[Moment, ...]:
        """Record the scopes that are attacked."""
        return tuple(dict.fromkeys(self.params.scope))

    def run(self, view: View) -> dict[str, Answer]:
        """Return one-hot scores ``(*trials, M, K)`` per variant; a row of zeros is a failure.

        Raises:
            SpecError: when the cut gradient has neither K entries nor one, so that it cannot be p - y.
        """
        answers = {}
        for scope in self.moments():
            seen = view.recording(scope)
            require_classes(view, seen)
            for rule in dict.fromkeys(self.params.rule):
                answers[f"{rule}@{scope}"] = self._answer(view, seen, rule, f"guess/{rule}/{scope}")
        return answers

    def _answer(self, view: View, seen: Recording, rule: Rule, stream: str) -> Answer:
        label, failed = infer(seen.gradients, rule)
        if self.params.no_negative == "guess":
            draw = view.streams[stream].uniform(label.shape[-1]).to(label.device)
            guess = (draw * view.num_classes).long().clamp_max(view.num_classes - 1)
            label, failed = torch.where(failed, guess, label), torch.zeros_like(failed)
        scores = one_hot(label, view.num_classes).to(seen.gradients.dtype)
        return Answer(scores=scores.masked_fill(failed.unsqueeze(-1), 0.0), ids=seen.ids, oriented=True)
