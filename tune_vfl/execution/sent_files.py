"""A user's own data files on a cluster: put into Ray by the driver, for machines that lack them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tune_vfl.execution.ray_session import grows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trainables.base import PackTrainable
    from tune_vfl.spec import Named


def with_own_files(trainable: type[PackTrainable], datasets: Iterable[Named]) -> type[PackTrainable]:
    """Return a trainable whose workers can take the files of a user's own data sets from this process.

    On this machine alone nothing is sent, nor where they are too large (:data:`tune_vfl.data.own_files.SHIPPED_BYTES`):
    then every machine needs them under the same path. A worker compares the rows with the study's either way.

    Args:
        trainable: of the run; Ray is connected.
        datasets: of all its studies, file paths absolute.
    """
    if not grows():
        return trainable
    import ray
    from ray import tune

    from tune_vfl.data.own_files import files_of, too_large

    files = files_of(datasets)
    if not files or too_large(files):
        return trainable
    sent = {str(path): ray.put(path.read_bytes()) for path in files}
    wrapped: type[PackTrainable] = tune.with_parameters(trainable, sent=sent)
    return wrapped
