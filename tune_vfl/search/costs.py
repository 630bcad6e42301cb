"""What the defenses of a search cost in training: measured once a study, after everything else and alone."""

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

    That is after the trials, of studies that have a result; before them where a constraint on the cost may decide to
    which studies trials go.

    The first Ctrl-C leaves off, and what cannot be measured is said and left: the next run measures what is missing.

    Args:
        ledgers: of the studies.
        trainable: measures, in a worker, one study after the other; what trains nothing is not asked.
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
        for ledger in owed:
            cell, params = ledger.cell.with_params(ledger.space.typical)
            plain = undefended(cell).model_dump_json()
            call = task.remote(trainable, cell.model_dump_json(), params, plain, dict(options))
            while not left.is_set() and not ray.wait([call], timeout=_LOOK_SECONDS)[0]:
                pass
            if left.is_set():
                ray.cancel(call, force=True)
                return
            try:
                ledger.set_cost(ray.get(call))
            except ray.exceptions.RayError as error:
                why = str(getattr(error, "cause", None) or error).strip().splitlines()[0]
                say(f"the cost of {cell.defense} was not measured: {why}")


def steers(ledger: Ledger) -> bool:
    """Whether trials go by what a study costs."""
    return ledger.spec.allocation == "race" and "cost" in ledger.spec.constraints
