"""Ray Tune, told to run what a searcher hands out and to leave everything else to the ledger."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_vfl.search.lean_ray import inheriting, uncounted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ray.tune import Callback, Tuner

    from trainables.base import PackTrainable
    from tune_vfl.ledger.lease import Lease
    from tune_vfl.search.searcher import LedgerSearcher
    from tune_vfl.spec import Resources


def tuned(
    searcher: LedgerSearcher,
    trainable: type[PackTrainable],
    resources: Resources,
    lease: Lease,
    say: Callable[[str], None],
) -> None:
    """Let Ray Tune run what a searcher hands out, until it has nothing more.

    Args:
        searcher: hands out packs, and hears what came of them.
        trainable: runs a pack.
        resources: of one pack.
        lease: that of what is searched, looked at from time to time.
        say: is told what a person should know.

    Raises:
        RayDiedError: when Ray under this process is gone.
        Exception: what the searcher met, as it was.
    """
    import ray

    from tune_vfl.search.losses import surviving
    from tune_vfl.search.watch import LeaseWatch, NodeWatch, PackWatch, RayDiedError

    folder = tempfile.mkdtemp(prefix="tune-vfl-")
    try:
        watches = [NodeWatch(), LeaseWatch(lease), PackWatch(searcher, say)]
        with inheriting(), uncounted(), surviving():
            _tuner(searcher, trainable, resources, watches, folder).fit()
    except RayDiedError:
        ray.shutdown()  # the next study of this process starts a Ray of its own
        raise
    except Exception as error:
        if searcher.failure is None:
            raise
        raise searcher.failure from error  # Tune tells what its searcher raised as a text alone
    else:
        if searcher.failure is not None:  # met as the last packs of a stopped search were told
            raise searcher.failure
    finally:
        shutil.rmtree(Path(folder), ignore_errors=True)


def _tuner(
    searcher: LedgerSearcher,
    trainable: type[PackTrainable],
    resources: Resources,
    watches: Sequence[Callback],
    folder: str,
) -> Tuner:
    from ray import tune

    from tune_vfl.search.forgetting import Forgetting
    from tune_vfl.search.losses import LossReader

    return tune.Tuner(
        tune.with_resources(trainable, {"cpu": resources.cpu, "gpu": resources.gpu}),
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            scheduler=LossReader(searcher.lost_because),
            num_samples=-1,
            reuse_actors=True,
            trial_dirname_creator=_trial_id,
            trial_name_creator=_trial_id,
        ),
        run_config=tune.RunConfig(
            name="search",
            storage_path=folder,
            verbose=0,
            callbacks=[*watches, Forgetting()],
            failure_config=tune.FailureConfig(max_failures=0),
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
        ),
    )


def _trial_id(trial: Any) -> str:
    return str(trial.trial_id)
