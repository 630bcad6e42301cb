"""The rule that says whether a published number is reproduced, on closed forms and on numbers of the papers."""

from __future__ import annotations

import math

import pytest

from tune_vfl.papers.published import read_published
from tune_vfl.papers.verdict import tolerance, verdict_of


@pytest.mark.parametrize(
    ("text", "percent", "mean", "std", "low", "high", "rounding"),
    [
        (".93 (.91 to .95)", False, 0.93, None, 0.91, 0.95, 0.005),
        (".56±.04", False, 0.56, 0.04, None, None, 0.005),
        ("38.5", True, 0.385, None, None, None, 0.0005),
        ("100", True, 1.0, None, None, None, 0.005),
        ("-.049", False, -0.049, None, None, None, 0.0005),
    ],
)
def test_numbers_are_read_as_papers_print_them(text, percent, mean, std, low, high, rounding) -> None:
    found = read_published(text, percent=percent)
    assert found.mean == pytest.approx(mean)
    assert (found.std, found.low, found.high) == (std, low, high)
    assert found.rounding == pytest.approx(rounding)


@pytest.mark.parametrize("text", ["", "n/a", ".5±", ".5 (.4)", ".5 to .6", "1e-3x"])
def test_other_forms_are_refused_with_what_is_expected(text: str) -> None:
    with pytest.raises(ValueError, match="expected a number such as"):
        read_published(text)


def test_both_standard_errors_are_added_in_quadrature_where_the_paper_gives_them() -> None:
    published = read_published(".60±.06")
    ours = 0.04 / math.sqrt(4)
    assert tolerance(published, 9, 0.04, 4) == pytest.approx(2 * math.hypot(ours, 0.06 / 3) + 0.005)
    assert tolerance(published, None, 0.04, 4) == pytest.approx(2 * ours + 0.005)


def test_a_verdict_names_the_side_on_which_ours_lies() -> None:
    published = read_published(".70±.01")
    assert verdict_of(published, 10, 0.69, 0.01, 10) == "reproduced"
    assert verdict_of(published, 10, 0.75, 0.01, 10) == "higher"
    assert verdict_of(published, 10, 0.65, 0.01, 10) == "lower"
    assert verdict_of(published, 10, 0.70, 0.0, 1) is None, "one seed has no standard error"


def test_a_number_is_known_to_its_last_digit_only() -> None:
    """.91 stands for all of .905 to .915: a mean of .913 that scatters by .002 over twenty seeds is the same number."""
    assert verdict_of(read_published(".91"), None, 0.913, 0.002, 20) == "reproduced"
    assert verdict_of(read_published(".9100"), None, 0.913, 0.002, 20) == "higher"
