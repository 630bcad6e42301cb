"""What figures say: labels, tips, views, and the words for those who cannot see them; how much parameters matter."""

import math
from dataclasses import replace
from typing import Any

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from reports.describe import bars_of, frontier, growth, spans
from reports.figure import Figure
from reports.gathered import Gathered, gather
from reports.importances import FEWEST, MOST, _domain, _study, enough, importances
from reports.sections import frames, section
from reports.tables import tables
from tests.helpers.campaigns import campaign_of, confirmed, outcome_of, part_of, steady
from tune_vfl.analysis.formatting import span
from tune_vfl.outcome import Outcome
from tune_vfl.records.studies import StudyRecord

LAPLACE = ((0.94, 0.6), (0.90, 0.3), (0.80, 0.25))
MARVELL = ((0.92, 0.18), (0.85, 0.1), (0.945, 0.8))


def gathered(*parts: StudyRecord, **fields: Any) -> Gathered:
    (data,) = gather(campaign_of(*parts, **fields))
    return data


def figure_of(*parts: StudyRecord, **fields: Any) -> Figure:
    data = gathered(*parts, **fields)
    return frontier(data.found, data.decision, data.names)


def two(**fields: Any) -> Figure:
    return figure_of(
        part_of("laplace", LAPLACE), part_of("marvell", MARVELL), **{"constraints": {"leakage": 0.2}, **fields}
    )


def test_titles_notes_and_axes() -> None:
    figure = two()
    assert figure.title == "2 defenses on breast_cancer"
    assert figure.note == "4 of 6 settings on the front; bars: 90% intervals"
    assert figure.x.title == "leakage: advantage of the worst attack (less is better)"
    assert figure.y.title == "AUC (more is better)"
    assert figure_of(part_of("laplace", LAPLACE[:1])).title == "laplace on breast_cancer"
    assert figure_of(part_of("laplace", LAPLACE[:1])).note.startswith("1 of 1 setting on the front")
    data = gathered(part_of("laplace", LAPLACE))
    assert frontier(data.found, data.decision, data.names, "mine").title == "mine"
    single = part_of("laplace", [outcome_of([0.9], {"norm": [0.3]})], attacks=["norm"])
    one = replace(single, cell=single.cell.model_copy(update={"seeds": (0,)}))
    assert bars_of(gathered(one).found) == "std of 1 seed"


def test_the_figure_in_words() -> None:
    assert two().alt == (
        "2 defenses on breast_cancer, leakage across and AUC up. Of 6 settings 4 are on the front, of marvell and "
        "laplace, from AUC 0.850 at leakage 0.100 to AUC 0.945 at leakage 0.800. Recommended: marvell scale=1, AUC "
        "0.920 at leakage 0.180."
    )
    lone = figure_of(part_of("laplace", LAPLACE[:1]), constraints={"leakage": 0.01})
    assert lone.alt == (
        "laplace on breast_cancer, leakage across and AUC up. Of 1 setting 1 are on the front, of laplace, from AUC "
        "0.940 at leakage 0.600."
    )


def test_a_front_of_two_has_two_ends() -> None:
    figure = figure_of(part_of("laplace", LAPLACE[:2]), constraints={"leakage": 0.01})
    assert figure.alt.endswith("of laplace, from AUC 0.900 at leakage 0.300 to AUC 0.940 at leakage 0.600.")


