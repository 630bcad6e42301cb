"""Formulas over an evaluation's scores: what they read, compute and refuse."""

from __future__ import annotations

import pytest

from tune_vfl.errors import SpecError
from tune_vfl.outcome import AttackScore, Outcome, Score
from tune_vfl.papers.measured import kept_of, measure, names_in, scores_of


def outcome(metric: str, **beside: float) -> Outcome:
    variants = {"logreg": {"metric": metric, "mean": 0.6, "std": 0.0, "values": [0.6], "test": 0.5, **beside}}
    score = {**Score.of(metric, [0.6]).model_dump(), "variants": variants, "extra": {"test": 0.5, **beside}}
    attacks = {"pmc": AttackScore.model_validate(score)}
    return Outcome(outcome="ok", utility=Score.of("auc", [0.9]), attacks=attacks, leakage=0.1, leakage_std=0.0)


def test_formulas_are_arithmetic_over_scores_by_name() -> None:
    scores = {"utility": 0.9, "pmc": 0.6, "pmc.test": 0.5, "norm": 0.75}
    assert measure("1 - pmc.test", scores) == 0.5
    assert measure("utility / norm", scores) == pytest.approx(1.2)
    assert measure("(norm + pmc) / (3 * utility)", scores) == pytest.approx(0.5)
    assert names_in("utility * (1 - pmc.test)") == ["utility", "pmc.test"]


@pytest.mark.parametrize(
    "formula", ["pmc ** 2", "max(pmc, norm)", "pmc[0]", "__import__('os')", "pmc if norm else 1", ""]
)
def test_what_is_no_arithmetic_is_refused(formula: str) -> None:
    with pytest.raises(ValueError, match="arithmetic over scores"):
        names_in(formula)


def test_top1_is_named_alike_where_it_is_the_success_and_where_it_stands_beside_it() -> None:
    """With two classes the success is an AUC and top-1 stands beside it; with more it is the success itself."""
    two, ten = scores_of(outcome("leak_auc", top1=0.55)), scores_of(outcome("top1"))
    assert (two["pmc.top1"], two["pmc.logreg.top1"], two["pmc"]) == (0.55, 0.55, 0.6)
    assert (ten["pmc.top1"], ten["pmc.logreg.top1"], ten["pmc"]) == (0.6, 0.6, 0.6)


def test_what_formulas_read_is_kept_and_a_missing_score_is_said() -> None:
    scores = scores_of(outcome("leak_auc", top1=0.55))
    assert kept_of(scores, ["1 - pmc.logreg.test"]) == {"utility": 0.9, "pmc": 0.6, "pmc.logreg.test": 0.5}
    with pytest.raises(SpecError, match=r"has no score 'pmc\.top5'; it has pmc, pmc\.leak_auc"):
        kept_of(scores, ["pmc.top5"])
