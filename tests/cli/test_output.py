"""Tables on stdout."""

import pytest

from tune_vfl.cli.output import MANY_ROWS, emit_table


def test_a_very_long_table_has_every_number_and_no_lines(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [(f"study#{n}", 1 / (n + 3), None) for n in range(MANY_ROWS + 1)]
    emit_table(("trial", "utility", "cost"), rows)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["trial", "utility", "cost"]
    assert [line.split() for line in lines[1:]] == [[name, f"{u:.4g}", "-"] for name, u, _ in rows]
    emit_table(("trial", "utility", "cost"), rows[:-1])
    assert "│" in capsys.readouterr().out
