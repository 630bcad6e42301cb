"""Black-box gradient inversion: the server matches shared gradients through a surrogate bottom model."""

from __future__ import annotations

import copy
from collections import OrderedDict
from itertools import product
from typing import Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.func import vmap
from torch.nn.functional import one_hot

from tune_vfl.attacks.base import Attack, AttackCapabilities, TargetRequest, attack
from tune_vfl.attacks.parts.gradient_matching import Matching, Prior
from tune_vfl.attacks.parts.inversion import NonNegative
from tune_vfl.attacks.parts.secrets import relative_error
from tune_vfl.attacks.parts.single_steps import SingleStep, as_trained
from tune_vfl.attacks.parts.uploaded_rows import GradientInversionParams, Method, Search, searched
from tune_vfl.errors import SpecError
from tune_vfl.models.optimizers import Adam
from tune_vfl.protocol.losses import class_probabilities
from tune_vfl.protocol.uploaded import SharedPart, UploadedAt
from tune_vfl.protocol.view import Reconstruction, View
from tune_vfl.spec import HORIZONTAL, Listed, Strict
from tune_vfl.spec.cell import Mode

Surrogate = Literal["fresh", "trained"]
FEWEST, _TUNING_ROWS = 10, 6
"""Known rows that teach a surrogate, at least; held out ones that weights are chosen by, at most."""


class BgiParams(GradientInversionParams):
    """Parameters of :class:`Bgi`."""

    methods: Listed[Method] = Field(
        ("cosine",),
        min_length=1,
        description="dlg: squared distance by L-BFGS, rows and soft labels together; idlg: the same with labels read "
        "off the last layer first; cosine: directions and total variation by signed Adam, made for ReLU nets",
    )
    rows: int = Field(10, ge=1, description="rows to reconstruct, the same ones for every attack and setting")
    restarts: int = Field(2, ge=1, le=32, description="starts of each batch, each through another fresh surrogate")
    steps: int = Field(200, ge=1, description="steps of signed Adam, also for each pair of weights tried on known rows")
    surrogates: Listed[Surrogate] = Field(
        ("fresh", "trained"),
        min_length=1,
        description="what stands for the bottom model: fresh: one of its architecture that nobody trained; trained: "
        "the same, taught on known rows to embed as the client's does after the last round",
    )
    tv: Listed[NonNegative] = Field(
        (0.001, 0.01, 0.1),
        min_length=1,
        description="weights of total variation, of which known rows choose one for a trained surrogate; a fresh one "
        "takes the first; images only",
    )
    l2: Listed[NonNegative] = Field(
        (0.0, 0.1, 1.0),
        min_length=1,
        description="weights of a row's mean squared distance from the known ones' mean, to choose among likewise",
    )
    aux: int | None = Field(
        None,
        ge=FEWEST,
        description="rows known with their embeddings; none: a sixth of the training rows, at most 10,000",
    )
    fit_steps: int = Field(1000, ge=1, description="steps in which a surrogate is taught")
    fit_lr: float = Field(1e-3, gt=0, description="their learning rate")
    fit_batch: int = Field(32, ge=2, description="known rows in one of them")


@attack("bgi")
class Bgi(Attack[BgiParams]):
    """Reconstructs rows from the top model's gradients alone, through a surrogate of the client's bottom model.

    The paper contradicts itself on what this adversary knows: by its table I gradients, by its text parameters. Here it
    knows what every client shares, parameters and gradients of the top model, and how bottom models are built; what
    else a defense shares it leaves alone. ``fresh`` surrogates are drawn anew at each start. A ``trained`` one is
    taught on known rows, at least ten, so that it is about the trained model only; held out ones choose how much rows
    are to be like their mean. How well a surrogate embeds these is the attacker's own estimate.
    """

    summary = "find rows by the gradients of the shared top model, through a surrogate of the private bottom model"
    reference = (
        "Zhu et al. 2019, Deep Leakage from Gradients; Gu et al. 2024, FedAdOb: Privacy-Preserving Federated Deep "
        "Learning with Adaptive Obfuscation (BGI, table I)"
    )
    Params = BgiParams
    capabilities = AttackCapabilities(
        goal="features",
        who="active",
        sees=frozenset({"top_gradients", "shared_part", "pairs"}),
        federations=HORIZONTAL,
        stackable=False,
    )
    quick = {"steps": 60, "restarts": 1, "fit_steps": 200, "moments": ("last",)}  # noqa: RUF012 - a constant

    def sees(self) -> frozenset[str]:
        """Return the needed grants: known rows only for the training of surrogates."""
        return self.capabilities.sees - (frozenset() if "trained" in self.params.surrogates else {"pairs"})

    def target_request(self) -> TargetRequest:
        """Return the numbers of rows to reconstruct, of rows in a batch, and of known rows."""
        least = 0 if "fresh" in self.params.surrogates else FEWEST
        return TargetRequest(self.params.rows, self.params.aux, self.params.batch, least)

    @classmethod
    def problems(cls, params: Strict, *, num_classes: int, mode: Mode) -> list[str]:
        """Refuse a trained surrogate of nothing but the untrained model."""
        assert isinstance(params, BgiParams)  # noqa: S101 - validated before
        if set(params.surrogates) != {"trained"} or "last" in params.moments:
            return []
        return ["attacks.bgi.surrogates: trained is about the last moment, which moments leaves out; add last or fresh"]

    def run(self, view: View) -> dict[str, Reconstruction]:
        """Return rows ``(M, ...)`` and their labels by method, surrogate and moment, as ``cosine_fresh_first``.

        Raises:
            SpecError: with fewer than 10 known rows, where they are all that there is to go by.
        """
        p = self.params
        known = _Known.of(view, p) if "trained" in p.surrogates else None
        search, part = Search(view, view.granted("top_gradients"), p), view.granted("shared_part")
        answers = {}
        for moment in p.moments:
            for surrogate in p.surrogates:
                if surrogate == "trained" and (moment == "first" or known is None):
                    continue
                through = _Through(view, part, moment, known if surrogate == "trained" else None)
                estimate = None if known is None else known.fit_of(through.bottom(0))
                for method in p.methods:
                    name, prior = f"{method}_{surrogate}_{moment}", through.prior(method, p)
                    found = search.run(through.step, moment, method, name, prior)
                    answers[name] = search.answer(found, estimate)
        return answers