def test_labels_name_a_defense_once_and_the_recommended_setting_whole() -> None:
    found = [(label.text, label.weight) for label in two().labels]
    assert found[:2] == [("recommended: marvell scale=1", "strong"), ("undefended", "strong")]
    near = figure_of(part_of("laplace", [(0.94, 0.6), (0.80, 0.3)]))
    assert ("the label party alone, 0.75", "line") in [(label.text, label.weight) for label in near.labels]
    plain = [text for text, weight in found if weight == "plain"]
    assert plain == ["marvell scale=2", "3", "laplace scale=1"], "the ends first, each defense named once"
    lone = figure_of(part_of("laplace", LAPLACE), constraints={"leakage": 0.01})
    assert [label.text for label in lone.labels if label.weight == "plain"] == ["3", "1", "2"]
    places = {label.text: (label.x, label.y) for label in two().labels}
    (line,) = [label for label in near.labels if label.weight == "line"]
    assert (line.x, line.y) == (near.x.limits[1], 0.75), "at the right end of its line"
    assert places["undefended"] == pytest.approx((0.9, 0.95), abs=1e-3)
    assert places["laplace scale=1"] == pytest.approx((0.6, 0.94))


def test_a_compromise_is_labeled_as_one() -> None:
    figure = figure_of(part_of("laplace", [(0.94, 0.6), (0.80, 0.45)]))
    assert ("compromise: laplace scale=1", "strong") in [(label.text, label.weight) for label in figure.labels]
    assert figure.alt.endswith(" Compromise: laplace scale=1, AUC 0.940 at leakage 0.600.")
    assert not any("ecommended" in text for text in (figure.alt, *(label.text for label in figure.labels)))


def test_a_long_front_is_labeled_at_its_ends_and_evenly_between() -> None:
    many = [(0.5 + 0.009 * k, 0.01 * k) for k in range(1, 46)]
    figure = figure_of(part_of("laplace", many), constraints={"leakage": 0.001})
    plain = [label.text for label in figure.labels if label.weight == "plain"]
    # 43 settings between the ends, at most 20 of them: every third.
    assert plain == ["1", "45", *(str(k) for k in range(2, 45, 3))]


def test_a_point_s_tip() -> None:
    weak = steady(0.94, 0.6)
    scores = {n: s.model_copy(update={"weak_attack": n == "pmc"}) for n, s in weak.attacks.items()}
    part = part_of("laplace", [weak.model_copy(update={"attacks": scores}), (0.90, 0.7), steady(0.8, 0.0, ())])
    data = gathered(part)
    marks = {m.key: m for g in frontier(data.found, data.decision, data.names).groups for m in g.marks if m.key}
    name = "camp-breast_cancer-laplace"
    sure = data.found.points[0].sure
    assert marks[f"{name}#0"].says == (
        "laplace scale=1",
        f"AUC {span(0.94, sure.utility_interval)}",
        f"leakage {span(0.6, sure.leakage_interval)}, by norm",
        "on the front",
        "attack too weak: pmc",
    )
    assert marks[f"{name}#1"].says[3:] == ("not on the front",)
    assert ", by" not in marks[f"{name}#2"].says[2], "no attack was run on it"
    assert (marks[f"{name}#0"].x, marks[f"{name}#0"].y) == pytest.approx((0.6, 0.94))
    assert marks[f"{name}#0"].x_bar == pytest.approx(sure.leakage_interval)
    assert marks[f"{name}#0"].y_bar == pytest.approx(sure.utility_interval)
    assert marks[f"{name}#1"].x_bar is None, "bars for the front alone"


def test_bars_are_deviations_where_there_is_no_interval() -> None:
    outcome = outcome_of([0.90, 0.94, 0.98], {"norm": [0.2, 0.3, 0.4]})
    up, across = spans(outcome, None)
    assert up == pytest.approx((0.90, 0.98))
    assert across == pytest.approx((0.2, 0.4))
    assert spans(outcome_of([0.99, 1.0, 0.95], {"norm": [0.0, 0.1, 0.3]}), None)[0][1] <= 1.0


