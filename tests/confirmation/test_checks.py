"""What a reader must know before trusting a confirmation, check by check, and which rows it measures on."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.helpers.campaigns import part_of, steady
from tests.helpers.confirmations import made_up_confirmation
from tune_vfl import data
from tune_vfl.confirmation.answer import _gap, _line, _range
from tune_vfl.confirmation.checks import RowFacts, checks_of, nothing_ended_ok, rows_of
from tune_vfl.confirmation.jobs import _lanes
from tune_vfl.confirmation.tuning import owed, with_tuned
from tune_vfl.execution.pack_sizes import LANES
from tune_vfl.outcome import TunedAttack
from tune_vfl.records.confirmations import ConfirmedPoint
from tune_vfl.statistics import leakage_bounds

POINTS = made_up_confirmation().points
SOME = RowFacts(120, "", 1.0)


def says(points: Any = POINTS, facts: RowFacts = SOME, *, by_rows: bool = True, studies: int = 1, **fields: Any) -> Any:
    parts = [part_of(d, [(0.9, 0.3)], **fields) for d in ("laplace", "kdk")[:studies]]
    return {check.name: (check.ok, check.says) for check in checks_of(parts, points, facts, by_rows=by_rows)}


def test_every_check_is_told_whether_it_holds_or_not() -> None:
    found = says(POINTS[:2])
    assert found == {
        "finished": (True, "the search is finished"),
        "reserve": (True, "utility is measured on 120 rows that no search has seen"),
        "rows": (True, "intervals of utility hold for other rows of this source too"),
        "measured": (True, "every setting was measured"),
        "decided": (True, "no interval is too wide to choose by"),
    }
    other = says(facts=RowFacts(0, "no reserve: few rows", 0.2), by_rows=False, running=1, waiting=2)
    assert other["finished"] == (False, "3 trials of the search are still owed: its front may move")
    assert other["reserve"] == (False, "no reserve: few rows: the seeds are fresh, the rows are not")
    assert other["rows"] == (
        False,
        "intervals of utility hold for these rows: the spread of auc over rows is not known",
    )
    assert other["measured"] == (False, "no number for trial 12: NaN")
    assert says(())["measured"] == (True, "no setting is near the joint front: none was measured again")
    assert nothing_ended_ok("wine").says == "wine: nothing to confirm, none of its trials ended ok"


def test_points_are_called_by_their_study_where_there_are_several() -> None:
    assert says(studies=2)["measured"] == (False, "no number for trial test-study#12: NaN")
    wide = POINTS[0].model_copy(update={"leakage_interval": (0.1, 0.7)})
    again = wide.model_copy(update={"number": 20})
    gone = POINTS[1].model_copy(update={"leakage_interval": (0.0, 1.0)})
    tail = "is undecided: half of its interval is more than .25"
    assert says([wide, gone])["decided"] == (False, f"the leakage of trial 10 {tail}"), "of what stays alone"
    assert says([wide, again])["decided"] == (False, f"the leakage of trials 10, 20 {tail}")


def test_seeds_that_share_their_test_rows_say_nothing_of_others() -> None:
    """Their spread lacks all of that over rows; seeds that draw their own lack the share of rows that each tests on."""
    part = part_of("laplace", [])
    found = rows_of(part.cell)
    assert found.reserve == 0, "breast_cancer has 569 rows"
    assert found.why_none.startswith("no reserve")
    assert found.share == data.load(part.cell.dataset).test_share
    assert 0 < found.share < 1


def test_a_reserve_is_shared_by_all_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    part = part_of("laplace", [])
    monkeypatch.setattr("tune_vfl.data.reserve.reserve_rows", lambda _: range(40))
    found = rows_of(part.cell)
    assert (found.reserve, found.share) == (40, 1.0)


def test_test_rows_that_a_data_set_comes_with_are_shared_by_all_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    part = part_of("laplace", [])
    given = replace(data.load(part.cell.dataset), test_rows=torch.arange(100))
    monkeypatch.setattr("tune_vfl.data.load", lambda _: given)
    monkeypatch.setattr("tune_vfl.data.reserve.reserve_rows", lambda _: range(0))
    found = rows_of(part.cell)
    assert (found.reserve, found.share) == (0, 1.0)


def point(searched: tuple[float, float], found: tuple[float, float] | None, *, on_front: bool = True) -> ConfirmedPoint:
    utility, leakage = found or (None, None)
    return POINTS[0].model_copy(
        update={
            "searched": {"utility": searched[0], "leakage": searched[1]},
            "utility": utility,
            "leakage": leakage,
            "on_front": on_front,
        }
    )


def test_how_much_better_a_search_s_front_looked() -> None:
    some = [point((0.9, 0.2), (0.88, 0.3)), point((0.8, 0.1), (0.79, 0.1)), point((0.5, 0.5), None)]
    gap = _gap([*some, point((0.9, 0.0), (0.1, 1.0), on_front=False)])
    assert gap == pytest.approx({"utility": 0.015, "leakage": 0.05}), "means over the front's measured points"
    assert _gap([point((0.9, 0.2), None)]) == {}


def test_ranges_of_what_varies_in_a_line() -> None:
    assert _range([3, 1.5, 2]) == [1.5, 3]
    assert _range([2, 2]) == [2]
    assert _range([True, False, True]) == [True, False], "words, not numbers"
    assert _range(["a", "b", "a", 1]) == ["a", "b", 1]


def test_a_line_goes_from_the_lowest_to_the_highest() -> None:
    first = point((0.9, 0.2), (0.88, 0.3)).model_copy(update={"number": 4, "params": {"scale": 0.1, "k": 2}})
    second = point((0.9, 0.2), (0.90, 0.1)).model_copy(update={"number": 7, "params": {"scale": 0.3, "k": 2}})
    line = _line([second, first], ["k"])
    assert (line.numbers, line.params) == ((7, 4), {"scale": [0.1, 0.3]})
    assert (line.utility, line.leakage) == ((0.88, 0.9), (0.1, 0.3))


def test_a_job_lasts_no_longer_than_ten_minutes() -> None:
    timed = steady(0.9, 0.3).model_copy(update={"seconds": {"train": 240.0, "attack": 60.0}})
    assert _lanes(part_of("laplace", [timed])) == 6, "a network of 100 seconds: the three seeds of a trial share 300"
    assert _lanes(part_of("laplace", [timed, timed])) == 6
    assert _lanes(part_of("laplace", [])) == LANES


def attacker(*gains: float, minutes: float = 1.0) -> TunedAttack:
    about: dict[str, Any] = {"attack": "pmc", "params": {}, "variant": "v", "tried": 3, "minutes": minutes}
    return TunedAttack(**about, success=(0.9,) * len(gains), floors=(0.5,) * len(gains), advantages=gains)


def test_a_tuned_attacker_raises_what_it_surpasses_and_nothing_else() -> None:
    before = POINTS[0]  # leakage .3 in [.2, .4], at most .38
    gains = (0.5, 0.6, 0.7, 0.6, 0.6)
    (bounds,) = leakage_bounds([[list(gains)]])
    after = with_tuned(before, attacker(*gains))
    assert after.leakage == pytest.approx(0.6)
    assert after.leakage_interval == pytest.approx((bounds.lower, bounds.upper))
    assert after.leakage_upper_90 == pytest.approx(bounds.upper_90)
    little = with_tuned(before, attacker(0.1, 0.1, 0.1))
    assert (little.leakage, little.leakage_interval, little.leakage_upper_90) == (0.3, (0.2, 0.4), 0.38)
    assert little.tuned is not None
    assert with_tuned(before, None) is before
    lost = POINTS[2]
    assert with_tuned(lost, attacker(0.5, 0.6)) is lost, "without numbers there is nothing to raise"


def test_who_is_tuned_against_still() -> None:
    settings = [("a", 1), ("a", 2), ("b", 1)]
    held = {("a", 1): attacker(0.1, 0.1, minutes=2.0), ("b", 1): attacker(0.1, 0.1, minutes=1.0)}
    assert owed(settings, held, 2.0) == [("a", 2), ("b", 1)], "nobody, or for less long"
    assert owed(settings, held, 1.0) == [("a", 2)]
