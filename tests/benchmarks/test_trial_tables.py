"""Tables of trials: the order of their settings, and the tables that are kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.trial_tables import (
    DATASETS,
    FOLDER,
    REFERENCES,
    Row,
    opened,
    part,
    read,
    settings_of,
    table_of,
)
from tune_vfl.metrics.pareto import hypervolume
from tune_vfl.spaces.space import point_key


def row(defense: str, place: int, utility: float, leakage: float) -> Row:
    utilities, advantages = [utility - 0.001, utility + 0.001], [leakage - 0.01, leakage + 0.01]
    return Row(defense, place, {"a": place}, place < 3, "ok", utilities, leakage, {"pmc": advantages}, 1.0)


def test_the_settings_of_a_table_start_with_the_published_ones_and_do_not_change_when_more_are_asked() -> None:
    space = part("digits", "laplace", 4).study.space
    few, many = settings_of(space, 8), settings_of(space, 24)
    assert many[:8] == few
    assert [point_key(p.params) for p in space.published] == [point_key(p) for p in few[: len(space.published)]]
    assert len({point_key(p) for p in many}) == 24
    assert all(space.holds(p) for p in many)


@pytest.mark.parametrize("dataset", sorted(DATASETS))
def test_a_kept_table_can_be_opened(dataset: str) -> None:
    table = opened(dataset)
    assert table.reference == REFERENCES[dataset]
    assert 0.5 < table.whole / (1 - table.reference[0]) < 1
    assert table.trials > 400
    assert table_of(dataset).stat().st_size < 300_000


def test_a_table_is_read_by_defense_and_place(tmp_path: Path) -> None:
    path = table_of("digits", tmp_path)
    rows = [row("b", 1, 0.8, 0.5), row("b", 0, 0.9, 0.5), row("a", 0, 0.7, 0.1)]
    path.write_text("".join(json.dumps(r._asdict()) + "\n" for r in rows), encoding="utf-8")
    assert read(path) == [rows[2], rows[1], rows[0]]
    assert hypervolume([r.objectives for r in rows], (0.5, 1.0)) == pytest.approx(0.2 * 0.9 + 0.2 * 0.5)
    assert read(tmp_path / "none.jsonl") == []
    assert FOLDER.is_dir()
