"""The base of trainables: a worker evaluates a pack of trials and returns one outcome per trial, also after errors.

A pack's configuration is plain data: ``cell`` and ``references`` as JSON, ``params`` (one mapping per trial),
``options`` of the trainable, ``data`` (the fingerprint of the study's rows), the driver's ``version`` and ``code``,
which are checked before and after, and the ``seconds`` after which the worker ends itself (None: never). The result is
``{"outcomes": [...], "done": True}``. A pack that ``asks`` for another measurement has one outcome, or the exception
that the worker met:

- ``references``: the reference scores of a study's attacks, and the ``guess``;
- ``floors``: the reference scores of a confirmation's attacks, with the cell's own seeds;
- ``attacker``: the attack that is best against one setting after ``minutes`` of search; None without any.
"""

from __future__ import annotations

import copy
import faulthandler
import platform
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray import tune

from tune_vfl.errors import DataError, OtherDataError, TuneVflError
from tune_vfl.evaluation.attempts import time_limit, together_or_alone
from tune_vfl.evaluation.code import bytes_of_code
from tune_vfl.machine.version import VERSION
from tune_vfl.outcome import Outcome, TunedAttack
from tune_vfl.spec.cell import Cell, References
from tune_vfl.spec.listed import absolute_paths

Settings = Sequence[Mapping[str, Any]]


class PackTrainable(tune.Trainable):  # type: ignore[misc]
    """Evaluates packs one after another in one worker process (``reuse_actors``)."""

    def setup(self, config: dict[str, Any], sent: Mapping[str, Any] | None = None) -> None:
        """Take the first pack. Everything that can fail waits for :meth:`step`, where it becomes an outcome.

        Args:
            config: see above.
            sent: Ray's references to the contents of a user's own data files, by path, where the driver sends them.
        """
        self._pack, self._sent = config, sent or {}

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take the next pack."""
        self._pack = new_config
        return True

    def step(self) -> dict[str, Any]:
        """Evaluate the pack."""
        with ended_after(self._pack.get("seconds")):
            try:
                self._check_machine()
                answers = self._answers()
                self._check_machine()  # a file that was replaced meanwhile
            except TuneVflError as error:
                answers = [_sendable(error)]
        return {"outcomes": answers, "done": True}

    def _check_machine(self) -> None:
        """Compare version and data of this machine with the study's."""
        version, data = self._pack.get("version", VERSION), self._pack.get("data", "")
        if version != VERSION:
            raise OtherDataError(
                f"machine {platform.node()} has tune-vfl {VERSION}, and the driver is {version}: install the same "
                "version on every machine, and start the same command again"
            )
        if (code := self._pack.get("code")) and code != bytes_of_code():
            raise OtherDataError(
                f"machine {platform.node()} has other source files of tune-vfl {VERSION} than the driver had when it "
                "began: install the same wheel on every machine, leave the files as they are while a search runs, and "
                "start the same command again"
            )
        if not data:
            return
        cell = Cell.model_validate_json(self._pack["cell"])
        try:
            self._receive(cell)
            found = self.data_of(cell)
        except DataError as error:
            raise DataError(f"on machine {platform.node()}: {error}") from error
        if found is not None and found != data:
            where = ", ".join(absolute_paths(cell.dataset.options)) or f"data set {cell.dataset.name!r}"
            raise OtherDataError(
                f"machine {platform.node()} reads other rows than the study: {where} has the "
                f"fingerprint {found}, the study's rows have {data}. No outcome of other rows is kept. Put the study's "
                "data back on that machine and start the same command again, or search the new data under another name"
            )

    def _receive(self, cell: Cell) -> None:
        """Load a data set whose files this machine lacks from what the driver has sent."""
        if all(Path(path).exists() for path in absolute_paths(cell.dataset.options)):
            return
        from tune_vfl.data.loading import receive  # imports torch

        receive(cell.dataset, self._content)

    def _content(self, path: str) -> bytes:
        if path in self._sent:
            content: bytes = ray.get(self._sent[path])
            return content
        from tune_vfl.data.own_files import SHIPPED_BYTES

        raise DataError(
            f"{path}: no such file. Files of up to {SHIPPED_BYTES >> 20} MiB together are sent to machines that lack "
            "them; larger ones, and folders, belong under this path on every machine (docs/cluster.md)"
        )

    def _answers(self) -> list[Any]:
        measured = {"references": self._references, "floors": self._floors, "attacker": self._attacker}
        asks = self._pack.get("asks")
        if asks is None:
            return [o.model_dump(mode="json") for o in self.outcomes(self._pack)]
        try:
            return [measured[asks](Cell.model_validate_json(self._pack["cell"]))]
        except Exception as error:  # it ends the run, and is raised where a person sees it
            return [_sendable(error)]

    def _references(self, cell: Cell) -> dict[str, Any]:
        references, guess = self.measure(cell, self._pack["options"])
        return {"references": references.model_dump(mode="json"), "guess": guess}

    def _floors(self, cell: Cell) -> References:
        return self.references(cell, self._pack["options"])

    def _attacker(self, cell: Cell) -> dict[str, Any] | None:
        (params,) = self._pack["params"]
        found = self.tuned(cell, params, self._pack["minutes"], self._pack["options"])
        return None if found is None else found.model_dump(mode="json")

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Keep nothing: the ledger is the only record."""

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Restore nothing."""

    @classmethod
    def outcomes(cls, pack: Mapping[str, Any]) -> list[Outcome]:
        """Evaluate a pack in this process; never raises for what a trial does."""
        params = list(pack["params"])
        try:
            cell = Cell.model_validate_json(pack["cell"])
            references = References.model_validate_json(pack["references"])
        except ValueError as error:
            return [Outcome.failed("error", f"the pack cannot be read: {error}")] * len(params)
        options = pack.get("options") or {}

        def attempt(some: Settings) -> list[Outcome]:
            # Outside the limit: a module whose import was cut short stays broken for every later trial of this worker.
            cls.prepare_worker()
            with time_limit(cell.trial_minutes * 60 * len(some) if cell.trial_minutes else None):
                return cls.evaluate(cell, some, references, options)

        return together_or_alone(attempt, params, minutes=cell.trial_minutes)

    @classmethod
    def data_of(cls, cell: Cell) -> str | None:
        """Return the fingerprint of a cell's data on this machine; None for a trainable that reads none."""
        del cell
        return None

    @classmethod
    @abstractmethod
    def evaluate(
        cls, cell: Cell, params: Settings, references: References, options: Mapping[str, Any]
    ) -> list[Outcome]:
        """Return one outcome per setting. May raise: the pack is then tried one by one."""

    @classmethod
    @abstractmethod
    def measure(cls, cell: Cell, options: Mapping[str, Any]) -> tuple[References, float]:
        """Measure once a study: the attacks' references, and the utility of the best constant guess."""

    @classmethod
    @abstractmethod
    def references(cls, cell: Cell, options: Mapping[str, Any]) -> References:
        """Measure what attacks are compared with, with the cell's own seeds, as a confirmation needs them."""

    @classmethod
    @abstractmethod
    def tuned(
        cls, cell: Cell, params: Mapping[str, Any], minutes: float, options: Mapping[str, Any]
    ) -> TunedAttack | None:
        """Return the best attacker that is found within so many minutes against one setting; None without any."""

    @classmethod
    @abstractmethod
    def most_per_pack(cls, cell: Cell) -> int:
        """Return how many trials can be evaluated in one pass: 1 where nothing stacks."""

    @classmethod
    def prepare_worker(cls) -> None:
        """Set up a worker process: called before anything heavy."""


