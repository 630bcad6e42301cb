"""A study as a notebook asks it: frames, a figure, a recommendation, and the same of several data sets together."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import tune_vfl
from reports.compared import front_table
from reports.gathered import gather
from reports.tables import front_frame as fronts_of
from tests.helpers.campaigns import confirmed
from tests.helpers.ledgers import open_ledger
from tests.helpers.simulated import Simulation, closed_form, simulate
from tune_vfl.errors import SpecError, StudyError, UnknownNameError, UsageError
from tune_vfl.evaluation.portfolios import members
from tune_vfl.outcome import Outcome
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.records.studies import StudyRecord
from tune_vfl.service import notebook, projecting
from tune_vfl.service.frames import frontier_frame
from tune_vfl.service.notebook import Study, load_study
from tune_vfl.spec.cell import References
from tune_vfl.spec.federation import Federation

pytestmark = pytest.mark.usefixtures("home")

UNFIT = ("direct", "unmix")  # without a top model, and under a mixture of rows
ALL = [a.name for a in members("default", Federation()) if a.name not in UNFIT]
"""Nothing is recommended before all that fit were tried."""
SIMULATION = Simulation(noise=0.005)


def scale_at(t: float) -> float:
    return 10 ** (-5 + 4 * t)


def simulated(name: str, places: Sequence[float] = (0.0, 0.5, 1.0)) -> Study:
    """Points at these places of the known curve, one behind it, a failure and a lost trial."""
    ledger = open_ledger(name, budget={"trials": 8, "seeds": 3}, attacks=ALL)
    ledger.set_references_and_reference_point(References(), (0.5, 1.0))
    undefended = ledger.cell.model_copy(update={"seeds": ledger.cell.seeds_of_undefended})
    ledger.set_baseline(Outcome.model_validate(simulate(SIMULATION, undefended, {}).model_dump()))
    for params in [{"scale": scale_at(t)} for t in places]:
        ledger.tell(ledger.begin(params), simulate(SIMULATION, ledger.cell, params))
    behind = simulate(SIMULATION, ledger.cell, {"scale": scale_at(0.5), "other": 0.5})
    ledger.tell(ledger.begin({"scale": 0.002}), behind)
    ledger.tell(ledger.begin({"scale": 0.003}), Outcome.failed("diverged", "NaN"))
    ledger.lose(ledger.begin({"scale": 0.004}), "driver", "stopped")
    ledger.close()
    return load_study(name)


@pytest.fixture
def study() -> Study:
    return simulated("study")


def test_a_ledger_is_named_by_its_path_too(study: Study, home: Path) -> None:
    assert load_study(study.name, home / "ledger.db").record() == study.record()


def test_the_front_is_a_frame_of_the_frontier(study: Study) -> None:
    front = study.front()
    known = study.frontier()
    assert front["number"].tolist() == [p["number"] for p in known] == [0, 1, 2]
    assert front["utility"].tolist() == [p["utility"] for p in known]
    assert front["leakage"].tolist() == [p["leakage"] for p in known]
    assert front["defense.scale"].tolist() == pytest.approx([scale_at(t) for t in (0.0, 0.5, 1.0)])
    assert (front["leakage_low"] <= front["leakage"]).all()
    assert (front["utility_low"] < front["utility_high"]).all()
    assert front["knee"].sum() == 1
    assert not front["confirmed"].any()
    assert front["attack.norm"].tolist() == [p["attacks"]["norm"] for p in known]


def test_trials_are_a_row_each_also_those_that_failed(study: Study) -> None:
    trials = study.trials()
    assert trials["number"].tolist() == [0, 1, 2, 3, 4, 5]
    assert trials["outcome"].tolist() == ["ok"] * 4 + ["diverged", "preempted"]
    assert trials["reason"][4] == "NaN"
    assert trials["defense.scale"].tolist()[3:] == [0.002, 0.003, 0.004]
    assert trials["leakage"][1] == pytest.approx(closed_form(0.5)[1], abs=0.02)
    assert trials["utility"].isna().tolist() == [False] * 4 + [True] * 2
    assert set(trials["study"]) == {"study"}
    assert not any(isinstance(value, (dict, list)) for value in trials.to_numpy().ravel())


def test_a_study_without_trials_has_empty_frames_with_columns() -> None:
    open_ledger("empty").close()
    study = load_study("empty")
    for frame in (study.front(), study.trials()):
        assert frame.empty
        assert {"dataset", "study", "number", "defense", "utility", "leakage"} <= set(frame.columns)
    assert "waiting" in repr(study)
    assert "waiting" in study._repr_html_()


def test_the_figure_shows_every_setting_and_the_undefended_model(study: Study) -> None:
    figure = study.plot()
    marked = [trace for trace in figure.data if "markers" in (trace.mode or "")]
    drawn = {(round(x, 6), round(y, 6)) for trace in marked for x, y in zip(trace.x, trace.y, strict=True)}
    record = study.record().studies[0]
    assert record.baseline is not None
    for outcome in [record.baseline, *(trial.outcome for trial in record.ok)]:
        utility, leakage = outcome.objectives
        assert (round(leakage, 6), round(utility, 6)) in drawn


def test_a_recommendation_keeps_what_it_was_asked_to_keep(study: Study) -> None:
    decision = study.recommend(leakage=0.4)
    assert decision.verdict == "deploy", decision.why
    assert decision.setting is not None
    assert decision.setting.number == 1, "the most useful one that leaks less"
    assert decision.constraints == {"leakage": 0.4}
    nothing = study.recommend(leakage=0.1, utility_loss=0.01)
    assert nothing.verdict == "none_qualifies"
    assert nothing.setting is None
    assert nothing.nearest is not None
    assert nothing.why


def test_without_constraints_a_recommendation_keeps_those_of_the_spec(study: Study) -> None:
    asked = Several(replace(study.record(), spec={"constraints": {"leakage": 0.4}}))
    assert asked.recommend().constraints == {"leakage": 0.4}
    assert asked.recommend(leakage=0.9).constraints == {"leakage": 0.9}


def test_an_unknown_constraint_is_answered_with_the_known_ones(study: Study) -> None:
    with pytest.raises(SpecError, match="leakage"):
        study.recommend(leak=0.2)
    with pytest.raises(SpecError, match="finite"):
        study.recommend(leakage=float("nan"))
    with pytest.raises(SpecError, match=r"recommend: constraints.leakage: expected .* got 20; 20% is 0\.2"):
        study.recommend(leakage=20)


def test_confirming_is_the_verb_s(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(projecting, "confirm_named", lambda *a, **k: asked.append((a, k)))
    study.confirm(seeds=4)
    assert asked == [(("study",), {"seeds": 4, "adaptive": 0.0, "storage": study.storage})]


def test_a_cell_shows_how_far_it_is_what_is_recommended_and_the_front(study: Study) -> None:
    shown = study._repr_html_()
    assert "4 ok" in shown
    assert all(escape(sentence) in shown for sentence in str(study.recommend()).splitlines())
    assert shown.count("<tr") == 1 + 3
    assert repr(study).startswith("<study: laplace on ")


class Several(Study):
    """Studies together that no ledger holds."""

    def __init__(self, record: CampaignRecord) -> None:
        self.name, self._record = record.name, record

    def record(self) -> CampaignRecord:
        return self._record


def on(record: StudyRecord, dataset: str) -> StudyRecord:
    named = record.cell.dataset.model_copy(update={"name": dataset})
    return replace(record, cell=record.cell.model_copy(update={"dataset": named}))


def test_of_several_data_sets_each_has_its_front_and_one_must_be_named_to_decide() -> None:
    studies = [on(simulated(name).record().studies[0], dataset) for name, dataset in (("a", "bank"), ("b", "loan"))]
    both = Several(CampaignRecord("both", tuple(studies), 16))
    assert both.front().groupby("dataset").size().to_dict() == {"bank": 3, "loan": 3}
    assert both.trials().groupby("study").size().to_dict() == {"a": 6, "b": 6}
    assert both.recommend("loan", leakage=0.4).dataset == "loan"
    for ask in (both.plot, both.recommend):
        with pytest.raises(UsageError, match="bank, loan"):
            ask()
        with pytest.raises(UnknownNameError, match="'bank'"):
            ask("bnak")


def test_a_confirmed_setting_has_one_number_under_one_name(study: Study) -> None:
    searched = {p["number"]: (p["utility"], p["leakage"]) for p in study.frontier()}
    record = confirmed(study.record().studies[0], {0: (0.7, 0.8, True), 1: (0.6, 0.3, False)})
    campaign = CampaignRecord.of(record)
    asked = Several(campaign)
    (data,) = gather(campaign)
    frames = {
        "the notebook's front": asked.front(),
        "frontier --format csv": frontier_frame(campaign),
        "the report's front.csv": front_table(data).frame,
        "the report's fronts.csv": fronts_of([record]),
    }
    for name, frame in frames.items():
        of = frame.set_index("number")
        assert {n: (of["utility"][n], of["leakage"][n]) for n in of.index} == searched, name
    points = {p["number"]: p for p in asked.frontier()}
    assert {n: (p["utility"], p["leakage"]) for n, p in points.items()} == searched
    front = frames["the notebook's front"].set_index("number")
    assert front["confirmed.utility"][[0, 1]].tolist() == [0.7, 0.6], "of one that did not stay too"
    assert front["confirmed.leakage"][[0, 1]].tolist() == [0.8, 0.3]
    assert front["confirmed.utility_low"][0] < 0.7 < front["confirmed.utility_high"][0]
    assert front.loc[2, ["confirmed.utility", "confirmed.stays"]].isna().all(), "it took part in none"
    assert front["confirmed"].tolist() == [True, False, False]
    assert points[0]["confirmation"]["utility"] == 0.7
    assert "confirmation" not in points[1]
    assert not [name for name in study.front() if name.startswith("confirmed.")], "nothing is known of fresh seeds"


def test_the_door_gives_studies_with_these_verbs(study: Study, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from tune_vfl.driver import api

    assert isinstance(tune_vfl.load_study("study"), Study)
    monkeypatch.setattr(api, "search", lambda spec, **how: api.open_study(spec["study"], how["storage"]))
    for found in (notebook.search, tune_vfl.search):
        ended = found({"study": "study"}, storage=study.storage)
        assert isinstance(ended, Study)
        assert len(ended.front()) == 3
    with pytest.raises(StudyError, match="TUNE_VFL_HOME"):
        tune_vfl.load_study("study", str(tmp_path / "nowhere.db"))


def test_a_search_in_a_thread_that_outlives_the_program_says_so():
    code = """
        import threading
        from tune_vfl import search

        def run():
            try:
                threading.main_thread().join()
                search({"study": "s", "dataset": "breast_cancer", "defense": "laplace"})
            except Exception as error:
                print(type(error).__name__, error)

        threading.Thread(target=run).start()
    """
    ran = subprocess.run([sys.executable, "-c", dedent(code)], capture_output=True, text=True, check=True)
    assert "UsageError the program's main thread has ended" in ran.stdout, ran.stderr
