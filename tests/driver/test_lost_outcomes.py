"""A ledger that loses what it had taken, as a failover to a replica that lagged behind: a search says so at its end."""

from typing import Any

import pytest

from tests.driver.conftest import Workers
from tests.helpers.packing import planned
from tests.helpers.resuming import resume
from tests.helpers.simulated import SimulatedTrainable
from tune_vfl.cli.main import main
from tune_vfl.driver.campaign_run import run_campaign
from tune_vfl.errors import TuneVflError
from tune_vfl.execution.pack_searcher import PackSearcher
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.ledger.reading import open_study
from tune_vfl.ledger.storage import storage_at

pytestmark = pytest.mark.usefixtures("home")

WORK = TrainableSpec(SimulatedTrainable, {"by_defense": {"gaussian": {"parameter": "sigma", "waste": 0.1}}})
NO_OUTCOMES = "UPDATE trials SET outcome = NULL, utility = NULL, leakage = NULL, result = NULL, finished = NULL"


def go(trials: int = 16, **spec: Any) -> bool:
    return run_campaign(planned(trials=trials, resources={"pack": 2}, **spec), work=WORK, sinks=(), progress=True)


def lose(workers: Workers, statement: str, packs: int) -> list[int]:
    """Change the ledger once, when so many packs of trials were handed out and the last of them has answered."""
    lost: list[int] = []

    def after(_searcher: PackSearcher) -> None:
        if len(workers.trials) == packs and not lost:
            with storage_at()._writer.begin() as connection:
                lost.append(connection.exec_driver_sql(statement).rowcount)

    workers.after, workers.room = after, 1
    return lost


def finish() -> None:
    """Measure what is owed, as a person does who was told so."""
    resume("c", work=WORK, sinks=(), progress=False)
    for part in open_study("c").record().studies:
        assert (len(part.counted), part.running, part.waiting) == (8, 0, 0)
        assert part.baseline is not None


@pytest.mark.parametrize(
    ("statement", "packs", "says"),
    [
        (f"{NO_OUTCOMES} WHERE number > 5", 8, "has lost 4 outcomes that it had taken"),
        ("DELETE FROM trials WHERE number > 5", 8, "has lost 4 outcomes that it had taken"),
        ("DELETE FROM trials WHERE number > 1", 4, "has lost 4 outcomes that it had taken"),
        ("UPDATE studies SET baseline = NULL", 8, "has lost 2 undefended models that it had taken"),
    ],
    ids=["outcomes", "rows", "rows in the middle", "baselines"],
)
def test_a_search_whose_ledger_has_lost_outcomes_ends_as_an_error(
    workers: Workers, statement: str, packs: int, says: str
) -> None:
    lost = lose(workers, statement, packs)
    with pytest.raises(TuneVflError, match=f"c: the ledger {says}.*'tune-vfl resume c' measures again") as ended:
        go()
    assert lost
    assert ended.value.exit_code == 1
    finish()


def test_a_search_that_is_stopped_or_out_of_time_says_it_and_ends_as_it_does(
    workers: Workers, capfd: pytest.CaptureFixture[str]
) -> None:
    lose(workers, f"{NO_OUTCOMES} WHERE number > 0", 3)
    change = workers.after

    def after(searcher: PackSearcher) -> None:
        change(searcher)
        if len(workers.trials) == 3:
            searcher.stop()

    workers.after = after
    assert go() is True
    assert "c: the ledger has lost 4 outcomes that it had taken" in capfd.readouterr().err
    workers.after = lambda _searcher: None
    finish()


def test_the_command_line_ends_with_one(workers: Workers, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lose(workers, f"{NO_OUTCOMES} WHERE number > 5", 8)
    monkeypatch.setattr("tune_vfl.driver.campaign_run.TrainableSpec.real", lambda: WORK)
    monkeypatch.setattr("tune_vfl.driver.api.default_sinks", lambda *_: ())
    monkeypatch.setattr("tune_vfl.cli.plan.plan_of", lambda *_: planned(trials=16, resources={"pack": 2}))
    (tmp_path / "c.yaml").write_text("study: c\n")
    assert main(["search", str(tmp_path / "c.yaml")]) == 1