class _Through:
    """The client's step through a surrogate, for a server that knows the top model alone."""

    def __init__(self, view: View, part: SharedPart, moment: UploadedAt, teacher: _Known | None) -> None:
        self._view, self._part, self._moment, self._teacher = view, part, moment, teacher

    def bottom(self, restart: int) -> nn.Module:
        """Return the surrogate of a restart: another each time, or the one that was taught."""
        if self._teacher is None:
            return self._part.bottom(self._view.streams.fresh(f"surrogate/{restart}"))
        return self._teacher.taught(self._part)

    def step(self, restart: int) -> SingleStep:
        """Return the step."""
        bottom = self.bottom(restart)
        both = nn.Sequential(OrderedDict(bottom=bottom, top=self._part.top(self._moment)))
        return SingleStep(as_trained(both), len(list(bottom.parameters())))

    def prior(self, method: Method, params: BgiParams) -> Prior:
        """Return the prior of rows, chosen on known rows if surrogates were trained on them."""
        if self._teacher is None:
            return Prior(params.tv[0], params.l2[0])
        return self._teacher.prior(self.step(0), self._part.top(self._moment), method)


class _Known:
    """Known rows and their embeddings, a tenth of them held out."""

    def __init__(self, view: View, params: BgiParams) -> None:
        pairs = view.pairs
        self._view, self._params = view, params
        sizes = [len(pairs.features) - len(pairs.features) // 10, len(pairs.features) // 10]
        self._x, self._x_held = pairs.features.split_with_sizes(sizes)
        self._e, self._e_held = pairs.embeddings.split_with_sizes(sizes)
        self._made: nn.Module | None = None

    @classmethod
    def of(cls, view: View, params: BgiParams) -> Self | None:
        """Return the rows; None where there are too few and surrogates may be fresh as well."""
        if (rows := len(view.pairs.features)) >= FEWEST:
            return cls(view, params)
        if "fresh" in params.surrogates:
            return None
        raise SpecError(f"attack 'bgi' needs {FEWEST} known rows to train a surrogate, got {rows}; raise aux")

    @torch.no_grad()
    def fit_of(self, bottom: nn.Module) -> Tensor:
        """Return the share of the variance of held-out embeddings that a surrogate explains; may be negative."""
        return 1 - relative_error(bottom.eval()(self._x_held), self._e_held)

    def prior(self, step: SingleStep, top: nn.Module, method: Method) -> Prior:
        """Return the weights by which held out rows come back best from the gradients that the client would upload.

        The top model and the rows' embeddings say these, but for the label: that which the top model gives is taken.
        """
        p, x, e = self._params, self._x_held[:_TUNING_ROWS], self._e_held[:_TUNING_ROWS]
        shape, classes = tuple(x.shape[1:]), self._view.num_classes
        with torch.no_grad():
            labels = class_probabilities(top.eval()(e)).argmax(-1, keepdim=True)
        above = SingleStep(as_trained(top))
        goal = vmap(above.gradient)(e.unsqueeze(1), one_hot(labels, classes).to(e)).detach()
        table = torch.tensor(list(product(p.tv if len(shape) == 3 else (0.0,), p.l2)))
        tv, l2 = table.repeat_interleave(len(x), 0).unbind(-1)
        many, center = len(table), self._x.mean(0)
        matching = Matching(
            step,
            goal.repeat(many, 1),
            shape,
            1,
            labels=labels.repeat(many, 1),
            num_classes=classes,
            prior=Prior(tv, l2, center),
        )
        begin = matching.starts(self._view.streams.fresh("tuning"), 1, len(x))[0].repeat(many, 1)
        found = searched(matching, begin, method, p).rows.squeeze(1)
        error = (found - x.repeat(many, *[1] * len(shape))).square().flatten(1).mean(-1).view(many, -1).mean(-1)
        best = table[error.nan_to_num(nan=torch.inf).argmin()]
        return Prior(float(best[0]), float(best[1]), center)

    def taught(self, part: SharedPart) -> nn.Module:
        """Return a copy of a surrogate that was taught to embed known rows as the client does."""
        if self._made is None:
            self._made = self._teach(part.bottom(self._view.streams.fresh("taught/start")))
        return copy.deepcopy(self._made)

    def _teach(self, bottom: nn.Module) -> nn.Module:
        p, order = self._params, self._view.streams.fresh("taught/order")
        spread = self._e.std(0).clamp(min=1e-6)
        optimizer, batch = Adam(bottom.train().parameters(), lr=p.fit_lr), min(p.fit_batch, len(self._x))
        left: list[Tensor] = []
        for _ in range(p.fit_steps):
            left = left or list(torch.split(order.permutation(len(self._x)), batch))
            at = left.pop()
            optimizer.zero_grad()
            ((bottom(self._x[at]) - self._e[at]) / spread).square().mean().backward()
            optimizer.step()
        return bottom
