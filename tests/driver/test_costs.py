"""What defenses cost is measured once, after everything else, by a trainable that pretends to train."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.helpers.packing import planned
from tests.helpers.resuming import resume
from tests.helpers.simulated import SimulatedTrainable
from tests.helpers.waiting import nap
from trainables.base import TrainingTrainable
from tune_vfl.analysis.select import select
from tune_vfl.driver.campaign_run import run_campaign
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.ledger.reading import open_study

pytestmark = pytest.mark.usefixtures("home")

COSTS = {"laplace": 1.1, "gaussian": 3.0}


class Costly(TrainingTrainable, SimulatedTrainable):
    """Knows what its defenses cost, and that none was asked for a setting that it does not search."""

    @classmethod
    def cost(cls, cell, params, undefended, options):
        assert undefended.defense == "none"
        assert (undefended.dataset, undefended.training) == (cell.dataset, cell.training)
        assert list(params) == [{"laplace": "scale", "gaussian": "sigma"}[cell.defense]]
        return COSTS[cell.defense]


class Breaking(Costly):
    """Cannot measure one of its defenses."""

    @classmethod
    def cost(cls, cell, params, undefended, options):
        if cell.defense == "laplace":
            raise RuntimeError("no clock\nin here")
        return COSTS[cell.defense]


class Meeting(Costly):
    """Waits for another one that is measured at the same time: costs 2 where it meets one."""

    @classmethod
    def cost(cls, cell, params, undefended, options):
        (place := Path(options["journal"]).with_name(f"cost of {cell.defense}")).touch()
        end = time.monotonic() + 60
        while not (met := len(list(place.parent.glob("cost of *"))) > 1) and time.monotonic() < end:
            nap(0.05)
        nap(0.2 if met else 0.0)  # the other one looks too
        place.unlink()
        return 2.0 if met else 1.0


class Noting(Costly):
    """What is compared with waits for the cost of a defense, and writes down which came first."""

    @classmethod
    def _note(cls, options, what):
        with Path(options["journal"]).with_name("order").open("a", encoding="utf-8") as order:
            order.write(f"{what}\n")

    @classmethod
    def measure(cls, cell, options):
        end = time.monotonic() + 60
        while not Path(options["journal"]).with_name("order").exists() and time.monotonic() < end:
            nap(0.05)
        cls._note(options, "references")
        return super().measure(cell, options)

    @classmethod
    def cost(cls, cell, params, undefended, options):
        if not Path(options["journal"]).with_name("order").exists():
            cls._note(options, "cost")
        return super().cost(cell, params, undefended, options)


def go(trainable, spec=None, options=None, **how):
    return run_campaign(
        planned(**(spec or {})), work=TrainableSpec(trainable, options or {}), **{"progress": False, **how}
    )


def costs():
    return {s.cell.defense: s.cost for s in open_study("c").record().studies}


def test_a_constraint_on_costs_decides_and_what_was_measured_is_not_measured_again(workers):
    workers.room = 4
    go(Costly)
    assert workers.costs_together == 2, "as many at once as there is room for"
    assert select(open_study("c").record(), "cost<=1.5").study == "c-laplace"
    resume("c", progress=False, sinks=(), work=TrainableSpec(Breaking, {}), other_code=True)
    assert costs() == COSTS


@pytest.mark.slow
def test_a_worker_that_trials_do_not_need_yet_measures_costs(tmp_path):
    """While it is measured what attacks are compared with."""
    journal = tmp_path / "journal"
    go(Noting, {"resources": {"concurrency": 2}}, options={"journal": str(journal)})
    assert (tmp_path / "order").read_text().split() == ["cost", "references"]
    assert costs() == COSTS


@pytest.mark.slow
def test_as_many_are_measured_at_once_as_there_is_room_for(tmp_path):
    go(Meeting, {"resources": {"concurrency": 2}}, options={"journal": str(tmp_path / "journal")})
    assert costs() == {"laplace": 2.0, "gaussian": 2.0}


def test_what_is_missing_is_measured_by_a_later_run(workers, capfd):
    go(SimulatedTrainable)
    assert costs() == {"laplace": None, "gaussian": None}, "what trains nothing costs nothing that could be measured"
    resume("c", progress=True, sinks=(), work=TrainableSpec(Breaking, {}), other_code=True)
    assert costs() == {**COSTS, "laplace": None}
    assert "the cost of laplace was not measured: no clock" in capfd.readouterr().err
    told = []
    resume("c", progress=False, sinks=[_Hears(told)], work=TrainableSpec(Costly, {}), other_code=True)
    assert costs() == COSTS
    assert {record.cell.defense: record.cost for record in told} == COSTS, "whoever shows the campaign is told"


def test_ctrl_c_while_costs_are_measured_leaves_the_rest_to_the_next_run(workers, capfd):
    workers.room = 1
    workers.after = lambda _: costs()["laplace"] and os.kill(os.getpid(), signal.SIGINT)
    assert not go(Costly, progress=True), "no trial is owed"
    assert costs() == {"laplace": 1.1, "gaussian": None}
    assert [len(s.ok) for s in open_study("c").record().studies] == [3, 3]
    assert "stopping: 6 of 6 trials are kept, what is measured beside them ends first" in capfd.readouterr().err
    workers.after = lambda _: None
    go(Costly)
    assert costs() == COSTS


def test_a_search_that_is_stopped_measures_none(workers):
    workers.room = 1
    workers.after = lambda searcher: searcher.stop() if workers.trials else None
    go(Costly)
    assert costs() == {"laplace": None, "gaussian": None}


class _Hears:
    """Remembers the studies that it is told."""

    def __init__(self, told):
        self._told = told

    def on_trials(self, study, records):
        pass

    def on_study(self, record):
        self._told.append(record)

    def on_end(self):
        pass

    def left(self):
        return ""
