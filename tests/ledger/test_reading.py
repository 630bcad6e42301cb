"""A study that is read without Optuna is the study that Optuna reads."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta
from pathlib import Path

import optuna
import pytest

from tests.helpers.ledgers import open_ledger
from tune_vfl.errors import StudyError
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.reader import SqlReader
from tune_vfl.ledger.reading import OPTUNA_TABLES, ReadStudy, open_to_read
from tune_vfl.ledger.storage import storage_at
from tune_vfl.ledger.trials import overdue
from tune_vfl.outcome import Outcome, Score
from tune_vfl.spec.cell import References

pytestmark = pytest.mark.usefixtures("home")

SAMPLE = Path(__file__).parents[1] / "samples" / "7ce63a4" / "ledger.db.gz"
SPACE = {
    "k": {"int": [2, 5]},
    "epsilon": {"float": [0.1, 0.9], "log": True},
    "anchor": {"choice": ["true_label", "teacher_argmax"]},
}


def ended(ledger: Ledger, params: dict, outcome: Outcome, **fields: object) -> None:
    assert ledger.tell(ledger.begin(params, pack="a", **fields), outcome) is not None


def fill(ledger: Ledger) -> None:
    ok = Outcome(outcome="ok", utility=Score.of("auc", [0.1 + 0.2, 1 / 3]), leakage=0.7, notes=["ünïcode"])
    ended(ledger, {"k": 3, "epsilon": 0.1 + 0.2, "anchor": "true_label"}, ok)
    ended(ledger, {"k": 2, "epsilon": 0.9, "anchor": "teacher_argmax"}, Outcome.failed("diverged", "NaN"))
    lost = ledger.begin({"k": 5, "epsilon": 0.5, "anchor": "teacher_argmax"}, pack="b")
    assert ledger.lose(lost, "worker", "it died") is not None
    ended(ledger, {"k": 5, "epsilon": 0.5, "anchor": "teacher_argmax"}, ok, retry_of=lost)
    ledger.begin({"k": 4, "epsilon": 0.2, "anchor": "true_label"}, pack="c")


def made() -> Ledger:
    ledger = open_ledger(defense={"name": "kdk", "space": SPACE}, budget={"trials": 9, "seeds": 2})
    ledger.set_references_and_reference_point(References(r_lower={"norm": [0.5, 0.6]}), (0.5, 1.0))
    ledger.set_baseline(Outcome.failed("timeout", "too slow"))
    fill(ledger)
    return ledger


def test_everything_of_a_study_is_read_as_optuna_reads_it() -> None:
    ledger = made()
    storage = optuna.storages.RDBStorage(storage_at().url)
    study = optuna.load_study(study_name="study", storage=storage)
    study.enqueue_trial({"k": 2, "epsilon": 0.3, "anchor": "true_label"})
    read, held = open_to_read("study"), Ledger.open("study")
    assert isinstance(read, ReadStudy)
    assert read.record() == held.record()
    assert [t.params for t in read.trials()] == [t.params for t in held.trials()]
    assert [t.state.name for t in read.trials()] == [t.state.name for t in held.trials()]
    assert read.trials()[-1].system_attrs == held.trials()[-1].system_attrs
    assert {type(t.params["k"]) for t in read.trials()[:-1]} == {int}
    late = datetime.now(UTC) + timedelta(hours=1)
    assert overdue(read.trials(), 1, late) == overdue(held.trials(), 1, late) == [4]
    assert ledger.record() == read.record()


def test_what_goes_on_is_read_on() -> None:
    ledger = made()
    read = open_to_read("study")
    assert (len(read.record().trials), read.record().running) == (4, 1)
    ended(ledger, {"k": 2, "epsilon": 0.4, "anchor": "true_label"}, Outcome.failed("oom", "full"))
    ledger.tell(4, Outcome.failed("timeout", "late"))
    ledger.extend(20)
    assert read.record() == ledger.record()
    assert (len(read.record().trials), read.record().waiting) == (6, 15)


def test_the_ledger_of_an_earlier_version_is_read_the_same(home: Path) -> None:
    home.mkdir()
    (home / "ledger.db").write_bytes(gzip.decompress(SAMPLE.read_bytes()))
    read = open_to_read("sample")
    assert isinstance(read, ReadStudy)
    assert read.record() == Ledger.open("sample").record()


def test_optuna_has_the_tables_that_are_read_here() -> None:
    open_ledger()
    with storage_at().reading() as reader:
        assert reader.rows("SELECT version_num FROM alembic_version") == [(OPTUNA_TABLES,)]


def test_a_file_is_read_alike_at_once_and_through_sqlalchemy() -> None:
    ledger = open_ledger()
    ledger.tell(ledger.begin({"scale": 0.01}), Outcome(outcome="ok", utility=Score.of("auc", [0.8]), leakage=0.5))
    queries = ("SELECT study_name FROM studies WHERE study_id = :study", "SELECT number, state FROM trials")
    with storage_at().reading() as reader, storage_at().engine().connect() as connection:
        through = SqlReader(connection)
        assert [reader.has_table(t) for t in ("studies", "nothing")] == [True, False]
        assert [through.has_table(t) for t in ("studies", "nothing")] == [True, False]
        for query, values in zip(queries, ({"study": 1}, {}), strict=True):
            rows = [tuple(row) for row in through.rows(query, **values)]
            assert rows
            assert reader.rows(query, **values) == rows


def test_other_tables_and_unknown_names_are_left_to_optuna() -> None:
    open_ledger()
    with pytest.raises(StudyError, match="Did you mean 'study'"):
        open_to_read("studi")
    with storage_at().engine().begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'v99'")
    with pytest.raises(StudyError, match="another version of Optuna"):
        open_to_read("study")
