"""Two released recipes, each written once more from its description in plain torch, beside this library's.

Run: python -m benchmarks.released_recipes [--recipes gafm fu] [--seeds 10] (with TUNE_VFL_DATA holding their data)

Prints both sides' means and deviations, and how likely a difference as large is among equals (Welch).
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.stats import ttest_ind

from benchmarks import released_fu, released_gafm

RECIPES = {"gafm": released_gafm.cases, "fu": released_fu.cases}


def main() -> None:
    """Print a row a column of each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", nargs="+", choices=[*RECIPES], default=[*RECIPES])
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args()
    print("| recipe | column | twin | library | difference in standard errors | p |")
    print("|---|---|---|---|---|---|")
    for name, columns, twin, ours in (case for recipe in given.recipes for case in RECIPES[recipe](given.seeds)):
        for k, column in enumerate(columns):
            a, b = np.array(twin)[:, k], np.array(ours)[:, k] if ours else None
            print(f"| {name} | {column} | {said(a)} | {'-' if b is None else said(b)} | {apart(a, b)} |", flush=True)


def said(values: np.ndarray) -> str:
    """Return a mean over seeds with its sample deviation."""
    return f"{values.mean():.3f} ± {values.std(ddof=1):.3f}"


def apart(a: np.ndarray, b: np.ndarray | None) -> str:
    """Return a difference in standard errors and its p-value; dashes where there is nothing to compare."""
    if b is None:
        return "- | -"
    error = np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / len(a))
    if not error:
        return "0.0 | 1.00" if a.mean() == b.mean() else "inf | 0.00"
    return f"{abs(a.mean() - b.mean()) / error:.1f} | {ttest_ind(a, b, equal_var=False).pvalue:.2f}"


if __name__ == "__main__":
    main()
