"""The checks of ``tune-vfl doctor``: interpreter, packages, machine, disk, data, ledger, MLflow and Ray cluster."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
from functools import cache
from typing import TYPE_CHECKING

from tune_vfl.errors import TuneVflError, UnreachableError
from tune_vfl.machine import children
from tune_vfl.machine.runtime import usable_cpus
from tune_vfl.service.checks import Health
from tune_vfl.service.ledger_health import examine_ledger
from tune_vfl.service.open_doors import examine_doors

if TYPE_CHECKING:
    from collections.abc import Callable

GIB = 1024**3
LEAST_MEMORY, LEAST_DISK = 3 * GIB, 2 * GIB
PACKAGES = ("torch", "torchvision", "ray", "optuna", "mlflow", "transformers")


def examine(storage: str | None = None) -> list[Health]:
    """Run every check; a check that raises is itself a finding.

    Args:
        storage: the ledger's database; None is the one that the environment names.
    """

    def ledger() -> Health:
        return examine_ledger(storage)

    checks: list[Callable[[], Health | list[Health]]] = [
        python,
        packages,
        torchvision,
        machine,
        disk,
        machine_code,
        data,
        ledger,
        tracking,
        cluster,
        examine_doors,
    ]
    found: list[Health] = []
    for check in checks:
        try:
            answer = check()
        except Exception as error:  # one broken check must not hide the others
            answer = Health(
                check.__name__, "finding", f"the check failed: {type(error).__name__}: {error}", "report this"
            )
        found.extend([answer] if isinstance(answer, Health) else answer)
    return found


def exit_code(checks: list[Health]) -> int:
    """Return 4 for an unreachable service, 1 for a finding, else 0."""
    statuses = {check.status for check in checks}
    return 4 if "unreachable" in statuses else 1 if "finding" in statuses else 0


def python() -> Health:
    """Check for Python 3.11 or newer."""
    good = sys.version_info >= (3, 11)
    advice = "" if good else "install Python 3.11 or newer and make a new virtual environment"
    return Health("python", "ok" if good else "finding", f"{platform.python_version()} at {sys.executable}", advice)


def packages() -> Health:
    """Check installed versions against this package's requirements."""
    from packaging.requirements import Requirement

    wrong = []
    for line in importlib.metadata.requires("tune-vfl") or ():
        need = Requirement(line)
        if need.marker is not None and not need.marker.evaluate({"extra": "search"}):
            continue
        installed = _version(need.name)
        if installed is None or not need.specifier.contains(installed, prereleases=True):
            wrong.append(f"{need.name} {installed or 'missing'} (needs {need.specifier or 'any'})")
    versions = ", ".join(f"{name} {_version(name) or 'missing'}" for name in PACKAGES)
    if wrong:
        return Health("packages", "finding", "; ".join(wrong), "python -m pip install -e '.[search]'")
    return Health("packages", "ok", versions)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


@cache
def torchvision() -> Health:
    """Check torch and torchvision for the same device: a CUDA torchvision beside a CPU torch cannot be imported.

    The result is cached in the process: a child process imports both, which takes seconds.
    """
    code = (
        "from tune_vfl.machine.vision import import_torchvision, is_mended; import torch; tv = import_torchvision(); "
        "print(torch.__version__, tv.__version__, torch.cuda.is_available(), is_mended())"
    )
    failed, said, complaint = children.run([sys.executable, "-c", code], 120, {"OMP_NUM_THREADS": "1"})
    if not failed:
        torch_version, vision_version, cuda, mended = said.split()[-4:]
        how = "with missing operators declared (another build)" if mended == "True" else "as it is"
        return Health("torchvision", "ok", f"{vision_version} beside torch {torch_version} imports {how}; CUDA: {cuda}")
    reason = (complaint.strip().splitlines() or ["no message"])[-1]
    advice = (
        "install torch and torchvision from one index: python -m pip install --force-reinstall torch torchvision "
        "--index-url https://download.pytorch.org/whl/cpu"
    )
    return Health("torchvision", "finding", f"cannot be imported: {reason}", advice)


