"""The trainable of a search and its options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tune_vfl.execution.ray_session import grows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trainables.base import PackTrainable
    from tune_vfl.spec import Named


@dataclass(frozen=True)
class TrainableSpec:
    """A trainable class and its options: the real one by default, another one for tests and benchmarks."""

    trainable: type[PackTrainable]
    options: Mapping[str, Any]

    @classmethod
    def real(cls) -> TrainableSpec:
        """Return the trainable that trains and attacks."""
        from trainables.cell import CellTrainable  # imports Ray Tune, which takes a second

        return cls(CellTrainable, {})

    def with_own_files(self, datasets: Iterable[Named]) -> type[PackTrainable]:
        """Return the trainable, whose workers can take the files of a user's own data sets from this process.

        On this machine alone nothing is sent, nor where they are too large
        (:data:`tune_vfl.data.own_files.SHIPPED_BYTES`): then every machine needs them under the same path. A worker
        compares the rows with the study's either way.

        Args:
            datasets: of all studies of the run, file paths absolute; Ray is connected.
        """
        if not grows():
            return self.trainable
        import ray
        from ray import tune

        from tune_vfl.data.own_files import files_of, too_large

        files = files_of(datasets)
        if not files or too_large(files):
            return self.trainable
        sent = {str(path): ray.put(path.read_bytes()) for path in files}
        wrapped: type[PackTrainable] = tune.with_parameters(self.trainable, sent=sent)
        return wrapped
