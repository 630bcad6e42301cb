"""All that evaluating a cell may need, imported: what a worker does once, before its first pack."""

from __future__ import annotations

import pandas as pd  # noqa: F401 - Ray Tune's; here so that it is imported before a worker is asked for

import tune_vfl.evaluation.packs  # noqa: F401
from tune_vfl.attacks.base import ATTACKS
from tune_vfl.data.base import DATASETS
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.models.base import MODELS

for _registry in (ATTACKS, DATASETS, DEFENSES, MODELS):
    _registry.names()
