"""One run of Ray Tune over a searcher's packs, without Tune's own records: the ledger is the only one."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_vfl.execution.capacity import demand
from tune_vfl.machine.removing import remove

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ray.tune import Callback, Tuner

    from trainables.base import PackTrainable
    from tune_vfl.execution.pack_searcher import PackSearcher
    from tune_vfl.spec import Resources


def run_tune(
    searcher: PackSearcher,
    trainable: type[PackTrainable],
    resources: Resources,
    checks: Sequence[Callable[[], object]],
    say: Callable[[str], None],
) -> None:
    """Run a searcher's packs with Ray Tune until it has no more.

    Args:
        searcher: the source of packs, which gets their answers.
        trainable: evaluates a pack.
        resources: of one pack.
        checks: called at every step; each raises an exception to end the run.
        say: prints a message.

    Raises:
        RayDiedError: when Ray under this process has died.
        Exception: the searcher's, unchanged.
    """
    import ray

    from tune_vfl.execution.watchdogs import NodeWatch, RayDiedError, StepChecks, head_watched
    from tune_vfl.execution.worker_failures import WorkerFailures, out_of_memory

    callbacks = [NodeWatch(), StepChecks(checks), WorkerFailures(searcher, say)]
    while True:
        try:
            with head_watched():
                _fit(searcher, trainable, resources, callbacks)
        except RayDiedError:
            ray.shutdown()  # the next study of this process starts a Ray of its own
            raise
        except Exception as error:
            if searcher.failure is not None:
                raise searcher.failure from error  # Tune tells what its searcher raised as a text alone
            if not out_of_memory(error):
                raise
            # Tune does not say whose worker it was, and has ended them all.
            searcher.fail_all("memory")
            continue
        if searcher.failure is not None:  # met as the last packs of a stopped search were told
            raise searcher.failure
        return


def _fit(
    searcher: PackSearcher, trainable: type[PackTrainable], resources: Resources, callbacks: Sequence[Callback]
) -> None:
    """Run Tune once, in a folder of its own: the ledger is the only record."""
    folder = Path(tempfile.mkdtemp(prefix="tune-vfl-"))
    try:
        _tuner(searcher, trainable, resources, callbacks, str(folder)).fit()
    finally:
        with suppress(OSError):
            remove(folder, folder.parent)


def _tuner(
    searcher: PackSearcher,
    trainable: type[PackTrainable],
    resources: Resources,
    callbacks: Sequence[Callback],
    folder: str,
) -> Tuner:
    import ray
    from ray import tune

    return tune.Tuner(
        tune.with_resources(trainable, demand(resources, ray.cluster_resources())),
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            num_samples=-1,
            reuse_actors=True,
            trial_dirname_creator=_trial_id,
            trial_name_creator=_trial_id,
        ),
        run_config=tune.RunConfig(
            name="search",
            storage_path=folder,
            verbose=0,
            callbacks=list(callbacks),
            failure_config=tune.FailureConfig(max_failures=0),
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
        ),
    )


def _trial_id(trial: Any) -> str:
    return str(trial.trial_id)
