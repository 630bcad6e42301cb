"""Ray, started quietly where none is, and Tune, told to leave everything to the ledger."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import warnings
from contextlib import ExitStack, contextmanager, redirect_stdout
from importlib import import_module
from typing import TYPE_CHECKING

from tune_vfl.errors import UnreachableError
from tune_vfl.machine.runtime import keeping_everything, usable_cpus
from tune_vfl.machine.secrets import make_token_private
from tune_vfl.machine.signals import handlers_kept
from tune_vfl.search.forking import ONE_THREAD, ForkServer, can_fork, may_be_forked, named
from tune_vfl.search.lean_ray import lean, workers_environment
from tune_vfl.search.room import Room
from tune_vfl.search.work import IMPORTS, REAL, SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trainables.base import PackTrainable
    from tune_vfl.ledger.lease import Lease
    from tune_vfl.spec import Resources

# The settings under which class trainables were measured at 12 ms a trial: no loggers of Tune's own, no second output
# engine, no snapshots of an experiment that is never restored; Ctrl-C is ours.
_QUIET = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000000",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    # How many packs may wait for room is ours to say: an autoscaler starts nodes for those that wait.
    "TUNE_MAX_PENDING_TRIALS_PG": "10000",
}
_OBJECT_STORE_BYTES = 100 * 2**20
# The one of the Ray that runs in this process, if any; and one that waits for a Ray to be started here.
_FORK_SERVERS: list[ForkServer] = []
_WAITING: list[ForkServer] = []
_BEGUN: list[_Begun] = []
STARTS = 2

# What `ray.init` does not offer. Workers run as this process does: at Ray's own niceness of 15 other work
# on the machine lets a search stand still. None are started before anybody asks for them. Events of tasks are not
# collected: nobody reads them, and a driver waits a quarter of a second for the last at its end. A worker without a
# GPU of its own is shown none: CUDA would take memory on each that it sees. And workers inherit what Tune gives each.
_SETTINGS = {
    "RAY_worker_niceness": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_task_events_report_interval_ms": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",
    "PL_DISABLE_FORK": "1",
}


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the block and put them back after it."""
    before = {k: os.environ.get(k) for k in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


@contextmanager
def quiet_tune() -> Iterator[None]:
    """Set Tune's environment and loggers for the block and put them back after it.

    What Ray prints by itself (a worker that died) goes to stderr: stdout is for answers.
    """
    levels = {name: logging.getLogger(name).level for name in ("ray", "ray.tune", "ray.train", "ray._private")}
    for name in levels:
        # Tune prints a page of its own frames for every worker that dies; the ledger and the progress say it in a line.
        logging.getLogger(name).setLevel(logging.CRITICAL if name == "ray.tune" else logging.ERROR)
    try:
        with _environment(_QUIET), redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def expect() -> None:
    """Have what workers need imported from now on, beside what this process does before it connects.

    Three seconds of a core, half of which are for what this process needs too: where it can be forked, that is imported
    here, once for both. Nothing is done where Ray runs in this process, or ``RAY_ADDRESS`` names one.
    """
    ray = sys.modules.get("ray")
    runs = ray is not None and ray.is_initialized()
    if not runs and not os.environ.get("RAY_ADDRESS") and can_fork() and not _WAITING:
        if may_be_forked():
            with keeping_everything(), _environment(ONE_THREAD):  # a library that starts threads could not be forked
                for module in SHARED:
                    import_module(module)
        _WAITING.append(ForkServer(IMPORTS))


def begin(trainable: str) -> None:
    """Begin to :func:`connect`, which is mostly waiting, beside what this process does until then.

    Args:
        trainable: as :func:`tune_vfl.search.forking.named` names it.
    """
    import ray

    if not ray.is_initialized() and not _BEGUN:
        _BEGUN.append(_Begun(trainable))


def connect(trainable: type[PackTrainable] | None = None) -> None:
    """Connect to the cluster of ``RAY_ADDRESS``, or start Ray on this machine; a Ray that runs in this process is used.

    Args:
        trainable: what the workers of a Ray that is started here are to run: they have its imports done.

    Raises:
        UnreachableError: when ``RAY_ADDRESS`` does not answer, or Ray does not start.
    """
    while _BEGUN:
        _BEGUN.pop().wait()
    _connect(named(trainable))


class _Begun:
    """A :func:`connect` in a thread.

    Args:
        trainable: as :func:`tune_vfl.search.forking.named` names it.
    """

    def __init__(self, trainable: str) -> None:
        self._trainable, self._over = trainable, threading.Event()
        self._failure: BaseException | None = None
        threading.Thread(target=self._go, name="tune-vfl-ray", daemon=True).start()
        atexit.register(self._over.wait)  # before Ray's own way out, which must not meet a Ray that still starts

    def _go(self) -> None:
        try:
            _connect(self._trainable)
        except BaseException as error:
            self._failure = error
            return
        finally:
            self._over.set()
        # Linux ends Ray's processes with the thread that has started them, not only with this process.
        threading.Event().wait()

    def wait(self) -> None:
        """Wait until it is over, and raise what it met."""
        self._over.wait()
        if self._failure is not None:
            raise self._failure


def _connect(trainable: str) -> None:
    import ray

    if not ray.is_initialized():
        address = os.environ.get("RAY_ADDRESS")
        with handlers_kept():  # Ray lets SIGTERM end the process without a word
            _join(address) if address else _start_patiently(trainable)
        # Ray's own way out, which finds nothing left to do then, first waits for messages that nobody sends.
        atexit.register(ray.shutdown)


def room_for(resources: Resources, lease: Lease) -> Room:
    """Return the room of the packs of a study on the Ray that this process is connected to."""
    return Room(resources, lease, nodes=_nodes, grows=grows())


def _nodes() -> list[Mapping[str, float]]:
    """Return what each node that is up has, by Ray's names (``CPU``, ``GPU``)."""
    import ray

    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def _join(address: str) -> None:
    import ray

    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:
        raise UnreachableError(
            f"the cluster at RAY_ADDRESS={address} cannot be reached: {error}; run 'tune-vfl doctor'"
        ) from error


def _start_patiently(trainable: str) -> None:
    """Start Ray here. It gives its own processes half a minute; on a machine that is busy a second try finds them warm.

    What it raises then is a plain ``Exception``, so that every one is taken for a start that failed.
    """
    import ray

    for attempt in range(1, STARTS + 1):
        try:
            _start_here(trainable)
            return
        except Exception as error:
            ray.shutdown()
            if attempt == STARTS:
                raise UnreachableError(
                    f"Ray did not start on this machine, {STARTS} times: {error} Is the machine short of memory, or "
                    "busy with other work? Run 'tune-vfl doctor' and try again; nothing was lost"
                ) from error
            sys.stderr.write("tune-vfl: Ray did not start in its time; trying once more\n")


def _start_here(trainable: str) -> None:
    import ray

    make_token_private()
    settings = {**ONE_THREAD, **{name: value for name, value in _SETTINGS.items() if name not in os.environ}}
    while _FORK_SERVERS:  # of a Ray of this process that is gone
        _FORK_SERVERS.pop().close()
    with _environment(settings), ExitStack() as told:
        if can_fork():
            server = _WAITING.pop() if _WAITING else ForkServer(IMPORTS if trainable == REAL else ())
            _FORK_SERVERS.append(server)
            told.enter_context(_environment(server.environment(trainable)))
            told.enter_context(lean(worker_path=server.worker_path))
        else:
            told.enter_context(lean())
        ray.init(
            address="local",  # a new one, also where `ray start` has left a cluster on this machine
            num_cpus=usable_cpus(),
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=_OBJECT_STORE_BYTES,
        )
    if (expected := workers_environment()) and _FORK_SERVERS:
        _FORK_SERVERS[-1].prepare(expected)


def grows() -> bool:
    """Return whether the cluster is somebody else's, which may add machines when work waits."""
    return bool(os.environ.get("RAY_ADDRESS"))
