"""What the defenses of a search cost in training: measured once a study, after everything else."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from tune_vfl.machine.signals import answered
from tune_vfl.search import ray_session as cluster
from tune_vfl.search.undefended import undefended

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trainables.base import PackTrainable
    from tune_vfl.ledger.ledger import Ledger
    from tune_vfl.spec import Resources

_LOOK_SECONDS = 0.2


def measure_costs(
    ledgers: Sequence[Ledger],
    trainable: type[PackTrainable],
    options: Mapping[str, Any],
    resources: Resources,
    say: Callable[[str], None],
) -> None:
    """Measure the cost of each study that has none yet, and keep each as it comes.

    As many at once as there are workers: a cost is a ratio of CPU times taken in turns, which neighbours hardly move.
    That is after the trials, of studies that have a result; before them where a constraint on the cost may decide to
    which studies trials go.

    The first Ctrl-C leaves off, and what cannot be measured is said and left: the next run measures what is missing.

    Args:
        ledgers: of the studies.
        trainable: measures, in workers; what trains nothing is not asked.
        options: the trainable's.
        resources: of a worker.
        say: is told what a person should know.
    """
    from trainables.base import TrainingTrainable, costed

    if not issubclass(trainable, TrainingTrainable):
        return
    owed = [ledger for ledger in ledgers if ledger.cost is None and (steers(ledger) or ledger.record().ok)]
    if not owed:
        return
    say("measuring what the defenses cost in training; Ctrl-C leaves it to the next run")
    left = threading.Event()
    with answered(lambda: "left; the trials are kept, and the next run measures the costs", stop=left.set):
        cluster.connect(trainable)
        import ray

        task = ray.remote(num_cpus=resources.cpu, num_gpus=resources.gpu, max_retries=0)(costed)
        calls = {}
        for ledger in owed:
            cell, params = ledger.cell.with_params(ledger.space.typical)
            plain = undefended(cell).model_dump_json()
            calls[task.remote(trainable, cell.model_dump_json(), params, plain, dict(options))] = ledger
        while calls:
            for call in ray.wait(list(calls), timeout=_LOOK_SECONDS)[0]:
                _keep(calls.pop(call), call, say)
            if left.is_set():
                for call in calls:
                    ray.cancel(call, force=True)
                return


def _keep(ledger: Ledger, call: Any, say: Callable[[str], None]) -> None:
    """Keep the cost that a call has come to, or say why it is not known."""
    import ray

    try:
        ledger.set_cost(ray.get(call))
    except ray.exceptions.RayError as error:
        why = str(getattr(error, "cause", None) or error).strip().splitlines()[0]
        say(f"the cost of {ledger.cell.defense} was not measured: {why}")


def steers(ledger: Ledger) -> bool:
    """Whether trials go by what a study costs."""
    return ledger.spec.allocation == "race" and "cost" in ledger.spec.constraints
