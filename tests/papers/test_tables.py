"""The papers' files: every recipe names what there is, and a broken file is answered like any broken spec."""

from __future__ import annotations

import pytest

from tune_vfl.attacks.base import build_attack
from tune_vfl.data.base import DATASETS
from tune_vfl.defenses.base import defense_params
from tune_vfl.errors import SpecError, UnknownNameError
from tune_vfl.models.base import MODELS
from tune_vfl.papers.reading import find_table, papers, read_paper
from tune_vfl.papers.results import kept_folder, read_results
from tune_vfl.spaces.named import space_files
from tune_vfl.spec import parse, validated

TABLES = {name: table for paper in papers() for name, table in paper.tables.items()}
CLASSES = {"spambase": 2, "imdb": 2, "criteo": 2, "isic": 2, "bank": 2, "epsilon": 2, "loan": 2, "bhi": 2}


def test_all_five_papers_are_there_with_names_that_say_whose_a_table_is() -> None:
    assert {paper.paper for paper in papers()} == {"LADSG", "KDk", "FedAdOb", "GAFM", "LabObf"}
    assert [n for paper in papers() for n in paper.tables if not n.startswith(paper.paper.lower())] == []


def test_files_of_papers_are_no_search_spaces() -> None:
    assert {"gafm", "kdk"} <= set(space_files()), "defenses of the same names have spaces"
    assert "labobf" in space_files()
    assert not any("/" in name for name in space_files())


@pytest.mark.parametrize("name", [n for n, table in TABLES.items() if table.rows])
def test_every_recipe_names_what_there_is(name: str) -> None:
    table = TABLES[name]
    labels = [evaluation.label for evaluation in table.evaluations]
    assert len(set(labels)) == len(labels)
    for evaluation in table.evaluations:
        spec = parse({**evaluation.raw, "budget": {"seeds": 1}})
        classes = CLASSES.get(evaluation.dataset, 10)
        if evaluation.row.defense != "ladsg" or classes > 2:
            defense_params(spec.defense.name, spec.defense.params, num_classes=classes)
        validated(DATASETS[spec.dataset.name].Options, spec.dataset.options, "dataset")
        for attack in spec.attacks:
            build_attack(attack)
        if spec.model.name:
            validated(MODELS[spec.model.name].Options, spec.model.options, "model")


@pytest.mark.parametrize("name", TABLES)
def test_kept_results_are_of_evaluations_and_columns_of_the_table(name: str) -> None:
    table, kept = TABLES[name], read_results(kept_folder(), name)
    by_label = {evaluation.label: evaluation for evaluation in table.evaluations}
    assert set(kept.evaluations) <= set(by_label)
    for label, found in kept.evaluations.items():
        formulas = table.formulas(by_label[label])
        assert all(seed.has(formulas.values()) for seed in found.seeds.values())
        assert found.recorded is None or set(found.recorded.columns) <= set(formulas)


FILE = """
paper: Test
reference: Somebody 2026
data: {breast_cancer: {seconds: 1}}
tables:
  test-table1:
    title: A table
    place: table 1
    attacks: [{name: norm}]
    columns: {accuracy: utility, norm: norm}
    rows:
      - {dataset: breast_cancer, published: ".9 | .5±.1"}
"""


def test_a_small_file_is_read() -> None:
    table = read_paper(FILE, "test.yaml").tables["test-table1"]
    (evaluation,) = table.evaluations
    assert table.formulas(evaluation) == {"accuracy": "utility", "norm": "norm"}
    assert evaluation.label == "breast_cancer: none"


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (".9 | .5±.1", ".9", "expected 2 published numbers, one a column"),
        (".9 | .5±.1", ".9 | maybe", "expected a number such as .93"),
        ("norm: norm", "norm: mean", "column 'norm' measures mean, which its attacks do not"),
        ("norm: norm", "norm: norm +", "is no arithmetic over scores"),
        ("dataset: breast_cancer", "dataset: digit", "data has no entry for this data set; it has breast_cancer"),
        ("seconds: 1", "second: 1", "data.breast_cancer.seconds: is required and missing"),
        ('.1"}', '.1", why: {nrm: no}}', "no such column: nrm; known: *, accuracy, norm"),
        ('.1"}', '.1", trust: X}', "input should be 'H', 'M' or 'L'"),
        ("title: A table", "title: A table\n    title: B", "key 'title' is given twice"),
    ],
)
def test_a_broken_file_says_where_and_what_is_expected(before: str, after: str, says: str) -> None:
    assert before in FILE
    with pytest.raises(SpecError) as raised:
        read_paper(FILE.replace(before, after), "test.yaml")
    assert says in str(raised.value)
    assert "test.yaml" in str(raised.value)


def test_an_unknown_table_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'gafm-table2'"):
        find_table("gafm-tabel2")
