"""The CPUs and the device of a process, and the settings of one that trains: one thread, and freed memory kept."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from contextlib import suppress

from tune_vfl.errors import SpecError

SHORT_BYTES, BUSY = 2**30, 4
"""Free memory, and processes a CPU, with which Ray may fail to start in its time."""
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3


def usable_cpus() -> int:
    """Return how many CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usable_gpus() -> int:
    """Return how many GPUs torch sees."""
    import torch

    return torch.cuda.device_count()


def peak_memory() -> int:
    """Return the most bytes that this process has had in memory so far."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def return_memory() -> None:
    """Return to the system what was freed and the allocator keeps: tens of MiB after a page of many trials (glibc)."""
    with suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)


def strain() -> str:
    """Return what this machine lacks at the moment, in words for the end of a message; nothing where it is not seen."""
    import psutil

    free, load, cpus = psutil.virtual_memory().available, os.getloadavg()[0], usable_cpus()
    memory = f" {free / 2**20:.0f} MiB of memory are free here." if free < SHORT_BYTES else ""
    return memory + (f" {load:.0f} processes want the {cpus} CPUs of this machine." if load > BUSY * cpus else "")


def prepare_process() -> None:
    """Set this process up for training small networks: one thread, and an allocator that keeps freed memory.

    Two processes of one thread each train more than one process of two. And a training step frees and allocates the
    same few hundred kilobytes again and again. By default glibc returns such blocks to the system, and the next step
    pays a page fault for every 4 KiB: a quarter of the time of a pack of 16 small networks.
    """
    import torch

    torch.set_num_threads(1)
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # not glibc
        return
    mallopt(M_MMAP_THRESHOLD, 32 * 2**20)
    mallopt(M_TRIM_THRESHOLD, 2**30)
    mallopt(M_TOP_PAD, 64 * 2**20)


def device_for(gpu: float) -> str:
    """Return the device that networks are trained on: a GPU where one was asked for, else the CPU, also beside a GPU.

    Args:
        gpu: a spec's ``resources.gpu``; in a worker, how many GPUs Ray has given to it.

    Raises:
        SpecError: when a GPU is asked for and torch sees none.
    """
    import torch

    if gpu and not torch.cuda.is_available():
        raise SpecError("resources.gpu: asks for a GPU, torch sees none here; set it to 0 or use a CUDA build")
    return "cuda" if gpu else "cpu"
