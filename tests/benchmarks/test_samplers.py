"""Replaying searches on surrogates of tables: what they answer, what comes first, and how searches are scored."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.samplers import Found, read, replay, searched, shares, starting
from benchmarks.surrogates import GUESSES, Surrogate, encoded, front_settings, noise_of, surrogate
from benchmarks.trial_tables import Row, opened, part
from tune_vfl.metrics.pareto import front, hypervolume

ROWS = opened("digits").parts["laplace"]


@pytest.fixture(scope="module", params=sorted(GUESSES))
def laplace(request: pytest.FixtureRequest) -> Surrogate:
    return surrogate("digits", ROWS, request.param)


def test_a_surrogate_answers_a_row_as_the_table_does(laplace: Surrogate) -> None:
    for row in ROWS:
        assert laplace.truth(row.params) == pytest.approx(row.objectives, abs=1e-9)
    assert laplace.most >= hypervolume([r.objectives for r in ROWS], laplace.reference) - 1e-12


def test_between_two_rows_one_answers_as_the_nearer_and_the_other_by_the_line() -> None:
    places, answers = np.asarray([[0.0], [1.0]]), np.asarray([[0.9, 0.8], [0.7, 0.2]])
    asked = np.asarray([[0.0], [0.25], [0.75], [1.0], [1.5]])
    assert GUESSES["nearest"](places, answers)(asked)[:, 1].tolist() == [0.8, 0.8, 0.2, 0.2, 0.2]
    assert GUESSES["linear"](places, answers)(asked)[:, 1] == pytest.approx([0.8, 0.65, 0.35, 0.2, 0.2])


def test_noise_is_the_same_for_a_seed_has_the_size_of_the_rows_and_no_bias(laplace: Surrogate) -> None:
    params = {"scale": 3e-3}
    answers = np.asarray([laplace.answer(params, seed) for seed in range(400)])
    assert laplace.answer(params, 7) == answers[7].tolist()
    gone = answers[:, :2] - answers[:, 2:]
    assert gone.std(0) == pytest.approx(laplace.noise, rel=0.15)
    assert np.abs(gone.mean(0)) == pytest.approx([0, 0], abs=4 * max(laplace.noise) / 20)


def test_noise_leaves_out_what_a_seed_gives_to_all_settings() -> None:
    rng = np.random.default_rng(3)
    shared, own = rng.normal(size=3), rng.normal(size=(3000, 3))
    values = 10 * shared + 0.02 * own + rng.normal(size=(3000, 1))
    rows = [
        Row("d", i, {}, False, "ok", v, 0.0, {"pmc": (2 * np.asarray(v)).tolist()}, 1.0)
        for i, v in enumerate(values.tolist())
    ]
    utility, leakage = noise_of(rows)
    assert utility == pytest.approx(0.02 / 3**0.5, rel=0.05)
    assert leakage == pytest.approx(2 * utility)


def test_settings_of_a_front_are_on_it_and_reach_from_end_to_end() -> None:
    points = np.asarray([r.objectives for r in ROWS])
    on_front = [r for r, on in zip(ROWS, front(points), strict=True) if on]
    found = front_settings(ROWS, 4)
    leakages = {r.params["scale"]: r.objectives[1] for r in on_front}
    assert len(found) == min(4, len(on_front))
    assert {p["scale"] for p in found} <= set(leakages)
    assert leakages[found[0]["scale"]] == min(leakages.values())
    assert leakages[found[-1]["scale"]] == max(leakages.values())


@pytest.mark.parametrize("flying", [1, 3])
@pytest.mark.parametrize("arm", ["random+published", "tpe+published+warm", "random"])
def test_a_search_asks_first_what_its_arm_says_and_forty_settings_once(arm: str, flying: int) -> None:
    study = part("digits", "laplace", 24).study
    elsewhere = opened("spambase").parts["laplace"]
    asked: list[float] = []

    def answers(settings: list[dict[str, float]]) -> list[list[float]]:
        asked.extend(p["scale"] for p in settings)
        return [[0.9, 0.5] for _ in settings]

    rows = searched(starting(study, arm, elsewhere), arm, 0, flying, answers)
    first = [p.params["scale"] for p in study.space.published] if "published" in arm else []
    first += [p["scale"] for p in front_settings(elsewhere, 4)] if "warm" in arm else []
    first = list(dict.fromkeys(first))
    assert len(rows) == len(set(asked)) == 40
    assert asked[: len(first)] == first
    assert bool(set(asked) & {1e-4, 1e-3, 1e-2, 1e-1}) == bool(first)


def test_warm_settings_that_do_not_fit_are_left_out() -> None:
    study = part("digits", "laplace", 24).study
    rows = [r._replace(params={"scale": r.params["scale"] * 20}) for r in opened("spambase").parts["laplace"]]
    found = starting(study, "tpe+warm", rows).space.published
    wanted = [p["scale"] for p in front_settings(rows, 4)]
    assert [p.params["scale"] for p in found] == [scale for scale in wanted if scale <= 0.1]
    assert 0 < len(found) < 4
    assert not starting(study, "tpe+warm").space.published


def test_a_replay_goes_on_where_its_file_stops_and_its_shares_are_those_of_the_fronts(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("benchmarks.samplers.DATASETS", {"digits": {}})  # the other one reads public data
    out = tmp_path / "replays.jsonl"
    replay(out, ["random+published"], 1, 2, ["laplace"])
    before = out.read_text()
    replay(out, ["random+published"], 2, 2, ["laplace"])
    found = read(out)
    assert out.read_text().startswith(before)
    assert len(found) == 2 * len(before.splitlines()) == 4
    key = ("digits", "linear", "laplace", "random+published", 2, 1)
    one: Found = found[key]
    # A front of a defense alone is the joint front.
    mine = shares(found, "digits", "linear", "random+published", 2)
    assert mine["own"] == pytest.approx(mine["joint"])
    points = [(u, leakage) for _, _, u, leakage in one.fronts[1]]
    exact = surrogate("digits", ROWS, "linear")
    assert mine["own"][1, 1] == pytest.approx(hypervolume(points, exact.reference) / exact.most)
    assert 0.5 < mine["own"].min() <= mine["own"].max() <= 1 + 1e-6


def test_places_are_in_the_unit_cube() -> None:
    domains = part("digits", "laplace", 24).study.space.distributions()
    assert encoded({"scale": 1e-5}, domains) == pytest.approx([0.0])
    assert encoded({"scale": 1e-3}, domains) == pytest.approx([0.5])
    assert encoded({"scale": 1e-1}, domains) == pytest.approx([1.0])