class TrainingTrainable(PackTrainable):
    """Trains what it evaluates, so that a defense's training can cost more than an undefended one.

    A pack that ``asks`` for a ``cost`` has one setting, and the ``undefended`` cell as JSON: its one outcome is
    ``{"cost": ...}``, or ``{"reason": ...}`` where it cannot be measured.
    """

    def _answers(self) -> list[Any]:
        return [self._cost()] if self._pack.get("asks") == "cost" else super()._answers()

    def _cost(self) -> dict[str, Any]:
        cell, undefended = (Cell.model_validate_json(self._pack[name]) for name in ("cell", "undefended"))
        (params,) = self._pack["params"]
        try:
            return {"cost": self.cost(cell, params, undefended, self._pack["options"])}
        except Exception as error:  # whatever a training may meet: the search goes on without the cost
            return {"reason": (str(error).strip() or type(error).__name__).splitlines()[0]}

    @classmethod
    @abstractmethod
    def cost(cls, cell: Cell, params: Mapping[str, Any], undefended: Cell, options: Mapping[str, Any]) -> float:
        """Return how many times the CPU of an undefended training one takes under a setting of the cell's defense."""


def _sendable(error: Exception) -> Exception:
    """Return an error as another process can read it: itself, or its message."""
    try:
        return copy.copy(error)  # made anew from its arguments, as it is there
    except Exception:
        return TuneVflError(str(error))


@contextmanager
def ended_after(seconds: float | None) -> Iterator[None]:
    """End this process where a block takes longer, also while compiled code holds Python's lock and hears no alarm."""
    if seconds is None:
        yield
        return
    faulthandler.dump_traceback_later(seconds, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
