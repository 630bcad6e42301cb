"""``tune-vfl attack``: attacks on labels, run on a recording of a training that ran elsewhere."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tune_vfl.cli.options import Json
from tune_vfl.cli.output import emit, emit_json, emit_table
from tune_vfl.errors import UsageError

if TYPE_CHECKING:
    from tune_vfl.statistics.arrays import Ints

SCHEMA = "tune-vfl/recording/1"


def attack(
    recording: Annotated[Path, typer.Argument(metavar="RECORDING.npz", help="What a passive party recorded.")],
    labels: Annotated[
        Path, typer.Option("--labels", help="The true labels by position: a .npy file, or a .csv of one named column.")
    ],
    known: Annotated[int, typer.Option("--known", min=1, help="Rows of each class that the attacker knows.")] = 10,
    draws: Annotated[int, typer.Option("--draws", min=1, help="Draws of these rows, for means and intervals.")] = 5,
    seed: Annotated[int, typer.Option("--seed", help="Of all that is drawn.")] = 0,
    json: Json = False,
) -> None:
    """Attack a training that ran elsewhere, as a passive party recorded it.

    Nothing is trained here: the attacks of `default` read the recording, and are scored by the labels.

    Example: `tune-vfl attack recording.npz --labels labels.csv`
    """
    from tune_vfl.evaluation import RecordedTraining, attack_recording

    found = attack_recording(RecordedTraining.read(recording), classes_in(labels), known=known, draws=draws, seed=seed)
    ran = sorted((one for one in found if not one.why_not), key=lambda one: -one.advantage)
    leakage = max([0.0, *(one.advantage for one in ran)])
    if json:
        skipped = {one.attack: one.why_not for one in found if one.why_not}
        attacks = {one.attack: {k: v for k, v in asdict(one).items() if k not in {"attack", "why_not"}} for one in ran}
        emit_json({"schema": SCHEMA, "leakage": leakage, "attacks": attacks, "not_run": skipped})
        return
    rows = [
        [one.attack, one.metric, _ends(one.success, one.interval), _ends(one.advantage, one.advantage_interval)]
        for one in ran
    ]
    emit_table(("attack", "metric", "success (90% interval)", "advantage (90% interval)"), rows)
    for one in ran[:1]:
        emit(f"floor {one.floor:.3f}: {one.floor_by}")
        emit(f"leakage: {leakage:.3f} (the largest advantage over what needs no federation)")
    for one in found:
        if one.why_not:
            emit(f"{one.attack} was not run: it {one.why_not}")


def _ends(value: float, interval: tuple[float, float]) -> str:
    return f"{value:.3f} ({interval[0]:.3f} to {interval[1]:.3f})"


def classes_in(path: Path) -> Ints:
    """Return the labels of a file as classes 0, 1, ... in their order."""
    import numpy as np
    import pandas as pd

    try:
        read = pd.DataFrame(np.load(path, allow_pickle=False)) if path.suffix == ".npy" else pd.read_csv(path)
        (column,) = read.columns
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: expected a .npy file, or a .csv of one named column of labels; {error}") from error
    values = read[column]
    if values.isna().any():
        raise UsageError(f"{path}: expected a label for each row; {int(values.isna().sum())} are missing")
    return pd.factorize(values, sort=True)[0]
