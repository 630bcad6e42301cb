"""Black-box model inversion: the label party learns from known rows how to turn embeddings back into rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from tune_vfl.attacks.base import Attack, AttackCapabilities, TargetRequest, attack
from tune_vfl.attacks.parts.inversion import InversionParams, as_rows, descend, tuned, typical_row, weights_to_try
from tune_vfl.errors import SpecError
from tune_vfl.models.layers import FlattenRows, Linear, stack_of
from tune_vfl.models.optimizers import Adam
from tune_vfl.protocol.granted import OwnColumns
from tune_vfl.protocol.members import gather_rows
from tune_vfl.protocol.view import Reconstruction, View
from tune_vfl.seeds import Stream
from tune_vfl.spec import BOTH, Listed, Strict
from tune_vfl.spec.cell import Mode

Variant = Literal["decoder", "decoder_own", "shadow"]
FEWEST, _TUNING_ROWS = 10, 16
"""Known rows that a decoder or a shadow is taught by, at least; held out ones that weights are chosen by, at most."""


class BmiParams(InversionParams):
    """Parameters of :class:`Bmi`; those of the descent are the shadow's."""

    variants: Listed[Variant] = Field(
        ("decoder", "decoder_own", "shadow"),
        min_length=1,
        description="decoder: a net from embeddings to rows; decoder_own: the same from embeddings and the label "
        "party's own columns, where it has any; shadow: a copy of the bottom model, inverted by descent",
    )
    aux: int | None = Field(
        None,
        ge=FEWEST,
        description="rows known with their embeddings; none: a sixth of the training rows, at most 10,000",
    )
    epochs: int = Field(50, ge=1, description="passes over the known rows")
    most_steps: int = Field(3000, ge=1, description="steps of training at most; full passes, at least one")
    batch_size: int = Field(32, ge=2, description="known rows in a step")
    fit_lr: float = Field(1e-3, gt=0, description="learning rate of the decoder and of the shadow")
    decoder_hidden: tuple[int, ...] = Field((600, 200, 100), description="hidden widths of the decoder")
    shadow_hidden: tuple[int, ...] = Field((128,), description="hidden widths of the shadow")


@attack("bmi")
class Bmi(Attack[BmiParams]):
    """Reconstructs rows from embeddings by three methods that learn from known pairs of both, without the model.

    ``decoder`` trains the inverse: a perceptron from embeddings to rows, taken from the pass that does best on a tenth
    of the known rows, which it is not trained on. ``decoder_own`` reads the label party's own columns of the row beside
    its embedding; what these tell by themselves needs no federation and is the floor. ``shadow`` trains a shallow net
    to embed as the bottom model does and inverts that net by descent, as white-box inversion does, its penalties chosen
    on the same tenth. What each of them recovers there is the attacker's own estimate, by which it can choose.
    """

    summary = "invert embeddings by a decoder, or by a shadow of the bottom model, trained on known rows"
    reference = (
        "He et al. 2019, Model Inversion Attacks Against Collaborative Inference; Gu et al. 2024, FedAdOb: "
        "Privacy-Preserving Federated Deep Learning with Adaptive Obfuscation (MI); Luo et al. 2021, Feature "
        "Inference Attack on Model Predictions in Vertical Federated Learning (own columns)"
    )
    Params = BmiParams
    capabilities = AttackCapabilities(
        goal="features", who="active", sees=frozenset({"received", "pairs", "own_features"}), federations=BOTH
    )
    quick = {"iterations": 100, "epochs": 60, "decoder_hidden": (64,)}  # noqa: RUF012 - a constant

    def sees(self) -> frozenset[str]:
        """Return the needed grants of the variants."""
        own = "decoder_own" in self.params.variants
        return self.capabilities.sees if own else self.capabilities.sees - {"own_features"}

    def target_request(self) -> TargetRequest:
        """Return the numbers of rows to reconstruct and of known rows."""
        return TargetRequest(self.params.rows, self.params.aux, least=FEWEST)

    def run(self, view: View) -> dict[str, Reconstruction]:
        """Return a reconstruction per variant: rows ``(*trials, M, ...)``; none of own columns where there are none.

        Raises:
            SpecError: with fewer than 10 known rows.
        """
        own: OwnColumns | None = view.granted("own_features") if "own_features" in self.sees() else None
        if (known := view.pairs.embeddings.shape[-2]) < FEWEST:
            raise SpecError(f"attack 'bmi' needs {FEWEST} known rows, got {known}; raise aux")
        lesson = _Lesson(view, self.params, own)
        variants = [v for v in dict.fromkeys(self.params.variants) if v != "decoder_own" or own is not None]
        return {variant: lesson.shadow() if variant == "shadow" else lesson.decoder(variant) for variant in variants}

    @classmethod
    def problems(cls, params: Strict, *, num_classes: int, mode: Mode) -> list[str]:
        """Refuse to read own columns alone where the label party has none."""
        assert isinstance(params, BmiParams)  # noqa: S101 - validated before
        if mode != "label_only" or set(params.variants) != {"decoder_own"}:
            return []
        return ["attacks.bmi.variants: decoder_own reads the label party's own columns, here it has none; add decoder"]


