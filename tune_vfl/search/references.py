"""What attacks are compared with: measured in workers before anything is asked, once for all studies that share it."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Any

from tune_vfl.errors import TuneVflError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.search.room import Room
    from tune_vfl.search.undefended import Undefended
    from tune_vfl.search.work import Work
    from tune_vfl.spec import Resources

_TRIES = 3


def measure_references(
    models: Sequence[Undefended],
    work: Work,
    resources: Resources,
    room: Room,
    name: str,
) -> None:
    """Measure what attacks are compared with, once for all studies that share it, and keep it.

    Args:
        models: those of which it is not known yet.
        work: its trainable measures, each in a worker of its own.
        resources: of a worker.
        room: for how many at once.
        name: what is run, for messages.

    Raises:
        TuneVflError: that the worker met, such as data that are not on its machine.
        UnreachableError: when its workers died again and again.
    """
    import ray

    from trainables.base import measured

    # Ray itself would ask one that its memory monitor ends for ever.
    task = ray.remote(num_cpus=resources.cpu, num_gpus=resources.gpu, max_retries=0)(measured)

    def start(model: Undefended) -> Any:
        return task.remote(work.trainable, model.first.cell.model_dump_json(), dict(work.options))

    deaths: Counter[Undefended] = Counter()
    waiting, running = deque(models), dict[Any, "Undefended"]()
    while waiting or running:
        while waiting and len(running) < room.packs():
            model = waiting.popleft()
            running[start(model)] = model
        ((call,), _) = ray.wait(list(running))
        model = running.pop(call)
        try:
            references, guess = ray.get(call)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, TuneVflError):
                raise error.cause from None
            raise
        except ray.exceptions.RayError as error:
            deaths[model] += 1
            if deaths[model] == _TRIES:
                raise UnreachableError(_advice(name, error)) from error
            waiting.append(model)
        else:
            model.set_references(references, (guess, 1.0))


def _advice(name: str, error: Exception) -> str:
    import ray

    if isinstance(error, ray.exceptions.OutOfMemoryError):
        return (
            f"{name!r}: the machine ran out of memory while a worker measured what attacks are compared with, "
            f"{_TRIES} times; close what else needs memory there, or give it a larger one, and start the same command "
            "again"
        )
    first = str(error).strip().splitlines()[0]
    return (
        f"{name!r}: the worker that measures what attacks are compared with died {_TRIES} times ({first}); "
        "give it more room, or run 'tune-vfl doctor', and start the same command again"
    )
