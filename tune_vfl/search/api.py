"""Search from Python: start, resume and load studies."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tune_vfl.ledger.ledger import Ledger, study_names
from tune_vfl.ledger.study import Study
from tune_vfl.search.planning import planned
from tune_vfl.search.runner import Work, run_study

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.ledger.planned import PlannedStudy
    from tune_vfl.search.listeners import Listener
    from tune_vfl.search.planning import SpecLike


def search(
    spec: SpecLike,
    *,
    trials: int | None = None,
    name: str | None = None,
    storage: str | None = None,
    take_over: bool = False,
    progress: bool = True,
    listeners: Sequence[Listener] | None = None,
) -> Study:
    """Run a search here, or go on with the one of this name and spec.

    Args:
        spec: a planned study, a spec, a mapping of the same form, or the path of a YAML file; one study.
        trials: the budget of finished trials, instead of the spec's.
        name: the study's name, instead of the spec's.
        storage: the ledger's database, instead of the spec's; see :func:`resume`.
        take_over: drive another process out that holds the study.
        progress: show a bar on a terminal, a line a minute elsewhere, on stderr.
        listeners: who projects the ledger; None is the MLflow recorder.

    Returns:
        The study; ``stopped`` when Ctrl-C ended it early.

    Raises:
        SpecError: with every problem of the spec.
        StudyError: when the name belongs to a study of another spec, or another process runs it.
        UnreachableError: when the ledger or the cluster does not answer.
    """
    study = planned(spec).changed(trials=trials, name=name)
    return _run(study, storage=storage, take_over=take_over, listeners=listeners, progress=progress)


def resume(
    name: str,
    trials: int | None = None,
    *,
    storage: str | None = None,
    take_over: bool = False,
    progress: bool = True,
    listeners: Sequence[Listener] | None = None,
    work: Work | None = None,
) -> Study:
    """Finish what a stopped search still owes.

    Args:
        name: the study.
        trials: a new budget of finished trials in all; None keeps the study's.
        storage: the ledger's database; None is the one that ``TUNE_VFL_STORAGE`` names, or that under
            ``TUNE_VFL_HOME``.
        take_over: drive another process out that holds the study.
        progress: as for :func:`search`.
        listeners: as for :func:`search`.
        work: the trainable, where it is not the real one.

    Raises:
        StudyError: when there is none of this name, or another process runs it.
    """
    held = Ledger.open(name, storage)
    held.close()
    return _run(
        held.study,
        trials=trials,
        storage=held.place.url,
        take_over=take_over,
        listeners=listeners,
        progress=progress,
        work=work,
    )


def load_study(name: str, storage: str | None = None) -> Study:
    """Return a study of the ledger.

    Args:
        name: the study.
        storage: the ledger's database, see :func:`resume`.

    Raises:
        StudyError: when there is none of this name; the message names the nearest.
    """
    return Study(name, storage)


def studies(storage: str | None = None) -> list[str]:
    """Return the names of all studies of the ledger, sorted."""
    return list(study_names(storage))


def _run(
    study: PlannedStudy,
    *,
    trials: int | None = None,
    storage: str | None,
    take_over: bool,
    listeners: Sequence[Listener] | None,
    progress: bool,
    work: Work | None = None,
) -> Study:
    told = _recorders(study) if listeners is None else listeners
    return run_study(
        study, trials=trials, listeners=told, progress=progress, work=work, storage=storage, take_over=take_over
    )


def _recorders(study: PlannedStudy) -> list[Listener]:
    """Return the MLflow recorder; a search goes on without it when it cannot be had."""
    try:
        from tune_vfl.tracking.mlflow import Recorder

        return [Recorder(study.name, study.spec.tracking)]
    except Exception as error:  # MLflow is a projection: the ledger is complete without it
        sys.stderr.write(f"tune-vfl: MLflow is not recorded: {error}; 'tune-vfl doctor --repair' rebuilds it later\n")
        return []
