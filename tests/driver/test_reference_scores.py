"""What attacks are compared with is measured by a worker before anything else; a worker's error is the search's."""

import os
import signal
from pathlib import Path

import pytest

from tests.helpers.ledgers import open_ledger
from tests.helpers.packing import planned
from tests.helpers.simulated import SimulatedTrainable
from tune_vfl.driver.campaign_run import run_campaign
from tune_vfl.driver.reference_scores import ReferenceScores, alike
from tune_vfl.errors import DataError, TuneVflError, UnknownNameError
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.ledger.reading import open_study
from tune_vfl.spec.cell import References

pytestmark = pytest.mark.usefixtures("home")


class Lacking(SimulatedTrainable):
    """Does not find its data."""

    @classmethod
    def measure(cls, cell, options):
        raise DataError("no spambase on this machine")


class Unknowing(SimulatedTrainable):
    """Meets an error that another process cannot read as it is."""

    @classmethod
    def measure(cls, cell, options):
        raise UnknownNameError("attack", "norn", ["norm"])


class Dying(SimulatedTrainable):
    """Takes its worker with it twice, as files beside its journal count."""

    @classmethod
    def measure(cls, cell, options):
        for death in range(2):
            if not (seen := Path(options["journal"]).with_name(f"death {death}")).exists():
                seen.touch()
                os._exit(1)
        return super().measure(cell, options)


def go(trainable, tmp_path, **how):
    work = TrainableSpec(trainable, {"journal": str(tmp_path / "journal")})
    return run_campaign(planned(), work=work, **{"progress": False, **how})


@pytest.mark.parametrize(
    ("trainable", "error", "message"),
    [
        (Lacking, DataError, "no spambase on this machine"),
        (Unknowing, TuneVflError, "unknown attack 'norn'. Did you mean 'norm'?"),
    ],
)
def test_what_goes_wrong_ends_the_search_before_any_trial(workers, tmp_path, trainable, error, message):
    with pytest.raises(error) as met:
        go(trainable, tmp_path)
    assert message in str(met.value)
    studies = open_study("c").record().studies
    assert [s.by_outcome() for s in studies] == [{"running": 0, "waiting": 3}] * 2
    assert all(study.baseline is None for study in studies)


@pytest.mark.slow
def test_a_worker_that_dies_twice_is_asked_again(tmp_path):
    go(Dying, tmp_path)
    assert [len(study.ok) for study in open_study("c").record().studies] == [3, 3]


def test_ctrl_c_lets_it_end_and_the_next_run_has_it(workers, tmp_path, monkeypatch, capfd):
    job, started = ReferenceScores.job, []

    def start_and_leave(measurement):
        started.append(measurement)
        if len(started) == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return job(measurement)

    monkeypatch.setattr(ReferenceScores, "job", start_and_leave)
    assert go(SimulatedTrainable, tmp_path, progress=True), "it was stopped"
    assert "stopping: 0 of 6 trials are kept, what is measured beside them ends first" in capfd.readouterr().err
    go(SimulatedTrainable, tmp_path)
    assert len(started) == 1, "it was kept"
    assert [len(study.ok) for study in open_study("c").record().studies] == [3, 3]


def test_studies_whose_attacks_reach_the_same_without_messages_share_one() -> None:
    asked = {
        "laplace": ["pmc", {"name": "grad_cluster", "average": 2}],
        "gaussian": ["pmc", "grad_cluster"],
        "iso": ["pmc"],
        "marvell": [{"name": "pmc", "aux_per_class": 3}],
        "geno": ["mean"],
        "max_norm": ["norm"],
    }
    ledgers = [open_ledger(name, attacks=attacks) for name, attacks in asked.items()]
    names = [[ledger.study.name for ledger in group] for group in alike(ledgers)]
    assert names == [["laplace", "gaussian", "iso"], ["marvell"], ["geno"], ["max_norm"]], (
        "an attack that reads messages alone has no part in it, but that there is one that is no oracle"
    )


TEN = {"pmc": [number / 10 for number in range(10)]}


def test_what_one_study_knows_the_others_are_given() -> None:
    ledgers, references = [open_ledger("one"), open_ledger("other")], References(r_lower=TEN)
    ledgers[1].set_references_and_reference_point(references, (0.6, 1.0))
    measurement = ReferenceScores(ledgers, "c", lambda: None)
    assert measurement.over
    assert [(ledger.references, ledger.reference_point) for ledger in ledgers] == [(references, (0.6, 1.0))] * 2


def test_the_studies_own_seeds_come_first_and_a_later_run_measures_the_rest() -> None:
    told, ledgers = [], [open_ledger("one"), open_ledger("other")]
    measurement = ReferenceScores(ledgers, "c", lambda: told.append(measurement.enough))
    assert (measurement.over, measurement.enough) == (False, False)
    job = measurement.next_job()
    assert job is not None
    assert job.cell.seeds == ledgers[0].cell.seeds == (0, 1, 2)
    few = {"r_lower": {"pmc": TEN["pmc"][:3]}, "alone": [0.7] * 3}
    measurement.store(job, [{"references": few, "guess": 0.6}])
    assert (measurement.over, measurement.enough, told) == (False, True, [True])
    assert [ledger.references.seeds for ledger in ledgers] == [3, 3]
    resumed = ReferenceScores(ledgers, "c", lambda: told.append(resumed.enough))
    for one in (measurement, resumed):
        assert one.enough
        job = one.next_job()
        assert job is not None
        assert job.cell.seeds == tuple(range(3, 10)), "of the undefended model"
    rest = {"r_lower": {"pmc": TEN["pmc"][3:]}, "alone": [0.9] * 7}
    resumed.store(job, [{"references": rest, "guess": 0.1}])
    assert (resumed.over, resumed.next_job(), told) == (True, None, [True, True])
    for ledger in ledgers:
        assert ledger.references == References(r_lower=TEN, alone=[0.7] * 3 + [0.9] * 7)
        assert ledger.reference_point == (0.6, 1.0), "that of the study's own seeds"


def test_where_no_attack_reads_anything_once_is_all() -> None:
    ledgers = [open_ledger("one")]
    measurement = ReferenceScores(ledgers, "c", lambda: None)
    job = measurement.next_job()
    assert job is not None
    measurement.store(job, [{"references": {}, "guess": 0.5}])
    assert (measurement.over, measurement.enough) == (True, True)
    assert ReferenceScores(ledgers, "c", lambda: None).over