def test_the_view_holds_what_matters_and_counts_what_lies_below() -> None:
    figure = figure_of(part_of("laplace", [(0.94, 0.6), (0.93, 0.5), (0.3, 0.9)]))
    assert 0.85 < figure.y.limits[0] < 0.93
    assert figure.beyond == (
        "1 setting lies below this view",
        "the label party alone, 0.75, lies below this view",
        "the best guess, 0.5, lies below this view",
    )
    assert [line.kind for line in figure.lines] == ["front"]
    near = figure_of(part_of("laplace", [(0.94, 0.6), (0.80, 0.3)]))
    assert near.y.limits[0] < 0.75, "the party alone is near enough to be shown"
    assert [line.kind for line in near.lines] == ["alone", "front"]
    assert near.lines[0].corners == ((0.0, 0.75), (1.0, 0.75))
    low = figure_of(part_of("laplace", [(0.94, 0.6), (0.55, 0.3)]))
    (guess,) = [line for line in low.lines if line.kind == "guess"]
    assert (guess.name, guess.corners) == ("the best guess, 0.5", ((0.0, 0.5), (1.0, 0.5)))
    assert near.x.limits == (0.0, pytest.approx(1.03 * 0.9, abs=0.02)), "the undefended model leaks most"
    empty = figure_of(part_of("laplace", [], baseline=None))
    assert (empty.x.limits, empty.y.limits, empty.beyond) == ((0.0, 1.0), (0.0, 1.0), ())
    little = figure_of(part_of("laplace", [(0.94, 0.01)], baseline=None))
    assert little.x.limits[1] == pytest.approx(0.103), "never narrower than a tenth"


def test_the_hypervolume_in_words_and_steps() -> None:
    lost = Outcome.failed("oom", "full")
    found = gathered(part_of("laplace", [(0.9, 0.5), lost, (0.9, 0.1), (0.6, 0.9)])).found
    figure = growth(found)
    assert figure.note == "0.360 after 4 trials"
    assert figure.alt == (
        "Hypervolume of the joint front by trial: 0.360 after 4 trials; 99% of it was there after 3 trials."
    )
    (line,) = figure.lines
    heights = [(1, 0.0), (1, 0.2), (2, 0.2), (2, 0.2), (3, 0.2), (3, 0.36), (4, 0.36), (4, 0.36)]
    assert [pytest.approx(corner) for corner in heights] == list(line.corners)
    assert figure.x.limits == (0.0, 4.0)
    assert figure.y.limits == (0.0, pytest.approx(1.06 * 0.36))
    nothing = growth(gathered(part_of("laplace", [])).found)
    assert (nothing.lines, nothing.note, nothing.x.limits) == ((), "0.000 after 0 trials", (0.0, 1.0))


def test_marks_by_rank_the_chosen_one_last() -> None:
    ranks = [group.rank for group in two().groups]
    assert ranks[-2:] == ["undefended", "chosen"]
    chosen = two().groups[-1]
    assert [(m.x, m.y) for m in chosen.marks] == [pytest.approx((0.18, 0.92))]
    model = two().groups[-2].marks[0]
    assert model.says[0] == "undefended model"
    assert model.says[1].startswith("AUC 0.950 (")
    assert model.says[2].startswith("leakage 0.900 (")
    assert [group.rank for group in two(constraints={"leakage": 0.01}).groups][-1] == "undefended"


# Parameters, and the tables of a page


def searched(count: int) -> StudyRecord:
    """Utility hangs on the first parameter, leakage on the second, as far as they differ from row to row."""
    part = part_of("laplace", [(0.9 - 0.3 * (k % 5) / 5, 0.1 + 0.8 * (k % 7) / 7) for k in range(count)])
    params = [{"scale": 10.0 ** -(k % 5), "k": k % 7} for k in range(count)]
    return replace(part, trials=tuple(replace(t, params=p) for t, p in zip(part.trials, params, strict=True)))


