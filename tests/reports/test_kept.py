"""A report that lies as it was made is not made again, and every other one is."""

from dataclasses import replace

import pytest

import reports.page
from reports import kept
from reports.page import write_report
from tune_vfl.testing.studies import made_up_study


@pytest.fixture
def made(monkeypatch):
    """Pages that were made."""
    found = []
    real = reports.page.render
    monkeypatch.setattr(reports.page, "render", lambda *given, **more: found.append(1) or real(*given, **more))
    return found


def test_a_report_of_the_same_is_not_made_again(tmp_path, made):
    pages = [write_report([made_up_study(3)], tmp_path / "out") for _ in range(2)]
    assert pages == [tmp_path / "out" / "index.html"] * 2
    assert len(made) == 1
    write_report([made_up_study(3)], tmp_path / "out", pictures={"digits": b"PNG"})
    assert len(made) == 2


@pytest.mark.parametrize("told", [{"waiting": 2}, {"cost": 3.0}, {"alone": (0.5,)}, {"running": 1}])
def test_whatever_the_records_tell_makes_another_report(tmp_path, made, told):
    record = made_up_study(3)
    for each in (record, replace(record, **told), record):
        write_report([each], tmp_path / "out")
    assert len(made) == 3


def test_other_code_makes_another_report(tmp_path, made, monkeypatch):
    write_report([made_up_study(3)], tmp_path / "out")
    monkeypatch.setattr(kept, "VERSION", "0.0.0")
    kept._code.cache_clear()
    write_report([made_up_study(3)], tmp_path / "out")
    kept._code.cache_clear()
    assert len(made) == 2


@pytest.mark.parametrize(
    "harm", ["changed", "missing", "no manifest", "a manifest of something else", "a page that goes"]
)
def test_a_report_that_was_harmed_is_made_again(tmp_path, made, harm):
    record, out = made_up_study(3), tmp_path / "out"
    page = write_report([record], out)
    if harm == "changed":
        page.write_text("mine")
    elif harm == "missing":
        (out / "tables" / "front.csv").unlink()
    elif harm == "no manifest":
        (out / "report.json").unlink()
    elif harm == "another manifest":
        (out / "report.json").write_text('["no report"]')
    else:
        write_report([replace(record, running=1)], out, refreshing=True)
    before = len(made)
    write_report([record], out)
    assert len(made) == before + 1
    assert "mine" not in page.read_text(encoding="utf-8")[:10]
    assert (out / "tables" / "front.csv").exists()


def test_what_python_compiles_is_not_the_program():
    sources = kept._sources()
    assert {"page.py", "page.html.j2", "passes.cpp"} <= {path.name for path in sources}
    assert not [path for path in sources if "__pycache__" in path.parts or path.suffix == ".pyc"]
