"""What a process may use, and how one that trains is set up: one thread, and an allocator that keeps what it has."""

from __future__ import annotations

import ctypes
import os

from tune_vfl.errors import SpecError

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3


def usable_cpus() -> int:
    """Return how many CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def prepare_process() -> None:
    """Make this process a good place to train small networks in.

    Two processes of one thread each do more than one of two. A training step frees and asks for the same few hundred
    kilobytes again and again; glibc by default hands such blocks back to the system, which costs a page fault for every
    4 KiB at the next step: a quarter of the time of a pack of 16 small networks.
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
    """Return the device for a spec's ``resources.gpu``.

    Raises:
        SpecError: when a GPU is asked for and torch sees none.
    """
    import torch

    if gpu and not torch.cuda.is_available():
        raise SpecError(
            f"resources.gpu: asks for {gpu:g} of a GPU, torch sees none here; set it to 0 or use a CUDA build"
        )
    return "cuda" if gpu else "cpu"
