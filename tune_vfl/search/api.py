"""Search from Python: start, resume and load studies."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_vfl.errors import SpecError
from tune_vfl.ledger.ledger import Ledger, study_names
from tune_vfl.ledger.study import Study
from tune_vfl.search.runner import Work, run_study
from tune_vfl.spaces.named import space_of
from tune_vfl.spec import StudySpec, parse
from tune_vfl.spec.raw import expand, read_yaml

if TYPE_CHECKING:
    from tune_vfl.search.listeners import Listener

SpecLike = StudySpec | Mapping[str, Any] | str | Path


def search(
    spec: SpecLike,
    *,
    trials: int | None = None,
    name: str | None = None,
    progress: bool = True,
    listeners: Sequence[Listener] | None = None,
) -> Study:
    """Run a search here, or go on with the one of this name and spec.

    Args:
        spec: a spec, a mapping of the same form, or the path of a YAML file; one study.
        trials: the budget of finished trials, instead of the spec's.
        name: the study's name, instead of the spec's.
        progress: show a bar on a terminal, a line a minute elsewhere, on stderr.
        listeners: who projects the ledger; None is the MLflow recorder.

    Returns:
        The study; ``stopped`` when Ctrl-C ended it early.

    Raises:
        SpecError: with every problem of the spec.
        StudyError: when the name belongs to a study of another spec.
    """
    from tune_vfl.evaluation.resolving import resolve

    ready = _with(_parsed(spec), trials, name)
    cell = resolve(ready)
    told = _recorders(ready) if listeners is None else listeners
    ended = run_study(ready, cell, space_of(ready, cell), listeners=told, progress=progress)
    return Study(ready.study, ready.storage, stopped=ended.stopped)


def resume(
    name: str,
    trials: int | None = None,
    *,
    storage: str | None = None,
    progress: bool = True,
    listeners: Sequence[Listener] | None = None,
    work: Work | None = None,
) -> Study:
    """Finish what a stopped search still owes.

    Args:
        name: the study.
        trials: a new budget of finished trials in all; None keeps the study's.
        storage: the ledger's database; None is the one under ``TUNE_VFL_HOME``.
        progress: as for :func:`search`.
        listeners: as for :func:`search`.
        work: the trainable, where it is not the real one.

    Raises:
        StudyError: when there is none of this name, or another process runs it.
    """
    held = Ledger.open(name, storage)
    held.close()
    spec = held.spec
    told = _recorders(spec) if listeners is None else listeners
    ended = run_study(spec, held.cell, held.space, trials=trials, listeners=told, progress=progress, work=work)
    return Study(name, spec.storage, stopped=ended.stopped)


def load_study(name: str, storage: str | None = None) -> Study:
    """Return a study of the ledger.

    Args:
        name: the study.
        storage: the ledger's database; None is the one under ``TUNE_VFL_HOME``.

    Raises:
        StudyError: when there is none of this name; the message names the nearest.
    """
    return Study(name, storage)


def studies(storage: str | None = None) -> list[str]:
    """Return the names of all studies of the ledger, sorted."""
    return list(study_names(storage))


def _parsed(spec: SpecLike) -> StudySpec:
    if isinstance(spec, StudySpec):
        return spec
    raw = read_yaml(Path(spec)) if isinstance(spec, (str, Path)) else spec
    listed = expand(raw)
    if len(listed) != 1:
        names = ", ".join(str(s.get("study")) for s in listed)
        raise SpecError(f"the spec describes {len(listed)} studies ({names}); search them one by one")
    return parse(listed[0])


def _with(spec: StudySpec, trials: int | None, name: str | None) -> StudySpec:
    raw = spec.model_dump(exclude_unset=True)
    if trials is not None:
        raw["budget"] = {**raw.get("budget", {}), "trials": trials}
    if name is not None:
        raw["study"] = name
    return parse(raw)


def _recorders(spec: StudySpec) -> list[Listener]:
    """Return the MLflow recorder; a search goes on without it when it cannot be had."""
    try:
        from tune_vfl.tracking.mlflow import Recorder

        return [Recorder(spec.study, spec.tracking)]
    except Exception as error:  # MLflow is a projection: the ledger is complete without it
        sys.stderr.write(f"tune-vfl: MLflow is not recorded: {error}; 'tune-vfl doctor --repair' rebuilds it later\n")
        return []