def machine() -> Health:
    """Report cores and free memory."""
    import psutil

    memory = psutil.virtual_memory()
    detail = f"{usable_cpus()} cores, {memory.available / GIB:.1f} of {memory.total / GIB:.1f} GiB memory free"
    if memory.available < LEAST_MEMORY:
        return Health("machine", "finding", detail, "a 2-worker search takes up to 3 GiB: set resources.concurrency=1")
    return Health("machine", "ok", detail)


def machine_code() -> Health:
    """Check the training's compiled routines: built on this machine, or why not."""
    from tune_vfl.kernels import build, compiled

    if not compiled.wanted():
        return Health("machine code", "ok", "not used: TUNE_VFL_NATIVE=0")
    try:
        compiled.load()
    except build.NotBuiltError as error:
        advice = "install a C++ compiler (g++); TUNE_VFL_NATIVE=0 where torch alone is meant"
        return Health("machine code", "finding", f"torch alone trains, up to twice as slow: {error}", advice)
    return Health("machine code", "ok", f"compiled into {build.folder()}")


def disk() -> Health:
    """Check that ``TUNE_VFL_HOME`` is writable and has free space."""
    from tune_vfl.machine.places import home
    from tune_vfl.machine.presence import listed

    folder, elsewhere = home(), "set TUNE_VFL_HOME to a folder that can be written"
    try:
        listed(folder)
    except UnreachableError as error:
        return Health("home", "finding", str(error), elsewhere)
    standing = next(p for p in (folder, *folder.parents) if p.exists())
    free = shutil.disk_usage(standing).free
    detail = f"{folder}{'' if folder.exists() else ' (not made yet)'}, {free / GIB:.1f} GiB free"
    if not standing.is_dir() or not os.access(standing, os.W_OK):
        return Health("home", "finding", f"{detail}, cannot be written", elsewhere)
    if free < LEAST_DISK:
        return Health("home", "finding", detail, "make room, or set TUNE_VFL_HOME to a larger disk")
    return Health("home", "ok", detail)


def data() -> Health:
    """Check which data sets can be loaded; files are searched under the data root."""
    from tune_vfl.machine.places import data_root

    root = data_root()
    folders = sorted(p.name for p in root.iterdir() if p.is_dir()) if root.is_dir() else []
    found = f"{root}: {', '.join(folders) or 'nothing there'}; digits, breast_cancer and wine need no files"
    return Health(
        "data", "ok", found, "" if folders else "set TUNE_VFL_DATA to a folder of data files, for the other data sets"
    )


def tracking() -> Health:
    """Check that the tracking store answers, without creating an embedded one."""
    from tune_vfl.machine.passwords import hide_password
    from tune_vfl.machine.places import embedded_uri, resolve_uri
    from tune_vfl.tracking.store import client, is_begun, is_damaged

    uri = resolve_uri(None)
    try:
        if uri == embedded_uri() and not is_begun(uri):
            return Health("mlflow", "ok", f"{uri}: not made yet; the first search makes it")
        if uri == embedded_uri() and is_damaged(uri):
            return Health("mlflow", "finding", f"{uri}: is damaged", "tune-vfl doctor --repair builds it anew")
        experiments = len(client(uri).search_experiments(max_results=1000))
    except UnreachableError as error:
        return Health("mlflow", "unreachable", str(error), "do what the message says")
    except TuneVflError as error:
        return Health("mlflow", "finding", str(error), "tune-vfl doctor --repair rebuilds it from the ledger")
    return Health("mlflow", "ok", f"{hide_password(uri)}: {experiments} experiments")


def cluster() -> Health | list[Health]:
    """Check that the cluster at ``RAY_ADDRESS`` answers and requires a token."""
    from tune_vfl.service.ray_cluster import examine_cluster

    address = os.environ.get("RAY_ADDRESS") or os.environ.get("RAY_API_SERVER_ADDRESS")
    if not address or address == "local":
        return Health("cluster", "ok", "none named (RAY_ADDRESS is not set): searches start a Ray of their own")
    return examine_cluster(address)
