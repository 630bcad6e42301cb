"""Reports: a page needs nothing but itself, shows every study, and replaces an older one whole."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pandas as pd
import pytest

from reports.story import story
from tests.helpers.campaigns import campaign_of, part_of
from tests.helpers.confirmations import made_up_confirmation
from tests.helpers.mounts import among_own_mounts
from tests.helpers.reports import write_report
from tests.helpers.studies import made_up_study, made_up_trial
from tune_vfl.errors import StudyError
from tune_vfl.outcome import Outcome
from tune_vfl.records.campaigns import CampaignRecord, Skipped
from tune_vfl.spec import Named, parse
from tune_vfl.spec.cell import MEASURE
from tune_vfl.spec.raw import read_yaml


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
        for point in story(record).joint.front:
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


def test_a_compromise_is_shown_with_what_there_is_to_choose_from(tmp_path):
    steep = part_of("laplace", [(0.94, 0.6), (0.80, 0.45)]), part_of("kdk", [(0.78, 0.15)])
    text = write_report(campaign_of(*steep), tmp_path / "out").read_text(encoding="utf-8")
    decision = text[text.index('<div class="decision compromise">') : text.index("The frontier of all defenses")]
    assert "deploy" not in decision.lower()
    assert "gives away about three fifths" in decision
    assert "<code>constraints: {leakage: CAP}</code>" in decision
    names = "camp-breast_cancer-kdk#0", "camp-breast_cancer-laplace#1", "camp-breast_cancer-laplace#0"
    commands = [f"tune-vfl export camp --select {name} -o best.json" for name in names]
    assert re.findall(r"tune-vfl export.*best\.json", decision) == commands, "the compromise last"
    assert "○ the compromise" in text
    assert "recommended: " not in text
    limited = write_report(campaign_of(*steep, constraints={"leakage": 0.5}), tmp_path / "limited")
    assert "recommended: laplace scale=2" in limited.read_text(encoding="utf-8")


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


def test_the_page_of_a_running_search_has_its_script_as_its_only_other_file(tmp_path):
    whole = CampaignRecord("c", (made_up_study(24, failures=()),), 40)
    page = write_report(whole, tmp_path / "out", refreshing=True)
    script = page.parent / "figures" / "plotly.js"
    assert {p for p in page.parent.rglob("*") if p.is_file()} == {page, script}
    text = page.read_text(encoding="utf-8")
    assert re.findall(r'(?:src|href)="([^"#]+)"', text) == ["figures/plotly.js"]
    assert len(text) < 500_000 < 4_000_000 < script.stat().st_size
    before = script.stat().st_ino
    write_report(replace(whole, trials=41), tmp_path / "out", refreshing=True)
    assert script.stat().st_ino == before, "it is written once"
    assert "24 of 41 trials" in page.read_text(encoding="utf-8")
    write_report(whole, tmp_path / "out")
    assert not script.exists(), "the final page holds it"
    assert {p.name for p in page.parent.iterdir()} == {"index.html", "figures", "tables", "test-study.yaml"}


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
    secret = record.spec.model_copy(update={"storage": "postgresql://me:pa55-w0rd@host/db", "tracking": "http://a:b@c"})
    page = write_report([replace(record, spec=secret)], tmp_path / "out")
    again = parse(read_yaml(page.parent / "test-study.yaml"))
    assert again == record.spec
    for path in page.parent.rglob("*.*"):
        assert not path.is_file() or b"pa55-w0rd" not in path.read_bytes()


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
    section = text.partition("<h2>What stays</h2>")[2].partition("</section>")[0]
    assert "1 of 3 points of the front stay: measured again with 10 fresh seeds" in section
    assert "No reserve: few rows: &lt;the seeds&gt; are fresh." in section
    assert section.count('<tr class="goes">') == 2
    frame = pd.read_csv(page.parent / "tables" / "confirmed.csv")
    assert frame["number"].tolist() == [10, 11, 12]


def test_studies_of_different_measures_are_not_laid_side_by_side(tmp_path):
    old = replace(made_up_study(name="old"), measure=1)
    with pytest.raises(StudyError, match=rf"old has measure 1, test-study has measure {MEASURE}.*--name NEW"):
        write_report([old, made_up_study()], tmp_path / "out")
    assert "1: every row was searched on" in write_report([old], tmp_path / "one").read_text(encoding="utf-8")


def test_a_report_goes_into_a_folder_that_is_mounted(tmp_path):
    (tmp_path / "out").mkdir()
    write = "from pathlib import Path; from reports.page import place_report\n"
    write += "place_report({'index.html': b'page', 'tables/t.csv': b'table'}, Path('out'))"
    lines = 'mount -t tmpfs none out && "$0" -c "$1" && cat out/index.html out/tables/t.csv && ls -A . out'
    assert among_own_mounts(lines, tmp_path, write) == "pagetable.:\nout\n\nout:\nindex.html\ntables\n"
