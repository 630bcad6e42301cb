"""What a cell is measured by."""

from tune_vfl.spec.cell import MEASURE, References, is_measured_as_today


def test_scores_of_an_earlier_measure_are_todays_unless_their_attack_has_changed_since() -> None:
    assert is_measured_as_today(MEASURE, ["norm", "matched_filter", "default"])
    assert is_measured_as_today(3, ["norm", "pmc"])
    assert not is_measured_as_today(5, ["norm", "matched_filter"])
    assert not is_measured_as_today(3, ["thorough"])
    assert not is_measured_as_today(1, [])


def test_reference_scores_taken_apart_by_seed_are_put_together_again() -> None:
    ways = {"pmc on an untrained model": [0.6, 0.7], "pmc on a model moved by noise": [0.65, 0.75]}
    whole = References(
        r_lower={"pmc/bank": [0.6, 0.7], "bmi": [0.1, 0.2]},
        noise={"pmc/bank": [0.01, 0.02]},
        floors={"bank": ways, "shop": {"own columns": [0.8, 0.9]}},
    )
    first, second = whole.at(0), whole.at(1)
    assert second.floors["bank"] == {way: [found[1]] for way, found in ways.items()}
    assert References.joined([first, second]) == whole
    assert References.joined([second, first]).of_party("shop", 1) == {"own columns": [0.9]}
    assert whole.of_party("clinic", 2) == {}


def test_of_seeds_put_together_only_what_each_of_them_has_is_kept() -> None:
    parts = [References(r_lower={"pmc": [0.6]}, noise={"pmc": [0.01]}), References(r_lower={"pmc": [0.7], "x": [0.5]})]
    assert References.joined(parts) == References(r_lower={"pmc": [0.6, 0.7]})
