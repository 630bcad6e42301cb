"""Reports: the numbers in them, the words about them, and that a page needs nothing but itself."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from reports.confirmed import sections
from reports.frontier import frontier_info
from reports.page import write_report
from reports.story import secrets, story
from reports.tables import (
    attacks_frame,
    cap_frame,
    front_frame,
    outcomes_frame,
    tables,
    to_latex,
    to_markdown,
    trials_frame,
)
from tests.helpers.confirmations import made_up_confirmation
from tune_vfl.analysis import formatting
from tune_vfl.errors import StudyError
from tune_vfl.outcome import Outcome
from tune_vfl.records.campaigns import CampaignRecord, Skipped
from tune_vfl.spec import Named, parse
from tune_vfl.spec.cell import MEASURE
from tune_vfl.spec.raw import read_yaml
from tune_vfl.testing.studies import made_up_outcome, made_up_study, made_up_trial


def study_of(*points, **kwargs):
    """A study whose ok trials have exactly these (utility, attack success)."""
    trials = [made_up_trial(n, scale=10.0**-n, outcome=made_up_outcome(*p)) for n, p in enumerate(points)]
    return replace(made_up_study(2, **kwargs), trials=tuple(trials))


def by_all(record):
    """The same study, as if every attack of a competent adversary had been run on it."""
    rest = [
        Named(name=n) for n in ("direction", "grad_cluster", "gradient_completion", "gradient_em", "pmc", "spectral")
    ]
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
    assert formatting.number(value) == expected


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


def test_the_papers_scalars_stand_in_the_tables():
    names_classes = {"top1": 0.6}
    trials = []
    for n, (utility, success) in enumerate([(0.9, 0.8), (0.8, 0.6)]):
        outcome = made_up_outcome(utility, success)
        attacks = {
            name: score.model_copy(update={"extra": names_classes if name == "mean" else {}})
            for name, score in outcome.attacks.items()
        }
        trials.append(made_up_trial(n, scale=0.1, outcome=outcome.model_copy(update={"attacks": attacks})))
    record = replace(made_up_study(2), trials=tuple(trials))
    [row] = cap_frame([record]).to_dict("records")
    assert (row["study"], row["attack"], row["settings"]) == (record.name, "mean", 2)
    assert row["cap"] == pytest.approx((0.9 * 0.4 + 0.8 * 0.4) / 2)
    assert row["std"] == pytest.approx(0.4 * 0.1 / 2**0.5)
    listed = attacks_frame([record]).query("number == 1").set_index("attack")
    assert listed.loc["mean", "cap"] == pytest.approx(0.8 * 0.4)
    assert listed["cap"].isna().sum() == 1
    assert listed.loc["norm", "utility_per_leak"] > 1


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
            "Not tried: direction, grad_cluster, gradient_completion, gradient_em, pmc and spectral. "
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
    worse = replace(record, alone=tuple(v + 0.02 for v in record.baseline.utility.values))
    assert any("can be worse than none; try fewer epochs" in said for said in story(worse).failing)


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
    features = replace(record, cell=record.cell.model_copy(update={"attacks": (wmi,)}))
    assert (secrets([features]), secrets([features, record])) == ("features", "labels and features")


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
    """Collects everything that a browser would fetch or leave the page for, and the page's own text."""

    def __init__(self):
        super().__init__()
        self.found, self.tags, self.ids, self.texts, self._inside = [], [], [], [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self._inside = dict(attrs).get("id", "") if tag == "script" else ""
        self.ids += [v for k, v in attrs if k == "id"]
        self.found += [v for k, v in attrs if k in {"src", "href", "xlink:href", "data", "srcset", "action", "poster"}]

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside != "plotly":  # whose own addresses are never asked for: tests/reports/test_browser.py
            self.texts.append(data)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    records = [made_up_study(), made_up_study(name="other", defense="marvell", shift=2.0)]
    return write_report(records, tmp_path_factory.mktemp("report") / "out")


def test_a_page_needs_nothing_but_itself(report):
    page = Outside()
    page.feed(report.read_text(encoding="utf-8"))
    away = [ref for ref in page.found if not ref.startswith(("data:image/svg+xml;base64,", "#"))]
    assert away
    assert all((report.parent / ref).is_file() for ref in away), away
    assert all(ref[1:] in page.ids for ref in page.found if ref.startswith("#"))
    assert not re.search(r"https?:|//[a-z]|@import|url\(", "".join(page.texts))
    assert not {"link", "iframe", "object"} & set(page.tags)
    assert page.ids.count("plotly") == 1
    assert len(page.ids) == len(set(page.ids))


def test_a_report_has_every_file(report):
    names = {str(p.relative_to(report.parent)) for p in report.parent.rglob("*") if p.is_file()}
    tables = (
        "front",
        "fronts",
        "trials",
        "attacks",
        "cap",
        "outcomes",
        "ranking",
        "worst_attacks",
        "cost",
        "failures",
        "hypervolume",
    )
    expected = {f"tables/{n}.{k}" for n in tables for k in ("csv", "md", "tex")}
    expected |= {f"figures/{n}.{k}" for n in ("frontier", "hypervolume") for k in ("png", "svg")}
    assert names == expected | {"index.html", "test-study.yaml", "other.yaml"}
    assert (report.parent / "figures/frontier.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_shows_each_study_and_every_front_point(report):
    text = report.read_text(encoding="utf-8")
    for record in (made_up_study(), made_up_study(name="other", defense="marvell", shift=2.0)):
        for point in frontier_info(record).front:
            assert f'<tr data-trial="{record.name}#{point.number}"' in text


def test_studies_side_by_side_are_exported_each_by_its_own_name(report):
    text = report.read_text(encoding="utf-8")
    assert "tune-vfl export other --select other#" in text.replace("<br>", " ").replace("\\u003cbr>", " ")
    assert not re.search(r"export test-study --select other|export other --select test", text)


def test_what_comes_first_is_the_decision(report):
    text = report.read_text(encoding="utf-8")
    parts = ("Can it be trusted?", "What to deploy", "What was not examined", "The frontier of all defenses")
    parts += (
        "Defenses ranked",
        "What each attack finds",
        "How the search went",
        "What it cost",
        "Trials without a result",
    )
    places = [text.index(f">{part}") for part in (*parts, "Defense by defense")]
    assert places == sorted(places)


def test_a_campaign_is_a_section_a_data_set_and_exports_by_its_own_name(tmp_path):
    one, two = made_up_study(name="c-laplace"), made_up_study(name="c-marvell", defense="marvell", shift=2.0)
    wine = made_up_study(5, name="c-wine")
    moved = replace(wine, cell=wine.cell.model_copy(update={"dataset": Named(name="wine")}))
    left = (Skipped("c-kdk", None, ("too many <classes>",)),)
    whole = CampaignRecord("c", (replace(one, cost=1.25), two, moved), 60, skipped=left)
    page = write_report(whole, tmp_path / "out")
    text = page.read_text(encoding="utf-8")
    assert '<h2 class="where" id="d1">wine</h2>' in text
    assert "too many &lt;classes&gt;" in text
    assert "tune-vfl export c --select c-laplace#" in text
    assert 'http-equiv="refresh"' not in text
    names = {p.name for p in (page.parent / "figures").iterdir()}
    assert {"frontier-wine.svg", "frontier-breast_cancer.png", "hypervolume-wine.png"} <= names
    cost = pd.read_csv(page.parent / "tables/cost.csv")
    assert cost["study"].tolist() == ["c-laplace", "c-marvell", "c-wine"]
    assert cost["cost"].tolist()[0] == 1.25
    assert set(pd.read_csv(page.parent / "tables/front.csv")["dataset"]) == {"breast_cancer", "wine"}


@pytest.mark.parametrize(("trials", "reloads"), [(40, True), (24, False)])
def test_the_page_of_a_running_search_reloads_itself_while_trials_are_owed(tmp_path, trials, reloads):
    whole = CampaignRecord("c", (made_up_study(24, failures=()),), trials)
    text = write_report(whole, tmp_path / "out", refreshing=True).read_text(encoding="utf-8")
    assert ('<meta http-equiv="refresh"' in text) == reloads
    assert ("24 of 40 trials have finished; 16 trials are still owed" in text) == reloads


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

    def fail(*_, **__):
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
    with pytest.raises(StudyError, match=rf"old has measure 1, test-study has measure {MEASURE}.*--name NEW"):
        write_report([old, made_up_study()], tmp_path / "out")
    assert "1: every row was searched on" in write_report([old], tmp_path / "one").read_text(encoding="utf-8")
