"""A worker refuses a pack of other data or of another version, and the driver raises what it sent."""

import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
import ray

from tests.helpers.side_measurements import Asking
from tests.helpers.simulated import SimulatedTrainable
from trainables.base import PackTrainable
from trainables.cell import CellTrainable
from tune_vfl.data import load, loading
from tune_vfl.driver.planning import planned_campaign
from tune_vfl.driver.source import SearchJobs
from tune_vfl.errors import DataError, OtherDataError
from tune_vfl.evaluation.code import bytes_of_code
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.execution.pack_searcher import PackSearcher
from tune_vfl.machine.version import VERSION
from tune_vfl.spec import parse
from tune_vfl.spec.cell import Cell, References


def cell_on(path: Path) -> Cell:
    dataset = {"name": "csv", "path": str(path), "label": "y", "passive_parties": 1}
    raw = {"study": "s", "dataset": dataset, "defense": "none", "attacks": ["norm"], "budget": {"seeds": 1}}
    return resolve(parse({**raw, "training": {"epochs": 1}}))


def written(path: Path, sign: int = 1) -> Path:
    rows = [f"{k},{(k * 7) % 11},{int(sign * (k % 5 - 2) > 0)}" for k in range(60)]
    path.write_text("a,b,y\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def step(trainable: type[PackTrainable], pack: dict[str, Any], sent: dict[str, Any] | None = None) -> list[Any]:
    worker = object.__new__(trainable)
    worker.setup({"seconds": None, "options": {}, "version": VERSION, **pack}, sent)
    return list(worker.step()["outcomes"])


def trials(cell: Cell, data: str, **more: Any) -> dict[str, Any]:
    references = References().model_dump_json()
    return {"cell": cell.model_dump_json(), "params": [{}, {}], "references": references, "data": data, **more}


def test_a_file_that_was_replaced_gives_no_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = cell_on(written(tmp_path / "bank.csv"))
    data = load(cell.dataset).fingerprint
    assert [answer["outcome"] for answer in step(CellTrainable, trials(cell, data))] == ["ok", "ok"]
    written(tmp_path / "bank.csv", -1)
    (refused,) = step(CellTrainable, trials(cell, data))
    assert isinstance(refused, OtherDataError)
    assert f"{tmp_path / 'bank.csv'} has the fingerprint {load(cell.dataset).fingerprint}" in str(refused)
    assert f"the study's rows have {data}" in str(refused)
    assert refused.exit_code == 4
    monkeypatch.setattr(CellTrainable, "evaluate", lambda *_: pytest.fail("other rows are not trained on"))
    for asks in ("references", "floors", "attacker", "cost"):
        (again,) = step(CellTrainable, {**trials(cell, data), "asks": asks, "minutes": 1.0})
        assert isinstance(again, OtherDataError), asks
    (tmp_path / "bank.csv").unlink()
    (missing,) = step(CellTrainable, trials(cell, data))
    assert isinstance(missing, DataError)
    assert "on machine " in str(missing)


def test_a_file_that_is_replaced_during_a_training_gives_no_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = cell_on(written(tmp_path / "bank.csv"))
    data, usual = load(cell.dataset).fingerprint, CellTrainable.evaluate

    def replaced(*given: Any) -> Any:
        outcomes = usual(*given)
        written(tmp_path / "bank.csv", -1)
        return outcomes

    monkeypatch.setattr(CellTrainable, "evaluate", replaced)
    (refused,) = step(CellTrainable, trials(cell, data))
    assert isinstance(refused, OtherDataError)


def test_a_file_that_a_machine_lacks_is_taken_from_the_driver_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = written(tmp_path / "bank.csv")
    cell, content = cell_on(bank), bank.read_bytes()
    data = load(cell.dataset).fingerprint
    here = [answer["leakage"] for answer in step(CellTrainable, trials(cell, data))]
    bank.unlink()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(loading, "_received", {})
    monkeypatch.setattr(ray, "get", lambda reference: reference)
    (missing,) = step(CellTrainable, trials(cell, data))
    assert isinstance(missing, DataError)
    assert re.search(rf"on machine .*{bank}: no such file.*64 MiB.*every machine", str(missing))
    (refused,) = step(CellTrainable, trials(cell, data), {str(bank): content.replace(b",1\n", b",0\n", 3)})
    assert isinstance(refused, OtherDataError)
    monkeypatch.setattr(loading, "_received", {})
    assert [a["leakage"] for a in step(CellTrainable, trials(cell, data), {str(bank): content})] == here
    assert list((tmp_path / "temporary").iterdir()) == []
    assert not bank.exists()


def test_other_source_files_of_the_same_version_are_refused(tmp_path: Path) -> None:
    cell = cell_on(written(tmp_path / "bank.csv"))
    (refused,) = step(SimulatedTrainable, trials(cell, "any", code="0123456789ab"))
    assert isinstance(refused, OtherDataError)
    assert "has other source files" in str(refused)
    assert not isinstance(step(SimulatedTrainable, trials(cell, "", code=bytes_of_code()))[0], Exception)


def test_another_version_of_the_program_is_refused(tmp_path: Path) -> None:
    cell = cell_on(written(tmp_path / "bank.csv"))
    (refused,) = step(SimulatedTrainable, trials(cell, "any", version="0.0.9"))
    assert isinstance(refused, OtherDataError)
    assert f"has tune-vfl {VERSION}, and the driver is 0.0.9" in str(refused)


def test_a_trainable_without_data_has_none_to_compare(tmp_path: Path) -> None:
    cell = cell_on(written(tmp_path / "bank.csv"))
    assert len(step(SimulatedTrainable, trials(cell, "data"))) == 2


def test_the_driver_raises_a_workers_exception_and_suggests_nothing_more() -> None:
    packs = [Asking("first"), Asking("second")]
    searcher = PackSearcher(SearchJobs([], packs), lambda: 8, {})
    sent = searcher.suggest("one")
    assert isinstance(sent, dict)
    assert sent["version"] == VERSION
    with pytest.raises(OtherDataError, match="other rows"):
        searcher.on_trial_complete("one", {"outcomes": [OtherDataError("other rows")]})
    assert packs[0].answers == []
    with pytest.raises(OtherDataError, match="other rows"):
        searcher.suggest("two")


@pytest.mark.parametrize(
    "spec",
    [
        {"dataset": "digits"},
        {"dataset": {"name": "breast_cancer", "split": 0.3}},
        {"dataset": {"name": "wine", "passive_parties": 3}},
        {"dataset": "digits", "federation": {"name": "horizontal", "clients": 3}, "attacks": ["wgi"]},
    ],
    ids=["digits", "breast_cancer", "wine", "horizontal"],
)
def test_a_worker_reads_the_rows_of_the_plan(spec: dict[str, Any]) -> None:
    plan = planned_campaign({"study": "s", "defense": "none", "attacks": ["default"], **spec}).studies[0]
    assert CellTrainable.data_of(plan.cell) == plan.data != ""
