"""White-box model inversion: the label party searches for the rows behind the received embeddings."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from pydantic import Field
from torch import Tensor, nn

from tune_vfl.attacks.base import Attack, AttackCapabilities, TargetRequest, attack
from tune_vfl.attacks.parts.inversion import InversionParams, Inverted, descend, tuned, typical_row, weights_to_try
from tune_vfl.attacks.parts.matrices import with_matrices
from tune_vfl.attacks.parts.secrets import DRAWS, fit_secrets, relative_error, secrets_of
from tune_vfl.protocol.view import Reconstruction, View
from tune_vfl.spec import BOTH


class WmiParams(InversionParams):
    """Parameters of :class:`Wmi`."""

    restarts: int = Field(
        3, ge=1, le=32, description="guesses of what a defense keeps secret of the bottom model; the best match counts"
    )
    tuning_rows: int | None = Field(
        None, ge=1, description="rows that the attacker knows with their embeddings; none: the study's threat"
    )
    fit_restarts: int = Field(5, ge=1, le=DRAWS, description="starts of the fit of what a defense keeps secret")
    fit_steps: int = Field(500, ge=1, description="steps of that fit")


@attack("wmi")
class Wmi(Attack[WmiParams]):
    """Descends on the input of the known bottom model until its embeddings match the received ones.

    The weights of the penalties are chosen by how well they bring back a few other rows that the attacker knows, whose
    mean is where images start; without a choice none are known, and images start from zero, as tables do.

    What a defense keeps secret of the bottom model is found in two ways. ``fitted`` fits it to the known rows.
    ``guessed`` draws it anew at each restart, and the restart whose embeddings come nearest to those received is taken;
    with fewer than two known rows that is all there is. The attacker takes the way whose model errs less on embeddings
    of known rows that it was not fitted to: the rows under attack are never looked at. Without secrets one start is
    enough.
    """

    summary = "invert the passive party's bottom model, which the label party knows, on the embeddings it received"
    reference = (
        "He et al. 2019, Model Inversion Attacks Against Collaborative Inference; Gu et al. 2024, FedAdOb: "
        "Privacy-Preserving Federated Deep Learning with Adaptive Obfuscation (CAFE)"
    )
    Params = WmiParams
    capabilities = AttackCapabilities(
        goal="features",
        who="active",
        sees=frozenset({"received", "known_bottom", "open_bottom", "pairs"}),
        federations=BOTH,
    )
    quick = {"iterations": 150, "tuning_rows": 8}  # noqa: RUF012 - a constant

    def sees(self) -> frozenset[str]:
        """Return the needed grants: known rows, and a fit to them, only if there are weights to choose among."""
        return self.capabilities.sees - (frozenset() if self._knows_rows() else {"pairs", "open_bottom"})

    def target_request(self) -> TargetRequest:
        """Return the numbers of rows to reconstruct and of known rows."""
        return TargetRequest(self.params.rows, self.params.tuning_rows or "threat")

    def run(self, view: View) -> dict[str, Reconstruction]:
        """Return rows ``(*trials, M, ...)`` as ``wmi``, or as ``fitted`` and ``guessed`` where there are secrets."""
        if not self._knows_rows() or not secrets_of(view.open_bottom()):
            return {"wmi": _said(view, _Attempt(self._best_guess(view).found))}
        p = self.params
        guessed = self._best_guess(view)
        if view.pairs.embeddings.shape[-2] < 2:
            return {"guessed": _said(view, _Attempt(guessed.found))}
        found = fit_secrets(view.open_bottom, view.pairs, restarts=p.fit_restarts, steps=p.fit_steps)
        fitted = _Attempt(self._invert(view, found.bottom), found.error)
        return {"fitted": _said(view, fitted), "guessed": _said(view, guessed)}

    def _knows_rows(self) -> bool:
        return len({*self.params.tv}) * len({*self.params.l2}) > 1

    def _best_guess(self, view: View) -> _Attempt:
        first = _frozen(view.known_bottom(0))
        best = self._attempt(view, first)
        for restart in range(1, self.params.restarts):
            bottom = _frozen(view.known_bottom(restart))
            if same(bottom, first):
                break
            best = best.or_nearer(self._attempt(view, bottom))
        return best

    def _attempt(self, view: View, bottom: nn.Module) -> _Attempt:
        found = self._invert(view, bottom)
        if not self._knows_rows():
            return _Attempt(found)
        with torch.no_grad():
            return _Attempt(found, relative_error(bottom(view.pairs.features), view.pairs.embeddings))

    def _invert(self, view: View, bottom: nn.Module) -> Inverted:
        seen, p = view.received, self.params
        bottom = with_matrices(bottom, seen.embeddings.new_zeros(*view.lead, 1, *seen.shape))
        candidates = weights_to_try(p, seen.shape)
        if len(candidates) > 1:
            known = view.pairs.features
            start = typical_row(known, seen.shape)
            weights, _ = tuned(bottom, known, view.pairs.embeddings, candidates, p, start=start)
        else:
            start = None
            weights = seen.embeddings.new_tensor(candidates[0]).expand(*view.lead, 2)
        each = weights.unsqueeze(-2).expand(*seen.ids.shape, 2)
        return descend(bottom, seen.embeddings, seen.shape, each, p, start=start)


@dataclass(frozen=True, eq=False)
class _Attempt:
    """Rows, and the model's relative error ``(*trials,)`` on known pairs that did not make it, if any are known."""

    found: Inverted
    error: Tensor | None = None

    def or_nearer(self, other: _Attempt) -> _Attempt:
        """Return for each member the attempt whose embeddings are nearer to the received ones, over all rows."""
        better = other.found.mismatch.mean(-1) < self.found.mismatch.mean(-1)

        def choose(mine: Tensor, others: Tensor) -> Tensor:
            return torch.where(better.view((*better.shape, *[1] * (mine.dim() - better.dim()))), others, mine)

        pairs = zip(self._parts(), other._parts(), strict=True)
        rows, mismatch, *error = (choose(mine, others) for mine, others in pairs)
        return _Attempt(Inverted(rows, mismatch), *error)

    def _parts(self) -> tuple[Tensor, ...]:
        found = (self.found.rows, self.found.mismatch)
        return found if self.error is None else (*found, self.error)


def _said(view: View, attempt: _Attempt) -> Reconstruction:
    validation = None if attempt.error is None else 1 - attempt.error
    return Reconstruction(attempt.found.rows, view.received.ids, validation)


def _frozen(bottom: nn.Module) -> nn.Module:
    return bottom.eval().requires_grad_(False)


def same(one: nn.Module, other: nn.Module) -> bool:
    """Whether two copies of a model hold the same numbers."""
    tensors = [itertools.chain(m.parameters(), m.buffers()) for m in (one, other)]
    return all(torch.equal(a, b) for a, b in zip(*tensors, strict=True))