def test_each_objective_has_its_parameter() -> None:
    found = {i.param: i for i in importances(searched(35))}
    assert list(found) == ["k", "scale"], "what matters most to leakage first"
    assert found["scale"].utility > 0.9 > 0.5 > found["k"].utility
    assert found["k"].leakage > 0.9
    assert found["k"].utility + found["scale"].utility == pytest.approx(1)
    assert enough(searched(FEWEST))
    assert not enough(searched(FEWEST - 1))
    assert len(_study(searched(MOST + 20)).trials) == MOST, "those of the best ranks"
    weighed = section(gathered(searched(35)), "k", "export {}".format, alone=True, quick=False)
    weights = weighed.parts[0].weights
    assert weights is not None
    assert [row.cells[0] for row in weights.rows] == ["k", "scale"]
    assert weights.rows[0].cells[2] == f"{found['k'].leakage:.2f}"
    assert weights.heat[0] == (0.0, found["k"].utility, found["k"].leakage)
    assert weighed.parts[0].parallel is not None
    quick = section(gathered(searched(35)), "k", "export {}".format, alone=False, quick=True)
    assert (quick.parts[0].weights, quick.parts[0].parallel) == (None, None)
    assert quick.frontier.name == "frontier-breast_cancer"
    assert (weighed.frontier.name, weighed.growth.name) == ("frontier", "hypervolume")


@pytest.mark.parametrize(
    ("values", "domain"),
    [
        ([0.1, 0.5], FloatDistribution(0.1, 0.5)),
        ([0.01, 0.5], FloatDistribution(0.01, 0.5, log=True)),
        ([0.05, 0.5], FloatDistribution(0.05, 0.5)),
        ([0.0, 5.0], FloatDistribution(0.0, 5.0)),
        ([-1.0, 5.0], FloatDistribution(-1.0, 5.0)),
        ([1, 20], IntDistribution(1, 20, log=True)),
        ([1, 5], IntDistribution(1, 5)),
        ([1, 2.5], FloatDistribution(1.0, 2.5)),
        ([True, False], CategoricalDistribution(["true", "false"])),
        (["a", "b", "a"], CategoricalDistribution(["a", "b"])),
    ],
)
def test_domains_of_what_was_tried(values: list[Any], domain: Any) -> None:
    found = _domain(values)
    if isinstance(domain, CategoricalDistribution):
        assert isinstance(found, CategoricalDistribution)
        assert len(found.choices) == len(domain.choices)
    else:
        assert found == domain


def test_tables_of_several_data_sets_are_one_and_those_without_rows_are_left_out() -> None:
    lost = Outcome.failed("oom", "full")
    here, there = gather(campaign_of(part_of("laplace", [*LAPLACE, lost]), part_of("kdk", MARVELL, dataset="wine")))
    sections = [section(d, f"d{k}", "export {}".format, alone=False, quick=True) for k, d in enumerate((here, there))]
    found = dict(frames(sections))
    assert list(found) == ["front", "ranking", "worst_attacks", "cost", "failures", "hypervolume"]
    assert found["front"]["dataset"].tolist() == ["breast_cancer"] * 3 + ["wine"] * 3
    assert found["front"].index.tolist() == list(range(6)), "numbered through"
    assert found["failures"]["dataset"].tolist() == ["breast_cancer"]
    assert found["hypervolume"]["trial"].tolist() == [1, 2, 3, 4, 1, 2, 3]
    assert found["ranking"]["cap"].tolist() == [0.1, 0.2, 0.5] * 2
    assert [p.key for s in sections for p in s.parts] == ["d0-0", "d1-0"]


def test_what_files_a_study_has() -> None:
    one = part_of("laplace", LAPLACE)
    assert list(tables([one])) == ["trials", "outcomes", "attacks", "cap"]
    assert list(tables([one, part_of("kdk", MARVELL)])) == ["fronts", "trials", "outcomes", "attacks", "cap"]
    assert "confirmed" in tables([confirmed(one, {0: (0.93, 0.6, True)})])
    knees = tables([one, part_of("kdk", MARVELL)])["fronts"]
    assert knees["number"].tolist() == [2, 1, 0, 1, 0, 2], "by rising leakage within a study"
    assert knees["knee"].sum() == 2
    assert math.isclose(knees["leakage"].tolist()[0], 0.25)
