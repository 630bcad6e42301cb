"""Replaying tables of trials: orders, shares of the trials, and what is read of a table that was kept."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.allocation import ORDERS, REFERENCES, Table, compared, opened, reach, replayed
from benchmarks.allocation_tables import DATASETS, FOLDER, Row, part, read, settings_of, table_of
from tune_vfl.campaign.allocation import ALLOCATORS
from tune_vfl.metrics.pareto import hypervolume
from tune_vfl.spaces.space import point_key


def made_up(seed: int = 0) -> Table:
    """Return eight defenses of 24 settings of which one is good, and one with two settings that never end well."""
    rng = np.random.default_rng(seed)
    parts: dict[str, list[Row]] = {}
    for k in range(8):
        strengths, cost, least = rng.uniform(size=24), 0.02 if k == 5 else 0.1, 0.0 if k == 5 else 0.2
        parts[f"d{k}"] = [
            row(f"d{k}", i, 0.95 - cost * s, least + 0.7 * (1 - s)) for i, s in enumerate(strengths.tolist())
        ]
    parts["lost"] = [Row("lost", i, {"a": i}, i == 0, "diverged", [], None, {}, 1.0) for i in range(2)]
    return Table("spambase", parts, (0.5, 1.0))


def row(defense: str, place: int, utility: float, leakage: float) -> Row:
    utilities, advantages = [utility - 0.001, utility + 0.001], [leakage - 0.01, leakage + 0.01]
    return Row(defense, place, {"a": place}, place < 3, "ok", utilities, leakage, {"pmc": advantages}, 1.0)


@pytest.mark.parametrize("name", sorted(ALLOCATORS))
def test_a_replay_spends_its_trials_and_ends_where_its_rows_do(name: str) -> None:
    table = made_up()
    found = replayed(table, ALLOCATORS[name], 100, "random", 0)
    assert sum(found.trials.values()) == len(found.history) == 100
    assert found.history == sorted(found.history)
    everything = replayed(table, ALLOCATORS[name], table.trials, "random", 0)
    assert everything.history[-1] == pytest.approx(table.whole)
    assert everything.trials == {n: len(rows) for n, rows in table.parts.items()}


def test_published_rows_come_first_and_each_row_once() -> None:
    rows = made_up().parts["d1"]
    orders = [list(ORDERS["random"](rows, seed, "spambase")) for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert all(order[:3] == [0, 1, 2] and sorted(order) == list(range(24)) for order in orders)


def test_tpe_draws_each_row_once() -> None:
    settings = part("digits", "laplace", 9).settings
    rows = [row("laplace", i, 0.9 - 0.01 * i, 0.5 - 0.05 * i)._replace(params=p) for i, p in enumerate(settings)]
    order = list(ORDERS["tpe"](rows, 0, "digits"))
    assert order[:3] == [0, 1, 2]
    assert sorted(order) == list(range(9))


def test_a_comparison_has_a_line_for_each_allocator() -> None:
    lines = compared(made_up(), 12, "random", 2, ["even", "race"])
    assert [line.split("|")[2].strip() for line in lines] == ["even", "race"]


def test_a_share_is_reached_at_the_first_trial_that_has_as_much() -> None:
    assert reach([0.1, 0.5, 0.5, 0.9], 0.5, 4) == 0.5
    assert reach([0.1, 0.5], 0.6, 4) > 1


def test_the_settings_of_a_table_start_with_the_published_ones_and_do_not_change_when_more_are_asked() -> None:
    space = part("digits", "laplace", 4).study.space
    few, many = settings_of(space, 8), settings_of(space, 24)
    assert many[:8] == few
    assert [point_key(p.params) for p in space.published] == [point_key(p) for p in few[: len(space.published)]]
    assert len({point_key(p) for p in many}) == 24
    assert all(space.holds(p) for p in many)


@pytest.mark.parametrize("dataset", sorted(DATASETS))
def test_a_kept_table_can_be_replayed(dataset: str) -> None:
    table = opened(dataset)
    assert table.reference == REFERENCES[dataset]
    assert 0.5 < table.whole / (1 - table.reference[0]) < 1
    front = replayed(table, ALLOCATORS["race"], table.trials // 2, "random", 0).history[-1]
    assert 0.9 * table.whole < front <= table.whole + 1e-12
    assert table_of(dataset).stat().st_size < 300_000


def test_a_table_is_read_by_defense_and_place(tmp_path: Path) -> None:
    path = table_of("digits", tmp_path)
    rows = [row("b", 1, 0.8, 0.5), row("b", 0, 0.9, 0.5), row("a", 0, 0.7, 0.1)]
    path.write_text("".join(json.dumps(r._asdict()) + "\n" for r in rows), encoding="utf-8")
    assert read(path) == [rows[2], rows[1], rows[0]]
    assert hypervolume([r.objectives for r in rows], (0.5, 1.0)) == pytest.approx(0.2 * 0.9 + 0.2 * 0.5)
    assert read(tmp_path / "none.jsonl") == []
    assert FOLDER.is_dir()
