"""The Ray session of a driver: connect to a cluster or start Ray here, with quiet settings for Tune."""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import tempfile
import threading
import warnings
from concurrent.futures import Future
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_vfl.errors import UnreachableError, UsageError
from tune_vfl.execution.capacity import Capacity, no_room, packs_that_fit, startable
from tune_vfl.machine.children import safe_imports
from tune_vfl.machine.environment import environment
from tune_vfl.machine.network import require_loopback, require_ray_head
from tune_vfl.machine.places import data_root, home, user_home
from tune_vfl.machine.ray_folder import PREFIX, RayFolder
from tune_vfl.machine.runtime import strain, usable_cpus, usable_gpus
from tune_vfl.machine.secrets import make_token_private
from tune_vfl.machine.signals import SIGNALS
from tune_vfl.machine.streams import tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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
    # How many packs may wait for room is ours to say: an autoscaler starts nodes for those that wait.
    "TUNE_MAX_PENDING_TRIALS_PG": "10000",
}
_OBJECT_STORE_BYTES = 100 * 2**20
_OF_A_SEARCH = "of_one_search"  # a resource by which other searches know a Ray that ends with the one that started it
STARTS = 2
# Two workers of one thread each train more than one worker of two. Workers inherit this.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@contextmanager
def quiet_tune() -> Iterator[None]:
    """Set Tune's environment and loggers for the block and put them back after it.

    Ray's own messages, such as on a dead worker, go to stderr: stdout is for answers.

    Raises:
        UsageError: when Python removes docstrings, without which Tune cannot be imported.
    """
    if sys.flags.optimize > 1:
        raise UsageError(
            "Python runs without docstrings (PYTHONOPTIMIZE=2, or -OO), and Ray cannot be imported without them: unset "
            "PYTHONOPTIMIZE, or set it to 1"
        )
    levels = {name: logging.getLogger(name).level for name in ("ray", "ray.tune", "ray.train")}
    for name in levels:
        # Tune prints a page of its own frames for every worker that dies; the ledger and the progress say it in a line.
        logging.getLogger(name).setLevel(logging.CRITICAL if name == "ray.tune" else logging.ERROR)
    try:
        with environment({**_QUIET, "HOME": str(user_home())}), redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def connect() -> None:
    """Connect to the cluster of ``RAY_ADDRESS``, or start Ray on this machine; a Ray that runs in this process is used.

    Raises:
        UnreachableError: when ``RAY_ADDRESS`` does not answer, or Ray does not start.
    """
    import ray

    if ray.is_initialized():
        return
    with _handlers_kept():
        _join(os.environ["RAY_ADDRESS"]) if grows() else _start_patiently()


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Put back the handlers of signals after a block in which Ray sets one of its own for SIGTERM.

    That one raises SystemExit with the number of the signal, which is then sent again to the handler of this process.
    """
    before = {number: signal.getsignal(number) for number in SIGNALS}
    main = threading.current_thread() is threading.main_thread()
    sent = None
    try:
        yield
    except SystemExit as end:
        if end.code not in SIGNALS or not main:
            raise
        sent = end.code
    finally:
        for number, handler in before.items() if main else ():
            signal.signal(number, handler)
    if sent is not None:
        signal.raise_signal(int(sent))


def capacity_for(resources: Resources, lease: Lease) -> Capacity:
    """Return the capacity for a study's packs on the Ray of this process."""
    return Capacity(resources, lease, nodes=_nodes, grows=grows())


def require_room(resources: Resources) -> None:
    """Refuse packs that a search from here could never run, without starting Ray or asking it.

    Of a cluster only what its autoscaler may start is known, and that on its head alone.

    Raises:
        SpecError: when no pack fits on this machine, or on any that the autoscaler may start.
    """
    if grows():
        if startable(resources) == 0:
            raise no_room(resources, (), grows=True)
        return
    here = {"CPU": float(usable_cpus()), "GPU": float(usable_gpus())}
    if not packs_that_fit(resources, here):
        raise no_room(resources, [here], grows=False)


