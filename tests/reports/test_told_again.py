"""What a report says of a confirmation, sentence by sentence, and what its file holds."""

from dataclasses import replace
from typing import Any

from reports.confirmed import again, confirmed_frame, sections
from reports.story import story
from tests.helpers.campaigns import part_of
from tests.helpers.confirmations import made_up_confirmation
from tune_vfl.outcome import TunedAttack
from tune_vfl.records.studies import StudyRecord

LAPLACE = ((0.94, 0.6), (0.90, 0.3), (0.80, 0.25))


def study(*points: Any, **fields: Any) -> StudyRecord:
    return part_of("laplace", points or LAPLACE, **fields)


def whole(**fields: Any) -> StudyRecord:
    return replace(study(), confirmation=made_up_confirmation().model_copy(update=fields))


def test_what_came_of_a_confirmation() -> None:
    (section,) = sections([whole(), study()])
    assert section.study == "camp-breast_cancer-laplace"
    assert section.says == (
        "1 of 3 points of the front stay: measured again with 10 fresh seeds, utility on the search's own rows. "
        "On average the search's front looked 0.020 AUC better than that, and 0.050 less leaky."
    )
    assert section.cautions == ["No reserve: few rows: <the seeds> are fresh."]
    assert section.lines == [
        "Trials 10 and 13 cannot be told apart (scale 0.001 to 0.003): utility 0.900 to 0.910, leakage 0.200 to 0.300."
    ]
    assert section.undefended == {"seeds": 20, "utility": "0.910 (0.900 to 0.920)", "leakage": "0.300 (0.200 to 0.400)"}
    other = sections([whole(reserve={"": 40}, gap={"": {"utility": -0.01, "leakage": -0.02}})])[0].says
    assert "utility on 40 rows that no search has seen." in other
    assert other.endswith("On average the search's front looked 0.010 AUC worse than that, and 0.020 more leaky.")
    assert sections([whole(gap={"": {}})])[0].says.endswith("the search's own rows.")
    points = made_up_confirmation().points
    joined = points[0].model_copy(update={"on_front": False})
    some = sections([whole(points=(joined, points[1]))])[0].says
    assert some.startswith("0 of 1 point of the front stay, and 1 neighbor joins them: measured again")
    assert sections([whole(points=(joined,), gap={"": {}})])[0].says.startswith(
        "No point of its front took part, and 1 "
    )
    assert sections([whole(points=(), gap={"": {}})])[0].says == "No point of its front took part."


def test_the_rows_of_a_confirmation() -> None:
    (section,) = sections([whole()])
    stays, goes, lost = section.rows
    assert stays == {
        "number": 10, "setting": "scale=0.001", "seeds": 10, "goes": False, "on_front": True, "stays": "0.91",
        "searched_utility": "0.930", "utility": "0.910 (0.900 to 0.920)", "searched_leakage": "0.250",
        "leakage": "0.300 (0.200 to 0.400)", "attack": "norm",
    }  # fmt: skip
    assert (goes["goes"], goes["stays"]) == (True, "0.12")
    assert (lost["stays"], lost["utility"], lost["seeds"]) == ("diverged", "–", 1)
    record = whole()
    fixed = replace(record, cell=record.cell.model_copy(update={"fixed": {"scale": 1.0}}))
    assert sections([fixed])[0].rows[0]["setting"] == "no parameters"
    points = made_up_confirmation().points
    about = {"attack": "pmc", "params": {}, "variant": "v", "tried": 3, "minutes": 1.0}
    tuned = TunedAttack(**about, success=(0.9,), floors=(0.5,), advantages=(0.4,))
    more = points[0].model_copy(update={"tuned": tuned, "leakage": 0.4, "leakage_untuned": 0.3})
    less = points[0].model_copy(update={"tuned": tuned, "leakage": 0.3, "leakage_untuned": 0.3})
    rows = sections([whole(points=(more, less))])[0].rows
    assert [r["attack"] for r in rows] == ["pmc, tuned (others 0.300)", "norm"]


def test_one_setting_after_a_confirmation() -> None:
    record = whole()
    assert again(record, 10) == "On fresh seeds it has AUC 0.910 (0.900 to 0.920) and leakage 0.300 (0.200 to 0.400)."
    assert again(record, 11).endswith(" It does not stay on the front: choose one that does.")
    assert again(record, 12) == "Measured again with fresh seeds it ended as diverged: NaN."
    assert again(record, 0) == ""
    assert again(study(), 0) == ""
    knee = story(record).joint.knee
    assert knee is not None
    points = (made_up_confirmation().points[0].model_copy(update={"number": knee.number}),)
    assert story(whole(points=points)).answer.endswith(again(whole(points=points), knee.number)), "the answer says it"


def test_the_file_of_a_confirmation() -> None:
    frame = confirmed_frame([whole(), study()])
    assert frame["number"].tolist() == [10, 11, 12]
    assert frame["confirmed"].tolist() == [True, False, False]
    assert frame["defense.scale"].tolist() == [0.001, 0.002, 0.3]
    first = frame.iloc[0]
    names = ["utility", "utility_low", "utility_high", "leakage", "leakage_low", "leakage_high", "leakage_upper_90"]
    assert [first[n] for n in names] == [0.91, 0.9, 0.92, 0.3, 0.2, 0.4, 0.38]
    assert [first[n] for n in ("stays", "seeds", "leakage_worst_seed")] == [0.91, 10, 0.35]
    assert [first[n] for n in ("searched_utility", "searched_leakage")] == [0.93, 0.25]
    assert frame["utility_low"].isna().tolist() == [False, False, True]
