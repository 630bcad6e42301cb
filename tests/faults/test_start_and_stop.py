"""A driver that is killed among the settings that come first, or near the end that ``stop`` sets: resume knows both."""

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.faults.driver import search
from tests.faults.harness import SCALES, Driver, finished, lost
from tests.helpers.drivers import shared_ray
from tests.helpers.ledgers import reopened
from tune_vfl.records.studies import StudyRecord, in_order

pytestmark = pytest.mark.usefixtures("home")

FIRST = [SCALES[place] for place in (7, 2, 9, 5, 0)]


def record_of() -> StudyRecord:
    ledger = reopened("study")
    ledger.close()
    return ledger.record()


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"at": "ask", "call": 2}, id="ask"),
        pytest.param({"at": "tell", "call": 2}, id="tell", marks=pytest.mark.slow),
    ],
)
def test_kill_9_among_the_first_settings_leaves_the_others_for_resume(fault: dict[str, Any], tmp_path: Path) -> None:
    spec = {"start": [{"scale": scale} for scale in FIRST]}
    with Driver(tmp_path, shared_ray(), spec=spec, fault={**fault, "do": "kill"}) as driver:
        assert driver.ends()[0] == -signal.SIGKILL
        assert finished() < len(FIRST), "it was killed among them"
        record = driver.go_on()
    asked = [trial.params["scale"] for trial in record.trials if trial.retry_of is None]
    assert asked[: len(FIRST)] == FIRST, "in their order, each once"
    assert sorted(asked) == SCALES
    assert lost(record) <= 2


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"at": "tell", "call": 3}, id="tell"),
        pytest.param({"at": "ask", "call": 3}, id="ask", marks=pytest.mark.slow),
    ],
)
def test_kill_9_does_not_change_when_a_search_ends(fault: dict[str, Any], tmp_path: Path) -> None:
    """Points that diverge are on no front: the second, and the fourth to the sixth of the first nine are such."""
    start = [SCALES[place] for place in (0, 2, 4, 10, 3, 11, 9, 8, 1)]
    spec = {"start": [{"scale": scale} for scale in start], "stop": {"front": 3}}
    options = {"diverge_above": 0.6}
    with Driver(tmp_path, shared_ray(), spec=spec, options=options, fault={**fault, "do": "kill"}) as driver:
        assert driver.ends()[0] == -signal.SIGKILL
        for _ in range(2):  # and a search that has ended stays so
            search(driver.spec, {"journal": str(driver.journal), **options})
    record = record_of()
    assert [trial.params["scale"] for trial in in_order(record.trials)] == start[:8], "the pack of the third trial ends"
    assert (record.waiting, record.running) == (0, 0)
    assert record.ended == "the front has not grown for 3 trials"
