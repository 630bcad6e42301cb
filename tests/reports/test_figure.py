"""Figures: what they show is described once, keeps within what a metric can reach, and is drawn twice alike."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection

from reports import labels
from reports.describe import frontier
from reports.figure import Mark, room, staircase, ticks, within
from reports.gathered import gather
from reports.importances import FEWEST, importances, parallel
from reports.looks import COLORS, DARK, SHAPES, SIGNS, looks
from reports.plotted import LIGHT, plotly_dict, plotly_figure
from reports.printed import _MARKERS, _placed, _PlotScale, drawn, files_of
from tests.helpers.studies import made_up_outcome, made_up_study, made_up_trial
from tune_vfl.records.campaigns import CampaignRecord


def study_of(*points, name="s", defense="laplace", params=None, **changes):
    """A study whose ok trials have exactly these (utility, attack success)."""
    found = params or [{"scale": 10.0**-n} for n in range(len(points))]
    trials = [
        replace(made_up_trial(n, scale=1.0, outcome=made_up_outcome(*p)), params=found[n]) for n, p in enumerate(points)
    ]
    return replace(made_up_study(2, name=name, defense=defense), trials=tuple(trials), **changes)


def gathered(*records):
    (data,) = gather(CampaignRecord("c", tuple(records), 10))
    return data


def figure_of(*records):
    data = gathered(*records)
    return frontier(data.found, data.decision, data.names)


def marks_of(figure, rank):
    return {m.key for g in figure.groups if g.rank == rank for m in g.marks}


# What is described


def test_the_joint_front_is_drawn_over_all_that_it_dominates():
    one = study_of((0.90, 0.80), (0.70, 0.60), name="a")
    two = study_of((0.80, 0.70), (0.69, 0.62), name="b", defense="marvell")
    figure = figure_of(one, two)
    assert marks_of(figure, "front") == {"a#0", "a#1", "b#0"}
    assert marks_of(figure, "behind") == {"b#1"}
    (steps,) = [line for line in figure.lines if line.kind == "front"]
    assert np.allclose(steps.corners[:5], [(0.2, 0.7), (0.4, 0.7), (0.4, 0.8), (0.6, 0.8), (0.6, 0.9)])
    assert figure.title == "2 defenses on breast_cancer"
    assert [name for name, _ in figure.keys] == ["laplace", "marvell"]


def test_a_defense_far_from_the_front_is_muted_and_a_near_one_is_not():
    best = study_of((0.90, 0.60), name="a")
    near = study_of((0.895, 0.65), name="b", defense="marvell")
    far = study_of((0.80, 0.90), name="c", defense="kdk")
    figure = figure_of(best, far, near)
    ranks = {g.name: g.rank for g in figure.groups if g.rank != "undefended"}
    assert (ranks["laplace"], ranks["marvell"], ranks["kdk"]) == ("front", "behind", "muted")
    assert [name for name, _ in figure.keys] == ["laplace", "marvell", "kdk"]


def test_a_point_says_its_setting_its_numbers_and_how_it_is_exported():
    figure = figure_of(study_of((0.90, 0.80), params=[{"scale": 0.01, "k": 3}]))
    (mark,) = next(g.marks for g in figure.groups if g.rank == "front")
    assert mark.says[0] == "laplace scale=0.01, k=3"
    assert mark.says[1].startswith("AUC 0.900 (")
    assert mark.says[2].startswith("leakage 0.600 (")
    assert mark.says[2].endswith(", by norm")
    data = plotly_dict(figure, "tune-vfl export c --select {} -o best.json".format)["data"]
    (texts,) = [t["text"] for t in data if t.get("meta") == "front"]
    assert "tune-vfl export c --select s#0" in texts[0]


@pytest.mark.parametrize("points", [[(0.999, 0.999), (0.998, 0.5)], [(0.6, 0.505), (0.3, 0.5)], [(0.9, 0.8)] * 3, []])
def test_nothing_lies_beyond_what_a_metric_can_reach(points):
    figure = figure_of(study_of(*points))
    for axis in (figure.x, figure.y):
        assert 0 <= axis.limits[0] < axis.limits[1] <= 1
    for mark in (m for g in figure.groups for m in g.marks):
        for end in [*(mark.x_bar or ()), *(mark.y_bar or ())]:
            assert 0 <= end <= 1
    plotted = plotly_dict(figure)["layout"]
    assert (plotted["xaxis"]["minallowed"], plotted["xaxis"]["maxallowed"]) == (0.0, 1.0)
    axes = drawn(figure).axes[0]
    assert axes.get_xlim() == pytest.approx(figure.x.limits)
    assert axes.get_ylim() == pytest.approx(figure.y.limits)


def test_an_empty_study_has_a_figure_too():
    figure = figure_of(replace(made_up_study(0, failures=()), baseline=None))
    assert figure.groups == ()
    assert "no setting has come to a result yet" in figure.alt
    assert files_of(figure)["frontier.png"].startswith(b"\x89PNG")


def test_a_staircase_goes_right_before_it_goes_up():
    expected = ((0.2, 0.7), (0.6, 0.7), (0.6, 0.9), (1.0, 0.9))
    assert staircase([(0.2, 0.7), (0.6, 0.9)], 1.0) == expected
    assert staircase([], 1.0) == ()


def test_ticks_are_round_and_within():
    assert ticks(0.0, 1.0, 5) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert ticks(0.931, 0.968, 4) == [0.94, 0.95, 0.96]


def test_room_never_leads_out_of_reach():
    assert room([0.5, 0.9], (0.0, 1.0)) == pytest.approx((0.476, 0.924))
    assert room([0.0, 1.0], (0.0, 1.0)) == (0.0, 1.0)
    assert within((-0.1, 1.2)) == (0.0, 1.0)
    low, high = room([0.9], (0.0, 1.0))
    assert low < 0.9 < high


# How it is drawn


def test_both_drawings_hold_every_point_and_no_other():
    figure = figure_of(made_up_study(30), made_up_study(30, name="other", defense="marvell", shift=2.0))
    expected = sorted((m.x, m.y) for g in figure.groups for m in g.marks)
    plotted = [t for t in plotly_dict(figure)["data"] if t["mode"] == "markers"]
    assert sorted((x, y) for t in plotted for x, y in zip(t["x"], t["y"], strict=True)) == expected
    marks = [c for c in drawn(figure).axes[0].collections if isinstance(c, PathCollection)]
    printed = [tuple(row) for c in marks for row in c.get_offsets().tolist()]
    shown = [(x, y) for x, y in expected if figure.y.limits[0] <= y]
    assert np.allclose(sorted(printed), shown)
    assert len(plotly_figure(figure).data) == len(plotly_dict(figure)["data"])


def test_plotly_gets_no_color_that_the_page_does_not_know():
    def variables(value):
        if isinstance(value, dict):
            return set().union(*map(variables, value.values())) if value else set()
        if isinstance(value, list):
            return set().union(*map(variables, value)) if value else set()
        return {value} if isinstance(value, str) and value.startswith("$") else set()

    assert variables(plotly_dict(figure_of(made_up_study()))) <= set(LIGHT)


def test_the_same_figure_gives_the_same_bytes():
    figure = figure_of(made_up_study(8))
    assert files_of(figure) == files_of(figure)


def test_bars_are_drawn_where_the_mark_lies_beyond_its_interval():
    figure = figure_of(made_up_study(8))
    group = next(g for g in figure.groups if g.rank == "front")
    odd = group._replace(marks=(Mark(0.5, 0.8, (0.51, 0.6), (0.81, 0.82), ("odd",), "s#0"),))
    changed = figure._replace(groups=(odd,))
    bars = next(t for t in plotly_dict(changed)["data"] if t.get("meta") == "bars")
    assert bars["x"] == [0.51, 0.6, None, 0.5, 0.5, None]
    printed = [c for c in drawn(changed).axes[0].collections if isinstance(c, LineCollection) and c.get_segments()]
    segments = [s.tolist() for c in printed for s in c.get_segments()]
    assert [[0.51, 0.8], [0.6, 0.8]] in segments
    assert [[0.5, 0.81], [0.5, 0.82]] in segments


@pytest.mark.parametrize("trials", [8, 60])
def test_no_label_covers_another_or_leaves_the_plot(trials):
    figure = figure_of(made_up_study(trials))
    placed = _placed(figure, _PlotScale(figure.x.limits, figure.y.limits))
    boxes = [p.box for p, _ in placed]
    assert len(boxes) > 4
    assert all(a.overlap(b) == 0 for k, a in enumerate(boxes) for b in boxes[:k])


def test_a_box_is_free_where_it_shares_no_area_with_any_other():
    rng = np.random.default_rng(0)
    boxes = [labels.Box(*row) for row in rng.integers(0, 9, size=(300, 4)).astype(float).tolist()]
    for box in boxes[:60]:
        for others in ([], boxes[100:101], boxes[60:64], boxes[60:]):
            assert labels._covers(box, labels._edges(others)) == any(box.overlap(other) > 0 for other in others)


def test_a_label_without_room_is_left_out():
    bounds = labels.Box(0, 0, 50, 50)
    wish = labels.Wish(25, 25, "too wide", 60, 10)
    assert labels.place([wish], bounds) == []
    assert len(labels.place([wish._replace(width=20)], bounds)) == 1


# Looks


def test_up_to_28_defenses_have_looks_of_their_own_and_seven_share_neither_color_nor_shape():
    names = [f"d{k}" for k in range(28)]
    assert len(set(looks(names, names).values())) == len(names)
    few = [look for name, look in looks(names, names[10:17]).items() if look.color is not None]
    assert len({look.color for look in few}) == len({look.shape for look in few}) == 7
    muted = looks(names, names[10:17])
    assert [n for n in names if muted[n].color is not None] == names[10:17]
    assert set(_MARKERS) == set(SHAPES) == set(SIGNS)


# Machado, Oliveira and Fernandes (2009), severity 1; rows give red, green and blue in linear light.
BLIND = {
    "normal": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def light_of(color):
    parts = np.array([int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab_of(light):
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ light
    f = np.cbrt(np.maximum(xyz / np.array([0.9505, 1.0, 1.089]), 1e-6))
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("sight", BLIND)
@pytest.mark.parametrize("palette", [COLORS, DARK])
def test_the_color_blind_can_tell_the_colors_apart(palette, sight):
    seen = [lab_of(np.clip(np.asarray(BLIND[sight]) @ light_of(c), 0, 1)) for c in palette]
    # A difference of ten is seen at a glance; red and green of one lightness come to less than five for a deutan.
    assert min(math.dist(a, b) for a, b in itertools.combinations(seen, 2)) > 10


@pytest.mark.parametrize(("palette", "paper"), [(COLORS, "#ffffff"), (DARK, "#1a2129")])
def test_every_color_stands_out_from_its_paper(palette, paper):
    def brightness(color):
        return float(light_of(color) @ [0.2126, 0.7152, 0.0722]) + 0.05

    for color in palette:
        low, high = sorted([brightness(color), brightness(paper)])
        assert high / low > 2.2


# Importances


def test_the_parameter_that_decides_matters_most_and_few_settings_say_nothing():
    rng = np.random.default_rng(0)
    scales = rng.uniform(0, 1, 30)
    params = [{"scale": float(s), "k": int(k)} for s, k in zip(scales, rng.integers(1, 9, 30), strict=True)]
    points = [(0.9 - 0.3 * s**2, 0.95 - 0.4 * s) for s in scales]
    record = study_of(*points, params=params)
    found = importances(record)
    assert [i.param for i in found] == ["scale", "k"]
    assert found[0].leakage > 0.8
    assert sum(i.utility for i in found) == pytest.approx(1)
    assert importances(record) == found
    lines = [t for t in parallel(record)["data"] if t["mode"] == "lines"]
    assert len(lines) == 30
    same = study_of(*[(utility, 1.0) for utility, _ in points], params=params)
    assert {i.leakage for i in importances(same)} == {0.0}, "nothing matters to what never changes"
    few = replace(record, trials=record.trials[: FEWEST - 1])
    assert importances(few) == []
    assert parallel(few) is None
    assert importances(study_of(*points)) == []  # a single parameter


def test_no_settings_of_the_working_folder_or_the_user_draw(monkeypatch):
    """A planted ``matplotlibrc`` could run TeX with what it says."""
    import matplotlib as mpl

    figure = figure_of(study_of((0.9, 0.8), (0.8, 0.3)))
    plain = files_of(figure)
    monkeypatch.setitem(mpl.rcParams, "text.usetex", True)
    monkeypatch.setitem(mpl.rcParams, "lines.linewidth", 30)
    assert files_of(figure) == plain
    assert mpl.rcParams["text.usetex"], "put back"
