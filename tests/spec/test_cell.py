"""What a cell is measured by."""

from tune_vfl.spec.cell import MEASURE, is_measured_as_today


def test_scores_of_an_earlier_measure_are_todays_unless_their_attack_has_changed_since() -> None:
    assert is_measured_as_today(MEASURE, ["norm", "gradient_em", "default"])
    assert is_measured_as_today(3, ["norm", "pmc"])
    assert not is_measured_as_today(3, ["norm", "gradient_em"])
    assert not is_measured_as_today(3, ["thorough"])
    assert not is_measured_as_today(1, [])
