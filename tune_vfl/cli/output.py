"""Output of the command line: data on stdout, messages on stderr; texts are no markup and give a terminal no orders."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer

from tune_vfl.machine.streams import tell, visible

PIPE_WIDTH = 160  # a table in a pipe or a file is not cut to 80 columns
MANY_ROWS = 300  # more than anybody reads on a screen: lines would take longer to draw than the numbers to compute


def emit(text: str) -> None:
    """Print text on stdout; hidden characters are shown escaped, see :func:`tune_vfl.machine.streams.visible`."""
    typer.echo(visible(text))


def emit_json(data: Any) -> None:
    """Print data as one line of strict JSON, which a log can be searched for.

    Raises:
        ValueError: for NaN or infinity, which JSON does not have.
    """
    typer.echo(json.dumps(data, allow_nan=False, default=str))


def emit_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """Print a table on stdout; numbers are aligned to the right. A very long one has no lines and is not cut."""
    rows = [list(row) for row in rows]
    if len(rows) > MANY_ROWS:
        texts = [list(map(visible, columns)), *([cell(value) for value in row] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        lines = ("  ".join(map(str.ljust, line, widths)).rstrip() for line in texts)
        emit("\n".join([title, *lines] if title else lines))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    said = None if title is None else Text(visible(title), style="table.title")
    grid = Table(title=said, title_justify="left", header_style="bold")
    for i, name in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[i], (int, float)) or row[i] is None for row in rows)
        # What a row is called stays in one piece, to be read and to be searched for.
        grid.add_column(Text(visible(name)), justify="right" if numeric else "left", overflow="fold", no_wrap=i == 0)
    for row in rows:
        grid.add_row(*(Text(cell(value)) for value in row))
    Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, emoji=False).print(grid)


def as_yaml(data: Any, **style: Any) -> str:
    """Return data as YAML to be shown and pasted: it reads back as the same data, hidden characters among them.

    Args:
        data: plain data.
        style: what :func:`yaml.safe_dump` takes.
    """
    import yaml

    style = {"width": math.inf, **style}  # a name stays in one piece, to be read and to be searched for
    text = str(yaml.safe_dump(data, allow_unicode=True, **style)).rstrip("\n")
    return text if visible(text) == text else str(yaml.safe_dump(data, allow_unicode=False, **style)).rstrip("\n")


def cell(value: object) -> str:
    """Return a value as a table shows it: four significant digits, a dash for nothing, parameters as ``k=v``."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return visible(", ".join(f"{k}={cell(v)}" for k, v in value.items())) or "-"
    return visible(str(list(value) if isinstance(value, tuple) else value))


def plus_minus(mean: float | None, std: float | None) -> str:
    """Return ``mean +- std`` with three decimals."""
    if mean is None:
        return "-"
    return f"{mean:.3f}" if std is None else f"{mean:.3f} ± {std:.3f}"


def say(message: str) -> None:
    """Print a message on stderr."""
    tell(message)


def note(message: str) -> None:
    """Print a note on stderr: nothing is wrong, but a reader should know."""
    say(f"note: {message}")
