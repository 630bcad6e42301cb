"""Training rows whose labels the attacker knows: the same ones for every setting of a defense."""

from __future__ import annotations

from dataclasses import replace

import torch

from tune_vfl.attacks.base import Attack, AuxiliaryRequest
from tune_vfl.data.split import auxiliary_rows
from tune_vfl.evaluation.grants.base import Grant, grant
from tune_vfl.evaluation.run import Run
from tune_vfl.evaluation.shortages import known_per_class
from tune_vfl.protocol.granted import Auxiliary
from tune_vfl.protocol.members import gather_rows
from tune_vfl.spec import Strict


@grant("auxiliary")
class AuxiliaryLabels(Grant):
    """Labels of a few training rows, as many as the attack requests, drawn from each seed's own stream."""

    def hand_out(self, attack: Attack[Strict], run: Run) -> Auxiliary | None:
        """Return the rows and their requested subsets; None if the attack requests none."""
        request = attack.auxiliary_request()
        if request is None:
            return None
        smaller = {n: _drawn(replace(request, per_class=n), run) for n in request.smaller}
        return replace(_drawn(request, run), smaller=smaller)


def _drawn(request: AuxiliaryRequest, run: Run) -> Auxiliary:
    task = run.task
    per_class = known_per_class(request, task)
    total = request.total or per_class * run.task.dataset.num_classes
    y = run.split.y_train if run.split.y_train.dim() == 2 else run.split.y_train.unsqueeze(0)
    drawn = [
        auxiliary_rows(
            labels,
            per_class=per_class if request.how == "per_class" else None,
            total=total if request.how == "random" else None,
            how=request.how,
            seed=seed,
        )
        for labels, seed in zip(y, run.drawn.seeds, strict=True)
    ]
    ids = drawn[0] if run.pack.trials is None else torch.stack(drawn)
    return Auxiliary(ids=run.pack.spread(ids), labels=run.pack.spread(gather_rows(run.split.y_train, ids)))
