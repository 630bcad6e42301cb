"""Campaigns of simulated studies: one run of several, one lease, one undefended model, one page; once over Ray."""

import shutil
from dataclasses import replace

import pytest

import reports.page
from tests.helpers.ledgers import open_ledger, reopened
from tests.helpers.packing import run as keep
from tests.helpers.simulated import SimulatedTrainable, simulated_cell, simulated_spec
from tune_vfl import load_study
from tune_vfl.driver.api import default_sinks
from tune_vfl.driver.campaign_run import run_campaign
from tune_vfl.driver.planning import shared_out
from tune_vfl.errors import SpecError, StudyError
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.ledger.reading import open_study
from tune_vfl.ledger.storage import storage_at
from tune_vfl.records.campaigns import PlannedCampaign
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.spaces.named import space_of

pytestmark = pytest.mark.usefixtures("home")

SCALES = {"float": [1e-5, 1e-1], "log": True}
PARTS = {"laplace": {"scale": SCALES}, "gaussian": {"sigma": SCALES}, "iso": {"ratio": {"choice": [0.1, 1.0]}}}


# One worker, where a test is not about several: each takes two seconds of a core to start.
def campaign(trials=12, defenses=("laplace", "gaussian", "iso"), name="c", *, workers=1, **fields):
    studies = []
    resources = {"pack": 2, "concurrency": workers}
    for defense in defenses:
        space = {"name": defense, "space": PARTS[defense]}
        spec = simulated_spec(f"{name}-{defense}", defense=space, sampler="random", resources=resources, **fields)
        cell = simulated_cell(spec)
        studies.append(PlannedStudy(spec, cell, space_of(spec, cell)))
    spec = {"study": name, "defense": list(defenses)}
    return PlannedCampaign(name, shared_out(studies, trials, name), trials, spec)


def go(planned, options=None, **how):
    work = TrainableSpec(SimulatedTrainable, options or {})
    return run_campaign(planned, work=work, progress=how.pop("progress", False), **how)


def trained(journal):
    return [line.split(" [")[0] for line in journal.read_text().splitlines()]


def test_one_run_of_all_studies_shares_workers_and_the_undefended_model(tmp_path, capfd):
    journal = tmp_path / "journal"
    go(campaign(workers=2), {"journal": str(journal)}, progress=True)
    record = open_study("c").record()
    assert [s.name for s in record.studies] == ["c-laplace", "c-gaussian", "c-iso"]
    # iso has two settings; what it cannot use goes to the others.
    assert [len(s.ok) for s in record.studies] == [5, 5, 2]
    assert all(s.running == s.waiting == 0 for s in record.studies)
    assert trained(journal).count("{}") == 1, "the undefended model is trained once for all of them"
    assert len({s.baseline.model_dump_json() for s in record.studies}) == 1
    assert "12/12 trials (3 of 3 studies done)" in capfd.readouterr().err


def test_a_campaign_that_is_given_more_trials_or_another_defense_goes_on(workers, tmp_path):
    journal = tmp_path / "journal"
    go(campaign(4, ("laplace", "gaussian")), {"journal": str(journal)})
    go(campaign(8, ("laplace", "gaussian")), {"journal": str(journal)})
    assert [len(s.ok) for s in open_study("c").record().studies] == [4, 4]
    go(campaign(6), {"journal": str(journal)})
    record = open_study("c").record()
    assert [len(s.ok) for s in record.studies] == [4, 4, 2]
    assert len(trained(journal)) == len(set(trained(journal))) == 11, "nothing twice, nor the undefended model"


def test_a_part_belongs_to_one_campaign_and_its_lease():
    planned = campaign(4, ("laplace", "gaussian"))
    keep(planned, storage_at(None))
    again = replace(planned, name="d", studies=tuple(replace(s, campaign="d") for s in planned.studies))
    with pytest.raises(StudyError, match="part of campaign 'c'"):
        go(again)
    with pytest.raises(StudyError, match="no study 'd'"):  # nothing is written of what is refused
        open_study("d")
    place = storage_at(None)
    with place.lease("c"), pytest.raises(StudyError, match="being run by another process"):
        run_campaign(
            PlannedCampaign.of(reopened("c-laplace").study),
            work=TrainableSpec(SimulatedTrainable, {}),
            progress=False,
        )
    with place.lease("c-gaussian") as lease:
        assert lease.study == "c"


def test_a_campaign_and_a_study_cannot_have_one_name():
    open_ledger("x-laplace").close()
    with pytest.raises(StudyError, match="is a study"):
        go(replace(campaign(2, ("gaussian",), "y"), name="x-laplace"))
    keep(campaign(2, ("gaussian",), "z"), storage_at(None))
    lone = campaign(2, ("laplace",), "w").studies[0].changed(name="z")
    with pytest.raises(StudyError, match="is a campaign"):
        run_campaign(PlannedCampaign.of(replace(lone, campaign="")), work=TrainableSpec(SimulatedTrainable, {}))


def test_a_lone_study_of_before_becomes_a_part(workers):
    planned = campaign(4, ("laplace", "gaussian"))
    run_campaign(
        PlannedCampaign.of(replace(planned.studies[0], campaign="")),
        work=TrainableSpec(SimulatedTrainable, {}),
        progress=False,
    )
    before = load_study("c-laplace").record().studies[0]
    go(planned)
    after = open_study("c").record().studies[0]
    assert after == replace(before, spec=after.spec, campaign="c")
    assert load_study("c-laplace").campaign == "c"


def test_fewer_trials_than_studies_are_refused():
    with pytest.raises(SpecError, match="are fewer than the 3"):
        campaign(2)


def test_the_page_of_a_search_and_the_one_that_mlflow_holds_are_one(workers, home, empty_database, monkeypatch):
    home.mkdir(exist_ok=True)
    shutil.copy(empty_database, home / "mlflow.db")
    made = []
    real = reports.page.report_files
    monkeypatch.setattr(reports.page, "report_files", lambda *given: made.append(given) or real(*given))
    planned = campaign(4, ("laplace", "gaussian"))
    go(planned, sinks=default_sinks(planned))
    assert len(made) == 1, "it takes seconds"
    [attached] = home.rglob("artifacts/report")
    assert _files(attached) == _files(home / "reports" / "c")


def _files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
