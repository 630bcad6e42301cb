"""Claims of papers: when one stands and when it falls, and docs/claims.md, which is written from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from reports.board import shelves
from tests.papers.test_fidelity import COMMAND, ROOT
from tests.papers.test_tables import FILE
from tune_vfl.errors import SpecError
from tune_vfl.papers.claims_page import Headlined, Judged, claims_text, says_of
from tune_vfl.papers.comparison import compared
from tune_vfl.papers.overview import TableEntry, overview
from tune_vfl.papers.reading import read_paper
from tune_vfl.papers.results import Results, SeedResult, TableResults, kept_folder
from tune_vfl.service.board import entries_in

NAME = "test-table1"
KDK = "      - {dataset: breast_cancer, defense: kdk, published: '.8 | .40'}"
TWO = FILE.replace("rows:", f"repeats: 4\n    rows:\n{KDK}").replace(".5±.1", ".50±.10")
CLAIM = "{says: kdk leaks less, table: test-table1, column: norm, less: kdk, than: none}"


def judged(kdk: list[float], none: list[float], claim: str = CLAIM, text: str = TWO) -> Judged:
    """Judge a claim by made-up successes of the attack `norm`, a seed each."""
    paper = read_paper(f"{text}claims: [{claim}]\n", "test.yaml")
    table, numbers = paper.tables[NAME], {"kdk": kdk, "none": none}
    kept = {
        evaluation.label: Results(
            raw=evaluation.raw,
            seeds={
                seed: SeedResult(scores={"utility": 0.9, "norm": value})
                for seed, value in enumerate(numbers[evaluation.row.defense])
            },
        )
        for evaluation in table.evaluations
    }
    results = TableResults(table=NAME, evaluations=kept)
    return Judged(paper.claims[0], TableEntry(NAME, paper, table, results, compared(table, results)))


@pytest.mark.parametrize(
    ("kdk", "none", "standing"),
    [
        ([0.41, 0.43], [0.5, 0.52], "stands"),
        ([0.58, 0.60], [0.5, 0.52], "falls"),  # the other way round
        ([0.50, 0.52, 0.51], [0.5, 0.52, 0.51], "undecided"),  # the paper's difference lies within its own error of .1
        ([0.4, 0.5], [0.45, 0.52], "undecided"),
        ([0.4], [0.5], "not run"),  # one seed has no error
        ([], [0.5, 0.52], "not run"),
    ],
)
def test_a_claim_stands_beyond_the_interval_of_its_difference(
    kdk: list[float], none: list[float], standing: str
) -> None:
    assert judged(kdk, none).overall == standing


def test_a_claimed_difference_that_is_nowhere_near_falls() -> None:
    """The same numbers that were undecided fall where the paper's own are sure of a difference."""
    sure = TWO.replace("±.10", "±.01")
    assert judged([0.50, 0.52, 0.51], [0.5, 0.52, 0.51], text=sure).overall == "falls"


def test_a_claim_may_leave_room_ask_for_a_difference_or_name_a_number() -> None:
    ours = ([0.51, 0.53, 0.52], [0.5, 0.52, 0.51])
    assert judged(*ours, CLAIM.replace("}", ", within: .1}")).overall == "stands"
    assert judged(*ours, CLAIM.replace("}", ", within: -.1}")).overall == "falls"
    assert judged(*ours, CLAIM.replace("than: none", "than: .6")).overall == "stands"
    one = judged(*ours, CLAIM.replace("than: none", "than: .3"))
    assert one.overall == "falls"
    assert one.numbers == [
        "breast_cancer: published .40, ours 0.520 ± 0.010 (3 seeds), the paper's own numbers break it"
    ]


def test_claims_are_counted_and_told_with_their_numbers() -> None:
    stands, missing = judged([0.41, 0.43], [0.5, 0.52]), judged([], [])
    assert says_of([stands, stands, missing]) == "of 3 claims 2 stand, 1 was not run"
    assert stands.numbers == [
        "breast_cancer: published .40 against .50±.10, ours 0.420 ± 0.014 against 0.510 ± 0.014 (2 seeds)"
    ]
    assert (missing.numbers, missing.missing) == ([], "breast_cancer")


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("less: kdk", "less: kdl", "no row of test-table1 is named 'kdl'"),
        ("column: norm", "column: nrm", "no such column: nrm; known: accuracy, norm"),
        ("table: test-table1", "table: table1", "no such table: table1; known: test-table1"),
    ],
)
def test_a_claim_of_a_row_that_there_is_not_is_refused(before: str, after: str, says: str) -> None:
    with pytest.raises(SpecError) as raised:
        judged([], [], CLAIM.replace(before, after))
    assert says in str(raised.value)


HEADLINE = "{says: it hides, on: all data, claims: [*less], verdict: stands, review: fine}"


@pytest.mark.parametrize(
    ("kdk", "none", "verdict", "numbers"),
    [
        ([0.41, 0.43], [0.5, 0.52], "stands", "stands: breast_cancer norm 0.420 against 0.510"),
        ([0.58, 0.60], [0.5, 0.52], "falls", "falls: breast_cancer norm 0.590 against 0.510"),
        ([0.4, 0.5], [0.45, 0.52], "undecided", "undecided: breast_cancer norm 0.450 against 0.485"),
        ([], [0.5, 0.52], "not run", "not run here"),
    ],
)
def test_a_headline_rests_on_its_claims(kdk: list[float], none: list[float], verdict: str, numbers: str) -> None:
    one = judged(kdk, none)
    headline = read_paper(f"{TWO}claims: [&less {CLAIM}]\nheadlines: [{HEADLINE}]\n", "test.yaml").headlines[0]
    found = Headlined(headline, [one], "leakage .1 to .2 on 2 data sets")
    assert (found.verdict, found.numbers, found.board) == (verdict, numbers, "-")


def test_a_headline_is_kept_in_part_where_its_claims_differ() -> None:
    stands, falls = judged([0.41, 0.43], [0.5, 0.52]), judged([0.58, 0.60], [0.5, 0.52])
    headline = read_paper(f"{TWO}claims: [&less {CLAIM}]\nheadlines: [{HEADLINE}]\n", "test.yaml").headlines[0]
    assert Headlined(headline, [stands, falls], "").verdict == "in part"


def test_a_headline_of_no_claim_of_the_paper_is_refused() -> None:
    other = HEADLINE.replace("*less", CLAIM.replace("kdk leaks less", "kdk leaks more"))
    with pytest.raises(SpecError, match="headlines: no such claim: kdk leaks more"):
        read_paper(f"{TWO}claims: [{CLAIM}]\nheadlines: [{other}]\n", "test.yaml")


def test_what_a_reviewer_would_say_was_written_for_todays_verdicts() -> None:
    """Where a result changes one, somebody has to read the sentence beside it again."""
    found = overview(kept_folder())
    entries = {entry.name: entry for entry in found.entries}
    for paper in {entry.paper.paper: entry.paper for entry in found.entries}.values():
        every = [Judged(claim, entries[claim.table]) for claim in paper.claims]
        assert 3 <= len(paper.headlines) <= 6
        for headline in paper.headlines:
            assert Headlined(headline, every, "").verdict == headline.verdict, (paper.paper, headline.says)


def test_the_page_is_written_from_the_papers_the_kept_results_and_the_board() -> None:
    written = claims_text(overview(kept_folder()), list(shelves(entries_in(ROOT / "board"))))
    page: Path = ROOT / "docs" / "claims.md"
    assert page.read_text(encoding="utf-8") == written, f"write it again: {COMMAND} --claims docs/claims.md"
