"""Who shows a search as it goes: its page and MLflow, and the page alone where MLflow cannot be had."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers.packing import planned
from tests.helpers.studies import made_up_study
from tune_vfl.driver import api
from tune_vfl.driver.live_page import LivePage
from tune_vfl.execution import watchdogs
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.tracking import mlflow


class Recording:
    def __init__(self, name: str, tracking: Any, look: Any, latest: Any) -> None:
        self.name, self.tracking, self.look, self.latest = name, tracking, look, latest


class Held:
    """Something in the ledger that has this name."""

    def record(self) -> Any:
        return CampaignRecord.of(made_up_study(2))


def test_a_page_and_mlflow_look_at_the_whole_campaign(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str | None]] = []

    def open_study(name: str, storage: str | None) -> Held:
        asked.append((name, storage))
        return Held()

    monkeypatch.setattr(mlflow, "Recorder", Recording)
    monkeypatch.setattr(api, "open_study", open_study)
    page, recorder = api.default_sinks(planned(tracking="http://there"))
    assert isinstance(page, LivePage)
    assert isinstance(recorder, Recording)
    assert (recorder.name, recorder.tracking) == ("c", "http://there")
    assert recorder.look() == CampaignRecord.of(made_up_study(2))
    api.default_sinks(planned(), "/else/where")[1].look()  # type: ignore[attr-defined]
    plan = planned(storage="/of/the/spec")
    api.default_sinks(plan)[1].look()  # type: ignore[attr-defined]
    assert asked == [("c", None), ("c", "/else/where"), ("c", "/of/the/spec")]


def test_without_mlflow_the_page_goes_on_and_it_is_said(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("no such server")

    monkeypatch.setattr(mlflow, "Recorder", refuse)
    (page,) = api.default_sinks(planned())
    assert isinstance(page, LivePage)
    said = capsys.readouterr().err
    assert said == "tune-vfl: MLflow is not recorded: no such server; 'tune-vfl doctor --repair' rebuilds it later\n"


def test_a_driver_s_own_node_lives_whatever_becomes_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(get_node_id=lambda: "mine"))
    for mine, other in ((True, False), (False, True)):
        nodes = [{"NodeID": "mine", "Alive": mine}, {"NodeID": "other", "Alive": other}]
        monkeypatch.setattr(ray, "nodes", lambda nodes=nodes: nodes)
        assert watchdogs.own_node_lives() == mine
