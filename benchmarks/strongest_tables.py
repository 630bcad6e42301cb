"""The tables and settings that attacks by hand are tried on: three shared ones and one that a seed makes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tune_vfl.machine.places import data_root

ROWS = 4000
TABLES = ("spambase", "bank", "credit", "made_up")


def made_up(seed: int = 0, rows: int = ROWS) -> pd.DataFrame:
    """Return a table of 12% positives with an id, a date and columns that say nothing; half of each kind a party."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(rows, 4))
    noise = rng.normal(size=(rows, 10))
    city = rng.integers(0, 12, rows)
    score = hidden[:, 0] + 0.8 * hidden[:, 1] * (hidden[:, 2] > 0) + 0.7 * hidden[:, 3] + 0.4 * (city % 3)
    score += 0.5 * rng.logistic(size=rows)
    passive = {
        "id": rng.permutation(10 * rows)[:rows],
        "a": hidden[:, 0] + 0.7 * noise[:, 0],
        "b": hidden[:, 1] + 0.5 * noise[:, 1],
        "c": np.exp(hidden[:, 2] + 0.5 * noise[:, 2]),
        "city": [f"c{c}" for c in city],
        "n1": noise[:, 3],
        "n2": rng.integers(0, 5, rows),
    }
    active = {
        "opened": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1500, rows), "D"),
        "d": hidden[:, 0] + 0.7 * noise[:, 4],
        "e": hidden[:, 2] + 0.5 * noise[:, 5],
        "f": hidden[:, 3] + 0.7 * noise[:, 6],
        "g": np.where(rng.random(rows) < 0.1, np.nan, hidden[:, 1] + noise[:, 7]),
        "n3": noise[:, 8],
        "n4": rng.integers(0, 2, rows),
    }
    cut = np.quantile(score, 0.88)
    return pd.DataFrame({**passive, **active, "label": (score > cut).astype(int)})


def sampled_bank(root: Path, rows: int = ROWS) -> pd.DataFrame:
    """Return a drawn part of the bank's file, with its class shares."""
    frame = pd.read_csv(root / "bank/bank-additional-full.csv.gz", sep=";")
    parts = [of.sample(round(rows * len(of) / len(frame)), random_state=0) for _, of in frame.groupby("y")]
    return pd.concat(parts).sort_index()


def dataset_of(table: str, folder: Path, *, whole: bool) -> dict[str, Any]:
    """Return the entry of a spec for a table; files that are made lie in ``folder``.

    Args:
        table: one of :data:`TABLES`.
        folder: where made files go.
        whole: all columns at the passive party, for defenses of a label party that has labels only.
    """
    split = 1.0 if whole else 0.5
    if table == "spambase":
        return {"name": "spambase", "split": split}
    if table == "credit":
        return {"name": "give_me_some_credit", "rows": ROWS, "split": split}
    path = folder / f"{table}.csv"
    if not path.exists():
        (made_up() if table == "made_up" else sampled_bank(data_root())).to_csv(path, index=False)
    return {"name": "csv", "path": str(path), "label": "label" if table == "made_up" else "y", "split": split}


SETTINGS: Mapping[str, tuple[dict[str, Any], ...]] = {
    "laplace": ({"scale": 0.01}, {"scale": 0.03}),
    "gaussian": ({"sigma": 0.01}, {"sigma": 0.03}),
    "iso": ({"ratio": 2.0}, {"ratio": 4.0}),
    "gradient_compression": ({"keep": 0.25}, {"keep": 0.05}),
    "sparsification": ({"drop": 0.9}, {"drop": 0.99}),
    "ppdl": ({"theta": 0.3}, {"theta": 0.2}),
    "discrete_sgd": ({"bins": 6, "bound": 0.03}, {"bins": 4, "bound": 0.05}),
    "grad_perturb": ({"epsilon": 1.0}, {"epsilon": 0.3}),
    "max_norm": ({},),
    "marvell": ({"budget": 4.0}, {"budget": 16.0}),
    "label_dp": ({"epsilon": 2.0}, {"epsilon": 1.0}),
    "kdk": ({"epsilon": 0.3}, {"epsilon": 0.45}),
    "discorloss": ({"weight": 0.16}, {"weight": 0.5}),
    "cae": ({"confusion": 0.5}, {"confusion": 1.0}),
    "dcae": ({"confusion": 0.5, "bins": 6}, {"confusion": 0.5, "bins": 4, "bound": 0.05}),
    "mid": ({"weight": 0.1}, {"weight": 0.5}),
    "sgsub": ({"tau": 0.5}, {"tau": 1.0}),
    "flsg": ({"tau": 0.35}, {"tau": 0.5}),
    "ladistill": ({"epsilon": 0.3}, {"epsilon": 0.45}),
    "geno": ({"threshold": "auto"}, {"threshold": 1e-4}),
    "ladsg": ({"epsilon": 0.3}, {"epsilon": 0.45}),
    "gafm": ({"delta": 0.1, "gamma": 5.0}, {"delta": 0.05, "gamma": 10.0}),
    "gafm_marvell": ({"delta": 0.1, "budget": 4.0}, {"delta": 0.05, "budget": 4.0}),
    "fedpass": ({"mean_range": 10.0, "variance": 5.0}, {"mean_range": 100.0, "variance": 5.0}),
    "labobf": ({"bins": 2}, {"bins": 3}),
    "mixup": ({"mix": 2}, {"mix": 4}),
    "instahide": ({"mix": 2}, {"mix": 4}),
}
"""Two settings a defense, of those between where all leaks and where nothing does; max_norm has none."""
LABELS_ALONE = ("gafm", "gafm_marvell")
"""Defenses of a label party without columns."""
