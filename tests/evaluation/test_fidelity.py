"""The published numbers that this project stands on, on the real data; docs/fidelity.md tells the whole story."""

from __future__ import annotations

from typing import Any

import pytest

from tune_vfl import evaluate

SPAMBASE = pytest.mark.public_data("spambase/spambase.data")
PUBLISHED = {"moments": ["last"], "average": 0}  # the papers read the last epoch; what other moments find is ours
ATTACKS: list[Any] = [
    {"name": "norm", **PUBLISHED},
    {"name": "mean", **PUBLISHED},
    {"name": "median", "rule": "pooled", **PUBLISHED},
]


def leaks(answer: dict[str, Any]) -> dict[str, float]:
    return {name: score["mean"] for name, score in answer["attacks"].items()}


@SPAMBASE
def test_spambase_undefended_is_the_papers_row() -> None:
    """GAFM, table 2: test AUC .95, norm .85 +- .07, mean 1.00, median .91.

    The norm cell moves with width and starting weights: the band is what other implementations of the text measured.
    """
    answer = evaluate("spambase", attacks=ATTACKS, seeds=20)
    found = leaks(answer)
    assert answer["utility"]["mean"] == pytest.approx(0.95, abs=0.01)
    assert found["mean"] >= 0.98
    assert found["median"] == pytest.approx(0.91, abs=0.015)
    assert 0.70 <= found["norm"] <= 0.95


@SPAMBASE
def test_spambase_max_norm_is_scored_on_what_is_sent() -> None:
    """The paper's .83/1.00/.91 fit only the gradient before the noise; the sent one gives .53/.75/.75."""
    found = leaks(evaluate("spambase", defense="max_norm", attacks=ATTACKS, seeds=10))
    assert 0.50 <= found["norm"] <= 0.60
    assert 0.70 <= found["mean"] <= 0.85
    assert 0.70 <= found["median"] <= 0.85


@SPAMBASE
def test_spambase_marvell_leaks_as_published_and_costs_no_utility() -> None:
    """Table 2's leaks .53/.70/.70 come out; its test AUC .71 does not for any budget (.94 to .96 here)."""
    answer = evaluate("spambase", defense="marvell", params={"budget": 1.0}, attacks=ATTACKS, seeds=10)
    found = leaks(answer)
    assert 0.50 <= found["norm"] <= 0.56
    assert 0.66 <= found["mean"] <= 0.72
    assert 0.66 <= found["median"] <= 0.72
    assert 0.93 <= answer["utility"]["mean"] <= 0.96


@SPAMBASE
def test_spambase_gafm_hides_gradients_and_not_embeddings() -> None:
    """GAFM, table 2: test AUC .93 (.91 to .95), norm .56 +- .04, mean .67 +- .05, median .66 +- .05; twenty seeds here
    give .93, .61, .67 and .67. Nothing is published about embeddings, which give the labels away all the same.
    """
    answer = evaluate("spambase", defense="gafm", attacks=[*ATTACKS, "spectral"], seeds=4)
    found = leaks(answer)
    assert 0.90 <= answer["utility"]["mean"] <= 0.96
    assert 0.50 <= found["norm"] <= 0.70
    assert 0.60 <= found["mean"] <= 0.75
    assert 0.60 <= found["median"] <= 0.75
    assert found["spectral"] >= 0.88
