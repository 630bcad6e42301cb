"""Imports that a worker preloads before its first pack.

Not what only images and clusters of several classes need, a quarter of a second of scipy that most searches do without.
"""

from __future__ import annotations

# Lazy imports of Ray Tune and of statistics, done here so that they precede a worker's first pack.
import pandas as pd  # noqa: F401
import scipy.special  # noqa: F401

from tune_vfl.attacks.base import ATTACKS
from tune_vfl.data.base import DATASETS
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.models.base import MODELS

for _registry in (ATTACKS, DATASETS, DEFENSES, MODELS):
    _registry.names()
