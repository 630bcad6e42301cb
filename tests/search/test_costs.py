"""What defenses cost is measured once, after everything else, by a trainable that pretends to train."""

import os
import signal

import pytest

from tests.helpers.packing import planned
from trainables.base import TrainingTrainable, nap
from trainables.simulated import SimulatedTrainable
from tune_vfl.campaign.select import select
from tune_vfl.ledger.reading import open_campaign
from tune_vfl.search import resume
from tune_vfl.search.runner import Work, run_campaign

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


class Slow(Costly):
    """Takes its time with the second defense."""

    @classmethod
    def cost(cls, cell, params, undefended, options):
        nap(60 if cell.defense == "gaussian" else 0)
        return COSTS[cell.defense]


def go(trainable, **how):
    return run_campaign(planned(), work=Work(trainable, {}), **{"progress": False, **how})


def costs():
    return {s.cell.defense: s.cost for s in open_campaign("c").record().studies}


def test_a_search_ends_with_its_costs_and_a_constraint_on_them_decides(capfd):
    go(Costly, progress=True)
    assert costs() == COSTS
    assert "measuring what the defenses cost" in capfd.readouterr().err
    assert select(open_campaign("c").record(), "cost<=1.5").study.name == "c-laplace"
    resume("c", progress=True, listeners=(), work=Work(Breaking, {}))
    assert costs() == COSTS, "what was measured is not measured again"


def test_in_a_race_a_defense_that_costs_too_much_is_retired(capfd):
    plan = planned(trials=12, allocation="race", constraints={"cost": 1.5})
    run_campaign(plan, work=Work(Costly, {}), progress=True)
    record = open_campaign("c").record()
    assert {s.cell.defense: len(s.counted) for s in record.studies} == {"laplace": 9, "gaussian": 3}
    assert record.retired["c-gaussian"].startswith("behind laplace under the constraints")
    said = capfd.readouterr().err
    assert said.index("measuring what the defenses cost") < said.index("c-gaussian is retired")


def test_what_is_missing_is_measured_by_a_later_run(capfd):
    go(SimulatedTrainable)
    assert costs() == {"laplace": None, "gaussian": None}, "what trains nothing costs nothing that could be measured"
    resume("c", progress=True, listeners=(), work=Work(Breaking, {}))
    assert costs() == {**COSTS, "laplace": None}
    assert "the cost of laplace was not measured: no clock" in capfd.readouterr().err
    told = []
    resume("c", progress=False, listeners=[_Hears(told)], work=Work(Costly, {}))
    assert costs() == COSTS
    assert {record.cell.defense: record.cost for record in told} == COSTS, "whoever shows the campaign is told"


def test_ctrl_c_while_costs_are_measured_loses_nothing(ctrl_c, monkeypatch):
    from tune_vfl.ledger.ledger import Ledger

    keep = Ledger.set_cost

    def kept_and_left(ledger, cost):
        keep(ledger, cost)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Ledger, "set_cost", kept_and_left)
    ended = go(Slow)
    assert not any(study.stopped for study in ended)
    assert costs() == {"laplace": 1.1, "gaussian": None}
    assert [len(s.ok) for s in open_campaign("c").record().studies] == [3, 3]
    monkeypatch.undo()


def test_a_search_that_is_stopped_measures_none(ctrl_c):
    go(Costly, listeners=[_Stops()])
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


class _Stops(_Hears):
    """Presses Ctrl-C when the first trial ends."""

    def __init__(self):
        super().__init__([])
        self._pressed = False

    def on_trials(self, study, records):
        if not self._pressed:
            self._pressed = True
            os.kill(os.getpid(), signal.SIGINT)
