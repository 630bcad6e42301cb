"""docs/fidelity.md is what the papers' files and the kept results say, and the kept results come out again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tune_vfl import evaluate
from tune_vfl.evaluation.packs import evaluate_task
from tune_vfl.evaluation.task import Task
from tune_vfl.papers.overview import entry, overview
from tune_vfl.papers.owed import plan
from tune_vfl.papers.page import page_text
from tune_vfl.papers.reading import find_table
from tune_vfl.papers.results import TableResults, kept_folder, read_results
from tune_vfl.spec.cell import References

ROOT = Path(__file__).parents[2]
TABLE = "gafm-table2"
COMMAND = "tune-vfl reproduce --list --results search_spaces/papers/results --page docs/fidelity.md"
SPAMBASE = pytest.mark.public_data("spambase/spambase.data")
SLOW = pytest.mark.slow  # six seconds or more of training each


def test_the_page_is_written_from_the_files_and_the_kept_results_alone() -> None:
    """No number of it is typed by hand: any that was would differ here."""
    written = page_text(overview(kept_folder()), html=False)
    assert (ROOT / "docs" / "fidelity.md").read_text(encoding="utf-8") == written, f"write it again: {COMMAND}"


def test_the_spambase_cells_of_gafm_have_the_verdicts_that_this_project_stands_on() -> None:
    """Undefended all four cells come out; Marvell's leaks do and GAFM's; Max-Norm's are those before its noise."""
    cells = entry(TABLE, read_results(kept_folder(), TABLE), dataset="spambase").cells
    verdicts = {(c.evaluation.row.defense, c.heading): c.verdict for c in cells}
    assert len(verdicts) == 16
    assert {v for (defense, _), v in verdicts.items() if defense == "none"} == {"reproduced"}
    assert {verdicts["max_norm", leak] for leak in ("norm", "mean", "median")} == {"lower"}
    assert {verdicts["marvell", leak] for leak in ("norm", "mean", "median")} == {"reproduced"}
    assert verdicts["marvell", "test AUC"] == "higher"
    assert {verdicts["gafm", what] for what in ("test AUC", "mean", "median")} == {"reproduced"}
    assert not any(cell.stale for cell in cells)


@SPAMBASE
@pytest.mark.parametrize("defense", ["none", *(pytest.param(d, marks=SLOW) for d in ("max_norm", "marvell", "gafm"))])
def test_a_kept_seed_comes_out_again(defense: str) -> None:
    _, table = find_table(TABLE)
    (owed,) = (
        one
        for one in plan(table, TableResults(table=TABLE), [0], "spambase").owed
        if one.evaluation.row.defense == defense
    )
    (outcome,) = evaluate_task(Task.open(owed.cell.model_copy(update={"seeds": (0,)})), [{}], References())
    kept = read_results(kept_folder(), TABLE).evaluations[owed.evaluation.label]
    assert kept.data == owed.kept.data, "other rows than those of the kept results"
    found = owed.result_of(outcome).scores
    assert set(found) >= {"utility", "norm", "mean", "median"}
    assert found == pytest.approx({name: kept.seeds[0].scores[name] for name in found}, abs=0.02)


@SPAMBASE
@SLOW
def test_gafm_hides_gradients_and_not_embeddings() -> None:
    """Nothing is published about embeddings, which give the labels away all the same."""
    answer = evaluate("spambase", defense="gafm", attacks=["spectral"], seeds=4)
    assert answer["attacks"]["spectral"]["mean"] >= 0.88
