"""The plan of a spec file before anything runs: its studies and their cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tune_vfl.cli.options import checked
from tune_vfl.cli.output import note
from tune_vfl.driver.planning import plan
from tune_vfl.errors import SpecError
from tune_vfl.records.campaigns import PlannedCampaign
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.spec.raw import read_yaml


def read_plan(path: Path, settings: Sequence[str] = ()) -> PlannedCampaign:
    """Read a spec file, lay settings over it, and plan it.

    Raises:
        SpecError: with every problem and the file; see :func:`tune_vfl.driver.planning.plan`.
    """
    return plan_of(read_yaml(path, note), path, settings)


def plan_of(raw: dict[str, Any], path: Path, settings: Sequence[str] = ()) -> PlannedCampaign:
    """Lay settings over a spec that was read, and plan it."""
    try:
        return checked(raw, settings, plan)
    except SpecError as error:
        given = ("--set", str(path))
        raise SpecError([p if p.startswith(given) else f"{path}: {p}" for p in error.problems]) from error


def cost(planned: PlannedStudy) -> dict[str, Any]:
    """Return the estimated cost of a study.

    Returns:
        ``trials``, ``seeds``, ``epochs`` (the most, where they are searched), ``trainings`` (networks trained, the
        undefended baseline included, and the runs of attacks that take part in the training), ``training_epochs``
        (trainings x epochs), ``space`` (parameter to range), ``space_size`` (None when it is not finite) and
        ``baseline`` (what the undefended model has of the training and the model where they are searched).
    """
    from tune_vfl.attacks.base import ATTACKS
    from tune_vfl.spaces.recipe import own_values

    cell, trials = planned.cell, planned.spec.budget.trials
    size = None if math.isinf(planned.space.size) else int(planned.space.size)
    trials = trials if size is None else min(trials, size)
    acting = sum(ATTACKS[a.name].capabilities.acts for a in cell.attacks)
    searched = planned.space.params.get("training.epochs")
    epochs = cell.training.epochs if searched is None else searched.largest
    trainings = (trials + 1) * len(cell.seeds) * (1 + acting)
    return {
        "trials": trials,
        "seeds": len(cell.seeds),
        "epochs": epochs,
        "trainings": trainings,
        "training_epochs": trainings * epochs,
        "space": planned.space.model_dump(mode="json", by_alias=True, exclude_defaults=True).get("params", {}),
        "space_size": size,
        "baseline": own_values(cell, planned.space.ordinary),
    }
