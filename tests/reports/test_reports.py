"""Reports: the numbers in them, the words about them, and that a page needs nothing but itself."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from reports.layout import lay_out

from reports import labels, words
from reports.confirmed import sections
from reports.frontier import frontier_info, limits, staircase, ticks
from reports.page import write_report
from reports.story import story
from reports.tables import attacks_frame, front_frame, outcomes_frame, tables, to_latex, to_markdown, trials_frame
from tests.helpers.confirmations import made_up_confirmation
from tune_vfl.errors import StudyError
from tune_vfl.outcome import Outcome
from tune_vfl.spec import Named, parse
from tune_vfl.spec.raw import read_yaml
from tune_vfl.testing.studies import made_up_outcome, made_up_study, made_up_trial


def study_of(*points, **kwargs):
    """A study whose ok trials have exactly these (utility, attack success)."""
    trials = [made_up_trial(n, scale=10.0**-n, outcome=made_up_outcome(*p)) for n, p in enumerate(points)]
    return replace(made_up_study(2, **kwargs), trials=tuple(trials))


def by_all(record):
    """The same study, as if every attack of a competent adversary had been run on it."""
    rest = [Named(name=n) for n in ("direction", "grad_cluster", "gradient_completion", "pmc", "spectral")]
    return replace(record, cell=record.cell.model_copy(update={"attacks": (*record.cell.attacks, *rest)}))


# What is computed before it is drawn


def test_the_info_of_a_front_that_can_be_read_off():
    info = frontier_info(study_of((0.90, 0.80), (0.70, 0.60), (0.80, 0.90), (0.88, 0.62)))
    assert [p.number for p in info.front] == [1, 3, 0]
    assert info.knee.number == 3
    assert [p.on_front for p in info.points] == [True, True, False, True]
    assert info.points[0].leakage == pytest.approx((0.80 - 0.5) / 0.5)
    assert info.points[0].utility_std == pytest.approx(0.004)
    assert info.points[0].leakage_std == pytest.approx(0.02)
    assert (info.metric, info.guess_utility, info.seeds, info.moved) == ("AUC", 0.5, 3, ("scale",))
    assert info.undefended.utility == pytest.approx(0.965)
    assert [p.label for p in info.front] == ["0.1", "0.001", "1"]


def test_fixed_parameters_stay_out_of_labels():
    record = study_of((0.9, 0.8))
    trial = replace(record.trials[0], params={"scale": 0.5, "keep": 0.25})
    fixed = replace(record, trials=(trial,), cell=record.cell.model_copy(update={"fixed": {"keep": 0.25}}))
    assert frontier_info(fixed).points[0].label == "0.5"
    assert frontier_info(replace(record, trials=(trial,))).points[0].label == "scale=0.5, keep=0.25"


def test_a_staircase_goes_right_before_it_goes_up():
    front = frontier_info(study_of((0.9, 0.8), (0.7, 0.6))).front
    expected = [(0.2, 0.7), (0.6, 0.7), (0.6, 0.9), (1.0, 0.9)]
    assert np.allclose(staircase(front, 1.0), expected)
    assert staircase((), 1.0) == []


def test_limits_hold_every_point_its_bars_and_the_undefended_model():
    info = frontier_info(made_up_study())
    (left, right), (bottom, top) = limits([info])
    for p in [*info.points, info.undefended]:
        assert left <= p.leakage <= right
        assert bottom <= p.utility - p.utility_std
        assert p.utility + p.utility_std <= top


def test_a_guess_far_below_does_not_flatten_the_figure():
    close = study_of((0.960, 0.8), (0.955, 0.6))
    layout = lay_out([frontier_info(close)])
    assert layout.guess_y is None
    assert layout.guess_utility == 0.5
    assert lay_out([frontier_info(made_up_study())]).guess_y is not None


def test_ticks_are_round_and_within():
    assert ticks(0.0, 1.0, 5) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert ticks(0.931, 0.968, 4) == [0.94, 0.95, 0.96]


@pytest.mark.parametrize("width", [400, 860])
def test_no_label_covers_another_or_leaves_the_plot(width):
    layout = lay_out([frontier_info(made_up_study(60))], width, 420)
    boxes = [label.box for label in layout.labels]
    assert len(boxes) > 4
    assert layout.labels[0].text.startswith("knee: scale=")
    assert all(b.inside(layout.canvas.plot) for b in boxes)
    assert all(a.overlap(b) == 0 for k, a in enumerate(boxes) for b in boxes[:k])


def test_a_box_is_free_where_it_shares_no_area_with_any_other():
    rng = np.random.default_rng(0)
    boxes = [labels.Box(*row) for row in rng.integers(0, 9, size=(300, 4)).astype(float).tolist()]
    for box in boxes[:60]:
        for others in ([], boxes[100:101], boxes[60:64], boxes[60:]):
            assert labels._covers(box, labels._edges(others)) == any(box.overlap(other) > 0 for other in others)


def test_a_label_without_room_is_left_out():
    bounds = labels.Box(0, 0, 50, 50)
    wish = labels.Wish(25, 25, "too wide", 60, 10)
    assert labels.place([wish], bounds) == []
    assert len(labels.place([wish._replace(width=20)], bounds)) == 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0031622, "0.00316"),
        (1e-05, "1e-5"),
        (3, "3"),
        (True, "true"),
        ("true_label", "true_label"),
        (1200.0, "1200"),
    ],
)
def test_numbers_as_a_reader_meets_them(value, expected):
    assert words.number(value) == expected


# Tables


def test_the_front_table_is_the_front():
    record = made_up_study()
    frame = front_frame([record])
    info = frontier_info(record)
    assert frame["number"].tolist() == [p.number for p in info.front]
    assert frame["knee"].sum() == 1
    assert frame["leakage"].is_monotonic_increasing
    assert {"defense.scale", "utility_std", "attack.norm", "attack.mean"} <= set(frame.columns)


def test_all_trials_are_listed_and_failures_have_no_objectives():
    frame = trials_frame([made_up_study()])
    failed = frame[frame["outcome"] != "ok"]
    assert len(frame) == 27
    assert sorted(failed["outcome"]) == ["diverged", "preempted", "timeout"]
    assert failed[["utility", "leakage", "rank"]].isna().all(axis=None)
    assert frame["retry_of"].dropna().tolist() == [2]


def test_outcomes_are_counted_with_their_reasons():
    frame = outcomes_frame([made_up_study(failures=("diverged", "diverged", "oom"))]).set_index("outcome")
    assert frame["trials"].to_dict() == {"ok": 24, "diverged": 2, "oom": 1}
    assert frame.loc["diverged", "reasons"] == "diverged on purpose, for a test (2)"


def test_attacks_are_listed_for_the_front_and_the_undefended_model():
    record = made_up_study()
    frame = attacks_frame([record])
    assert len(frame) == 2 * (1 + len(frontier_info(record).front))
    assert frame["number"].isna().sum() == 2
    assert frame.loc[frame["attack"] == "mean", "upper_bound"].all()


def test_csv_comes_back_as_it_was():
    for name, frame in tables([made_up_study()]).items():
        back = pd.read_csv(io.StringIO(frame.to_csv(index=False)), keep_default_na=False, na_values=[""])
        assert list(back.columns) == list(frame.columns), name
        for column in frame.select_dtypes("number"):
            ours, theirs = frame[column].astype(float), back[column].astype(float)
            assert np.array_equal(ours, theirs, equal_nan=True), (name, column)


def test_markdown_and_latex_escape_what_they_must():
    frame = pd.DataFrame({"a_b": ["x|y & 5%", None], "n": [0.123456, 2.0]})
    assert to_markdown(frame).splitlines() == ["| a_b | n |", "| --- | --- |", r"| x\|y & 5% | 0.123 |", "| – | 2 |"]
    tex = to_latex(frame)
    assert r"a\_b & n \\" in tex
    assert r"x|y \& 5\% & 0.123 \\" in tex
    assert r"\begin{tabular}{lr}" in tex


# Words


def test_the_answer_names_the_knee_its_cost_and_what_it_brings():
    record = by_all(study_of((0.90, 0.80), (0.70, 0.60), (0.88, 0.62)))
    answer = story(record).answer
    assert "3 of 3 measured settings" in answer
    assert "scale=0.01 (trial 2)" in answer
    assert "costs 0.085 AUC (0.880 against 0.965 undefended)" in answer
    assert "takes leakage from 0.940 to 0.240" in answer


def test_a_defense_that_does_not_help_is_said_not_to():
    answer = story(by_all(study_of((0.97, 0.99)))).answer
    assert "does not lower leakage (0.940 undefended, 0.980 with it)" in answer
    assert "costs no AUC" in answer


def test_nothing_is_recommended_before_a_competent_adversary_was_tried():
    told = story(study_of((0.90, 0.80), (0.88, 0.62)))
    assert told.failing == [
        (
            "Not tried: direction, grad_cluster, gradient_completion, pmc and spectral. "
            "Search with `attacks: default` before you choose."
        )
    ]
    assert told.answer.startswith("Nothing is recommended")
    assert story(by_all(study_of((0.90, 0.80), (0.88, 0.62)))).failing == []


def test_nothing_is_recommended_where_the_undefended_model_had_not_learned_to_the_end(tmp_path):
    record = by_all(study_of((0.90, 0.80), (0.88, 0.62)))
    early = [v - 0.05 for v in record.baseline.utility.values]
    still = replace(record, baseline=record.baseline.model_copy(update={"utility_before_end": early}))
    (said,) = story(still).failing
    assert "+0.0500 over the last 10% of the steps; train longer" in said
    page = write_report([still], tmp_path / "report").read_text(encoding="utf-8")
    assert page.index("train longer") < page.index("Nothing is recommended")


def test_the_label_party_alone_is_a_line_and_what_settings_keep_of_the_gain_a_column(tmp_path):
    record = by_all(study_of((0.90, 0.80), (0.88, 0.62)))
    gain = [v - 0.1 for v in record.baseline.utility.values]
    whole = replace(record, alone=tuple(gain))
    alone = frontier_info(whole).trust.alone
    assert (alone.utility, alone.gain) == pytest.approx((0.865, 0.1))
    assert alone.kept(0.90) == pytest.approx(0.35)
    page = write_report([whole], tmp_path / "report").read_text(encoding="utf-8")
    assert "the label party alone, 0.865" in page
    assert '<td class="n">35%</td>' in page
    nothing = replace(record, alone=tuple(record.baseline.utility.values))
    assert any("nothing to protect it for" in said for said in story(nothing).failing)
    assert frontier_info(nothing).trust.alone.kept(0.9) is None


def test_a_weak_attack_is_not_sold_as_a_good_defense():
    outcome = made_up_outcome(0.9, 0.8, weak=True)
    record = replace(made_up_study(2), trials=(made_up_trial(7, scale=0.5, outcome=outcome),))
    warning = next(w for w in story(record).warnings if w.startswith("Attack too weak"))
    assert "mean on trial 7" in warning
    assert "not that the defense is good" in warning


def test_a_setting_that_is_no_better_than_a_guess_is_pointed_out_the_knee_first_of_all():
    guess = frontier_info(study_of((0.9, 0.8))).guess_utility
    alone = story(study_of((guess - 0.3, 0.6), (0.9, 0.8)))
    (warning,) = [w for w in alone.warnings if w.startswith("No better than a guess")]
    assert "trial 0 of the front is" in warning
    assert alone.info.knee is not None
    assert ("knee" in warning) == (alone.info.knee.number == 0)
    assert not any(w.startswith("No better") for w in story(study_of((guess + 0.1, 0.6), (0.9, 0.8))).warnings)


def test_the_question_names_what_the_attacks_are_after():
    record = study_of((0.9, 0.8))
    assert "protects the labels of" in story(record).asked
    wmi = record.cell.attacks[0].model_copy(update={"name": "wmi"})
    both = replace(record, cell=record.cell.model_copy(update={"attacks": (*record.cell.attacks, wmi)}))
    assert "protects the labels and features of" in story(both).asked


def test_attacks_that_find_nothing_anywhere_are_pointed_out():
    record = replace(study_of((0.9, 0.51)), baseline=made_up_outcome(0.96, 0.51))
    assert any("almost nothing even in the undefended model" in w for w in story(record).warnings)


def test_a_defense_of_gradients_tried_by_gradient_attacks_alone_is_pointed_out():
    record = made_up_study()
    assert any("protects gradients only" in w and "add the attack pmc" in w for w in story(record).warnings)
    other = replace(record, cell=record.cell.model_copy(update={"defense": "label_dp"}))
    assert not any("protects gradients only" in w for w in story(other).warnings)


def test_upper_bounds_one_seed_and_unfinished_studies_are_marked():
    record = made_up_study()
    assert any(r.startswith("mean: an upper bound") for r in story(record).remarks)
    assert not any(r.startswith("norm:") for r in story(record).remarks)
    alone = replace(record, running=1, waiting=2, cell=record.cell.model_copy(update={"seeds": (0,)}))
    assert any(w.startswith("One seed") for w in story(alone).warnings)
    assert any("3 trials are still owed" in w for w in story(alone).warnings)


# The page


class Outside(HTMLParser):
    """Collects everything that a browser would fetch or leave the page for."""

    def __init__(self):
        super().__init__()
        self.found, self.tags = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.found += [v for k, v in attrs if k in {"src", "href", "xlink:href", "data", "srcset", "action", "poster"}]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    records = [made_up_study(), made_up_study(name="other", defense="marvell", shift=2.0)]
    return write_report(records, tmp_path_factory.mktemp("report") / "out")


def test_a_page_needs_nothing_but_itself(report):
    text = report.read_text(encoding="utf-8")
    page = Outside()
    page.feed(text)
    assert page.found
    assert all((report.parent / ref).is_file() for ref in page.found), page.found
    assert not re.search(r"https?:|//[a-z]|@import|url\(", text)
    assert not {"link", "iframe", "img", "object"} & set(page.tags)


def test_a_report_has_every_file(report):
    names = {str(p.relative_to(report.parent)) for p in report.parent.rglob("*") if p.is_file()}
    expected = {f"tables/{n}.{k}" for n in ("front", "trials", "attacks", "outcomes") for k in ("csv", "md", "tex")}
    assert names == expected | {
        "index.html", "figures/frontier.png", "figures/frontier.svg", "test-study.yaml", "other.yaml",
    }  # fmt: skip
    assert (report.parent / "figures/frontier.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_shows_each_study_and_every_front_point(report):
    text = report.read_text(encoding="utf-8")
    for record in (made_up_study(), made_up_study(name="other", defense="marvell", shift=2.0)):
        for point in frontier_info(record).front:
            assert f'<tr data-trial="{record.name}/{point.number}"' in text


def test_text_from_outside_is_escaped(tmp_path):
    nasty = Outcome.failed("error", "<script>alert(1)</script> & more")
    record = replace(made_up_study(2), trials=(made_up_trial(0, scale=0.1, outcome=nasty),))
    text = write_report([record], tmp_path / "out").read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text


@pytest.mark.parametrize("trials", [0, 1])
def test_studies_without_a_front_or_baseline_get_a_page_too(tmp_path, trials):
    record = replace(made_up_study(trials, failures=()), baseline=None)
    page = write_report([record], tmp_path / "out")
    assert ("No trial has finished yet." in page.read_text(encoding="utf-8")) == (trials == 0)


def test_the_spec_of_a_report_can_be_searched_again_and_holds_no_password(tmp_path):
    record = made_up_study(2)
    secret = record.spec.model_copy(update={"storage": "postgresql://me:secret@host/db", "tracking": "http://a:b@c"})
    page = write_report([replace(record, spec=secret)], tmp_path / "out")
    again = parse(read_yaml(page.parent / "test-study.yaml"))
    assert again == record.spec
    for path in page.parent.rglob("*.*"):
        assert not path.is_file() or b"secret" not in path.read_bytes()


def test_a_second_report_replaces_the_first_and_keeps_what_is_not_its_own(tmp_path):
    out = tmp_path / "out"
    write_report([made_up_study(3)], out)
    (out / "mine.txt").write_text("keep me")
    first = (out / "index.html").read_text()
    write_report([made_up_study(8)], out)
    assert (out / "index.html").read_text() != first
    assert (out / "mine.txt").read_text() == "keep me"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_report_that_fails_leaves_the_old_one(tmp_path, monkeypatch):
    out = tmp_path / "out"
    write_report([made_up_study(3)], out)
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("reports.page.render", fail)
    with pytest.raises(OSError, match="disk full"):
        write_report([made_up_study(8)], out)
    assert {p: p.read_bytes() for p in out.rglob("*") if p.is_file()} == before
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_two_studies_of_one_name_are_refused(tmp_path):
    with pytest.raises(StudyError, match="different names"):
        write_report([made_up_study(2), made_up_study(2)], tmp_path / "out")


def test_the_same_study_gives_the_same_page(tmp_path):
    one, two = (write_report([made_up_study(5)], tmp_path / n) for n in ("one", "two"))
    for path in one.parent.rglob("*.*"):
        if path.is_file():
            assert path.read_bytes() == (two.parent / path.relative_to(one.parent)).read_bytes(), path


def test_the_plotly_figure_holds_every_point():
    from reports.interactive import interactive

    info = frontier_info(made_up_study())
    figure = interactive([info])
    assert sum(len(t.x) for t in figure.data) == len(info.points) + 1


def test_a_confirmation_has_a_section_and_a_table_of_its_own(tmp_path):
    record = replace(made_up_study(), confirmation=made_up_confirmation())
    page = write_report([record], tmp_path / "out")
    text = page.read_text(encoding="utf-8")
    assert "<h2>What stays</h2>" in text
    section = text.partition("<h2>What stays</h2>")[2].partition("</section>")[0]
    assert "1 of 3 points of the front stay: measured again with 10 fresh seeds" in section
    assert "looked 0.020 AUC better than that, and 0.050 less leaky." in section
    assert "utility on the search&#39;s own rows" in section
    assert "No reserve: few rows: &lt;the seeds&gt; are fresh." in section
    assert "0.910 (0.900 to 0.920)" in section
    assert "0.300 (0.200 to 0.400)" in section
    assert section.count('<tr class="goes">') == 2
    assert ">diverged<" in section
    assert "Trials 10 and 13 cannot be told apart (scale 0.001 to 0.003)" in section
    frame = pd.read_csv(page.parent / "tables" / "confirmed.csv")
    assert frame["number"].tolist() == [10, 11, 12]
    assert frame["confirmed"].tolist() == [True, False, False]
    assert frame["searched_utility"].tolist() == [0.93, 0.93, 0.8]
    assert frame["leakage_low"].tolist()[:2] == [0.2, 0.2]
    assert frame["utility"].isna().tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (10, "On fresh seeds it has AUC 0.910 (0.900 to 0.920) and leakage 0.300 (0.200 to 0.400)."),
        (11, "leakage 0.300 (0.200 to 0.400). It does not stay on the front: choose one that does."),
        (12, "Measured again with fresh seeds it ended as diverged: NaN."),
        (13, ""),
    ],
)
def test_the_answer_says_what_the_knee_is_on_fresh_seeds(number, says):
    record = by_all(replace(made_up_study(), confirmation=made_up_confirmation()))
    told = story(record).answer
    knee = frontier_info(record).knee.number
    points = [p.model_copy(update={"number": knee if p.number == number else 99}) for p in record.confirmation.points]
    moved = record.confirmation.model_copy(update={"points": tuple(points)})
    answer = story(replace(record, confirmation=moved)).answer
    assert answer.endswith(says)
    assert answer.startswith(story(by_all(made_up_study())).answer)
    assert ("fresh seeds" in answer) == bool(says)
    assert told


def test_a_confirmation_on_a_reserve_says_how_many_rows_it_had(tmp_path):
    record = replace(made_up_study(), confirmation=made_up_confirmation(reserve=921, gap={}))
    section = sections([record])[0]
    assert section.says.endswith("utility on 921 rows that no search has seen.")
    assert sections([made_up_study()]) == []


def test_studies_of_different_measures_are_not_laid_side_by_side(tmp_path):
    old = replace(made_up_study(name="old"), measure=1)
    with pytest.raises(StudyError, match=r"old has measure 1, test-study has measure 2.*--name NEW"):
        write_report([old, made_up_study()], tmp_path / "out")
    assert "1: every row was searched on" in write_report([old], tmp_path / "one").read_text(encoding="utf-8")
