"""Shared part of the server's attacks on uploaded gradients: optimizers, restarts, and the choice of an answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from tune_vfl.attacks.parts.gradient_matching import Matched, Matching, Prior
from tune_vfl.attacks.parts.inversion import as_rows
from tune_vfl.attacks.parts.read_off import ReadOff, read_off
from tune_vfl.attacks.parts.single_steps import SingleStep
from tune_vfl.attacks.parts.upload_noise import Noisy, Usual, noise_of
from tune_vfl.attacks.parts.uploaded_labels import gradient_of_logits, labels_of_batches
from tune_vfl.protocol.losses import class_probabilities
from tune_vfl.protocol.uploaded import UploadedAt, Uploads
from tune_vfl.protocol.view import Reconstruction, View
from tune_vfl.seeds import Stream
from tune_vfl.spec import Listed, Strict

Method = Literal["dlg", "idlg", "cosine"]
SOLVED = 1e-9
"""Relative squared distance of gradients at which no other start is tried."""
_PRIOR_ROWS = 64
SURE = 6.0
"""Deviations of the noise by which the label of a row stands out that leaves no doubt."""
_PROBES = 8
"""Weighted sums of a gradient from which its slopes are estimated."""
MEAN_SIZE, SIGNS_TELL = (2 / math.pi) ** 0.5, 2 / math.pi
"""How large a number of mean 0 and variance 1 is on average, and how much of its variance its sign tells."""
HALF = 0.5
"""Initial value of a pixel that is known not to be black."""


class GradientInversionParams(Strict):
    """Parameters of every attack that turns uploaded gradients back into rows."""

    rows: int = Field(6, ge=1, description="rows to reconstruct, the same ones for every attack and setting")
    batch: int = Field(1, ge=1, le=8, description="rows of each step that the client uploads")
    moments: Listed[UploadedAt] = Field(
        ("first", "last"),
        min_length=1,
        description="first: steps from the starting weights; last: from those after the last round",
    )
    methods: Listed[Method] = Field(
        ("idlg", "cosine"),
        min_length=1,
        description="dlg: squared distance by L-BFGS, rows and soft labels together; idlg: the same with labels read "
        "off the last layer first; cosine: directions and total variation by signed Adam, made for ReLU nets",
    )
    restarts: int = Field(1, ge=1, le=32, description="starts of each batch; the one whose gradient is nearest counts")
    iterations: int = Field(100, ge=1, description="line searches of L-BFGS; Zhu et al. take 300 times 20 steps")
    steps: int = Field(800, ge=1, description="steps of signed Adam; Geiping et al. take 4,800 to 24,000")
    lr: float = Field(0.1, gt=0, description="its learning rate at first, a thousandth of that at last")


@dataclass(frozen=True, eq=False)
class Search:
    """A search for the batches behind uploaded gradients.

    Attributes:
        view: of the attack; starts are drawn from its streams.
        seen: the uploads.
        params: of the attack.
    """

    view: View
    seen: Uploads
    params: GradientInversionParams

    def run(
        self, step_of: Callable[[int], SingleStep], moment: UploadedAt, method: Method, name: str, prior: Prior
    ) -> Matched:
        """Return for each batch the candidate of least mismatch over all starts; solved batches start no more.

        Args:
            step_of: the client's step as the attacker has it for a restart, from 0; guesses are drawn anew.
            moment: when it was uploaded.
            method: how to search.
            name: of the stream of the starts.
            prior: the prior of rows; noise on uploads adds a pull towards usual rows.
        """
        goal, stream = self.seen.gradients[moment], self.view.streams.fresh(f"{name}/starts")
        best: Matched | None = None
        for step, starts in _guesses(step_of, self.params.restarts):
            open_ = torch.arange(len(goal)) if best is None else (best.mismatch > SOLVED).nonzero().squeeze(-1)
            if len(open_):
                found = self._nearest(step, goal, open_, (starts, prior, method), stream)
                best = found if best is None else best.with_nearer(found, open_)
        assert best is not None  # noqa: S101 - there is one start at least
        return best

    def _nearest(
        self, step: SingleStep, goal: Tensor, which: Tensor, how: tuple[int, Prior, Method], stream: Stream
    ) -> Matched:
        """Try starts of some batches side by side."""
        (starts, prior, method), seen, wanted = how, self.seen, goal[which]
        labels = None if method == "dlg" else self._labels(step, wanted, stream)
        noise = noise_of(step, wanted, seen.batch)
        # Where noise leaves a label open, both that it may be are tried.
        labels = labels if labels is None else self._either(step, wanted, labels, noise)
        rivals = 1 if labels is None else len(labels) // len(wanted)
        copies = starts * rivals
        again = None if labels is None else labels.repeat(starts, 1)
        noisy = Noisy(wanted.repeat(copies, 1), noise.repeat(copies), seen.batch * math.prod(seen.shape))

        def matching(around: Usual) -> Matching:
            drawn = noisy.prior(prior, around, of_directions=method == "cosine") if noisy.there else prior
            classes = self.view.num_classes
            return Matching(step, noisy.goal, seen.shape, seen.batch, labels=again, num_classes=classes, prior=drawn)

        usual = Usual.of(seen.shape)
        first = matching(usual)
        # Drawn for all batches: a start does not depend on which of them are solved.
        begin = first.starts(stream, starts, len(goal))[:, which].repeat_interleave(rivals, 0).flatten(0, 1)
        read = self._read(step, goal)
        if read is not None:
            begin[: rivals * len(which), : read.rows.shape[-1]] = read.rows[which].repeat(rivals, 1)
        found = searched(first, begin, method, self.params)
        if not noisy.there:
            return found.nearest_of(starts)
        if len(seen.shape) == 3 and prior.center is None:
            # How dark images are is learned from those that were found, and the search goes on from there.
            usual = usual.learned(found.rows.flatten(0, 1))
            found = searched(matching(usual), first.again(found), method, self.params)
        probes = stream.child("probes").normal(_PROBES, goal.shape[-1])
        return noisy.blended(replace(found, share=noisy.found(step, found, usual, probes)), usual, copies)

    def _either(self, step: SingleStep, goal: Tensor, labels: Tensor, noise: Tensor) -> Tensor:
        """Return labels ``(G, B)``; with noise through which those of some single row may be others, both, ``(2G, 1)``.

        The first G are the nearest ones.
        """
        last = step.last(goal)
        residual = gradient_of_logits(last, self.view.num_classes)
        if residual is None or self.seen.batch > 1:
            return labels
        nearest = residual.topk(2, largest=False)
        summed = last.shape[-1] if last.dim() == 3 else 1
        open_ = nearest.values.diff(dim=-1).squeeze(-1) < SURE * (noise * summed).sqrt()
        return nearest.indices.T.reshape(-1, 1) if bool(open_.any()) else labels

    def read_off(self, step: SingleStep, moment: UploadedAt) -> dict[str, Reconstruction]:
        """Return single rows read off the gradients of a linear first layer; none without such a layer."""
        seen, image = self.seen, len(self.seen.shape) == 3
        found = {}
        for name, uploads, known in (("read_off", seen.gradients, 1.0), ("signs", seen.steps, SIGNS_TELL)):
            read = self._read(step, uploads[moment]) if moment in uploads else None
            if read is None:
                continue
            size = 1.0 if name == "read_off" else HALF if image else MEAN_SIZE
            rows = as_rows(size * read.rows.view(-1, *seen.shape), seen.shape)
            labels = self._labels(step, uploads[moment], self.view.streams.fresh(f"{name}_{moment}"))
            labels = None if labels is None else labels[:, 0]
            found[f"{name}_{moment}"] = Reconstruction(rows, seen.ids, known * read.share.mean(), 1, labels)
        return found

    def _read(self, step: SingleStep, goal: Tensor) -> ReadOff | None:
        """Return single rows read off the upload; None if the first layer is not linear."""
        layer = step.first_linear(goal) if self.seen.batch == 1 else None
        return None if layer is None else read_off(*layer, image=len(self.seen.shape) == 3)

    def _labels(self, step: SingleStep, goal: Tensor, stream: Stream) -> Tensor | None:
        residual = gradient_of_logits(step.last(goal), self.view.num_classes)
        if residual is None:
            return None
        with torch.no_grad():
            said = class_probabilities(step.network(stream.child("prior").uniform(_PRIOR_ROWS, *self.seen.shape)))
        return labels_of_batches(residual, self.seen.batch, said.mean(0))

    def answer(self, found: Matched, validation: Tensor | None = None) -> Reconstruction:
        """Return candidates as an answer; by default with the attacker's estimate of the recovered share."""
        if validation is None:
            validation = found.share.mean()
        labels = found.labels.flatten(0, 1).argmax(-1)
        return Reconstruction(found.rows.flatten(0, 1), self.seen.ids, validation, self.seen.batch, labels)


def searched(matching: Matching, begin: Tensor, method: Method, params: GradientInversionParams) -> Matched:
    """Search from given starts by one of the methods."""
    if method == "cosine":
        return matching.by_cosine(begin, params.steps, params.lr)
    return matching.by_lbfgs(begin, params.iterations)


def _guesses(step_of: Callable[[int], SingleStep], restarts: int) -> Iterator[tuple[SingleStep, int]]:
    """Yield steps and how many starts each is for: where nothing of the network is guessed, one pass has all others."""
    first = step_of(0)
    yield first, 1
    for restart in range(1, restarts):
        step = step_of(restart)
        if restart == 1 and step.same_as(first):
            yield first, restarts - 1
            return
        yield step, 1