class _Lesson:
    """Known rows, a tenth of them held out; embeddings and columns in units of their spread."""

    def __init__(self, view: View, params: BmiParams, own: OwnColumns | None) -> None:
        self._view, self._params, self._axis = view, params, len(view.lead)
        known, sent = view.pairs.features, view.pairs.embeddings
        held = max(1, sent.shape[-2] // 10)
        self._sizes = [sent.shape[-2] - held, held]
        self._x, self._x_held = known.split_with_sizes(self._sizes, self._axis)
        goal, embeddings = _in_units_of(sent, view.received.embeddings, sent)
        self._read: dict[Variant, tuple[Tensor, Tensor]] = {"decoder": (goal, embeddings)}
        self._goal = goal
        self._e, self._e_held = embeddings.split_with_sizes(self._sizes, -2)
        if own is not None:
            beside = _in_units_of(own.pairs, own.received, own.pairs)
            self._read["decoder_own"] = torch.cat([goal, beside[0]], -1), torch.cat([embeddings, beside[1]], -1)

    def decoder(self, name: Variant) -> Reconstruction:
        goal, read = self._read[name]
        read, read_held = read.split_with_sizes(self._sizes, -2)
        flat, shape = self._x.flatten(self._axis + 1), self._view.received.shape
        widths = [read.shape[-1], *self._params.decoder_hidden, flat.shape[-1]]
        net = decoder_net(widths, images=len(shape) == 3, stream=self._view.streams[f"{name}/start"])
        best: list[Tensor] = []

        def keep_the_best() -> None:
            with torch.no_grad():
                error = _error(net(read_held), self._x_held.flatten(self._axis + 1))
                found = net(goal)
            if not best:
                best.extend((error, found))
                return
            better = error < best[0]
            best[:] = [torch.where(better, error, best[0]), torch.where(better[..., None, None], found, best[1])]

        self._fit(net, read, flat, name, keep_the_best)
        return self._reconstruction(best[1].view(*best[1].shape[:-1], *shape), best[0])

    def shadow(self) -> Reconstruction:
        p, shape = self._params, self._view.received.shape
        widths = [self._x.flatten(self._axis + 1).shape[-1], *p.shadow_hidden, self._e.shape[-1]]
        start = self._view.streams["shadow/start"]
        net = nn.Sequential(FlattenRows(shape), *stack_of(widths, nn.ReLU, stream=start))
        self._fit(net, self._x, self._e, "shadow", lambda: None)
        net.requires_grad_(False)
        begin = typical_row(self._x, shape)
        few = min(_TUNING_ROWS, self._e_held.shape[-2])
        weights, error = tuned(
            net,
            self._x_held.narrow(self._axis, 0, few),
            self._e_held.narrow(-2, 0, few),
            weights_to_try(p, shape),
            p,
            start=begin,
        )
        each = weights.unsqueeze(-2).expand(*self._goal.shape[:-1], 2)
        return self._reconstruction(descend(net, self._goal, shape, each, p, start=begin).rows, error)

    def _fit(self, net: nn.Module, x: Tensor, y: Tensor, name: str, after_each_pass: Callable[[], None]) -> None:
        p, rows = self._params, y.shape[-2]
        batch = min(p.batch_size, rows)
        passes = min(p.epochs, max(1, p.most_steps // (rows // batch)))
        optimizer = Adam(net.parameters(), lr=p.fit_lr, eps=1e-3, amsgrad=True)
        for _ in range(passes):
            order = self._view.streams[f"{name}/order"].permutation(rows)
            for at in torch.split(order[..., : rows - rows % batch], batch, -1):
                optimizer.zero_grad()
                loss = _error(net(gather_rows(x, at)), gather_rows(y, at))
                loss.sum().backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            after_each_pass()

    def _reconstruction(self, rows: Tensor, error: Tensor) -> Reconstruction:
        held = self._x_held.flatten(self._axis + 1)
        without = _error(self._x.flatten(self._axis + 1).mean(-2, keepdim=True).expand_as(held), held)
        received = self._view.received
        return Reconstruction(as_rows(rows, received.shape), received.ids, validation=1 - error / without)


def decoder_net(widths: Sequence[int], *, images: bool, stream: Stream) -> nn.Sequential:
    """Return linear layers with layer norm and ReLU between them, and a sigmoid on pixels (VFLAIR's inverse net).

    The norms have no weights of their own: the next layer has.
    """
    linear = [m for m in stack_of(list(widths), nn.ReLU, stream=stream) if isinstance(m, Linear)]
    parts: list[nn.Module] = [linear[0]]
    for layer, width in zip(linear[1:], widths[1:], strict=False):
        parts += [nn.LayerNorm(width, elementwise_affine=False), nn.ReLU(), layer]
    return nn.Sequential(*parts, *([nn.Sigmoid()] if images else []))


def _in_units_of(known: Tensor, *rows: Tensor) -> tuple[Tensor, ...]:
    """Return rows ``(*trials, n, d)`` less the mean of the known ones, in units of their spread."""
    spread, center = torch.std_mean(known, dim=-2, keepdim=True)
    spread = torch.where(spread > 0, spread, 1.0)
    return tuple((x - center) / spread for x in rows)


def _error(found: Tensor, true: Tensor) -> Tensor:
    """Mean squared error ``(*trials,)`` of ``(*trials, n, d)``."""
    return (found - true).square().mean((-2, -1))