def _nodes() -> list[Mapping[str, float]]:
    """Return the resources of each node that is up, by Ray's names (``CPU``, ``GPU``)."""
    import ray

    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def _join(address: str) -> None:
    import ray

    require_ray_head(address)
    try:
        with _imports_of_the_installation() as how:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **how)
    except Exception as error:
        raise UnreachableError(
            f"the cluster at RAY_ADDRESS={address} cannot be reached: {error}; run 'tune-vfl doctor'"
        ) from error
    if address == "auto" and any(_OF_A_SEARCH in node for node in _nodes()):
        ray.shutdown()
        raise UnreachableError(
            "RAY_ADDRESS=auto leads to the Ray of another search on this machine, which ends with that search: unset "
            "RAY_ADDRESS to search beside it, or set it to HOST:PORT of the head of a cluster"
        )


def _start_patiently() -> None:
    """Start Ray here, with a second try: Ray gives its processes half a minute, which a busy machine may exceed.

    Ray raises a plain ``Exception`` then, so every exception counts as a failed start.
    """
    import ray

    require_loopback()
    for attempt in range(1, STARTS + 1):
        try:
            _in_a_lasting_thread(_start_here)
            return
        except UnreachableError:
            raise
        except Exception as error:
            ray.shutdown()
            if attempt == STARTS:
                raise UnreachableError(
                    f"Ray did not start on this machine, {STARTS} times: {error}{strain()} Run 'tune-vfl doctor' and "
                    "try again; nothing was lost"
                ) from error
            tell("tune-vfl: Ray did not start in its time; trying once more")


def _in_a_lasting_thread(start: Callable[[], None]) -> None:
    """Call a function in a thread that lasts as long as this process: what Ray starts on Linux ends with its thread."""
    if threading.current_thread() is threading.main_thread():
        start()
        return
    started: Future[None] = Future()

    def last() -> None:
        try:
            start()
        except BaseException as error:  # for the thread that waits
            started.set_exception(error)
            return
        started.set_result(None)
        threading.Event().wait()

    threading.Thread(target=last, name="ray", daemon=True).start()
    started.result()


def _start_here() -> None:
    import ray

    make_token_private()
    folder = RayFolder()
    atexit.register(_end, folder)
    # Warnings that were made errors keep Ray's own processes from starting.
    with environment({**_ONE_THREAD, "PYTHONWARNINGS": None}), _imports_of_the_installation() as how:
        ray.init(
            address="local",  # a new one, also where `ray start` has left a cluster on this machine
            num_cpus=usable_cpus(),
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=_OBJECT_STORE_BYTES,
            resources={_OF_A_SEARCH: 1},
            _temp_dir=str(folder.path),
            **how,
        )


@contextmanager
def _imports_of_the_installation() -> Iterator[dict[str, Any]]:
    """Yield arguments for ``ray.init`` by which no worker imports from the driver's working folder.

    Ray puts that folder first on the path of every worker, on all machines, unless a job has a working folder of its
    own. It may be one that other accounts write: workers get an empty one, in Ray's own folder.
    """
    places = {"TUNE_VFL_HOME": str(home()), "TUNE_VFL_DATA": str(data_root().absolute())}
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        Path(folder, "README").write_text("Workers of tune-vfl start here: an empty folder of their own.\n")
        # A job that was submitted with a folder keeps it for its driver alone.
        with environment({**safe_imports(), **places, "RAY_OVERRIDE_JOB_RUNTIME_ENV": "1"}):
            yield {"runtime_env": {"working_dir": folder}}


def _end(folder: RayFolder) -> None:
    import ray

    ray.shutdown()
    folder.remove()


def grows() -> bool:
    """Return whether Ray is a cluster's, which may add machines when work waits."""
    return os.environ.get("RAY_ADDRESS", "") not in ("", "local")
