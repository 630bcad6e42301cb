"""Download data sets that torchvision and scikit-learn offer; only when a user asks for it (``data fetch``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from tune_vfl.errors import DataError
from tune_vfl.machine.vision import import_torchvision


def by_torchvision(kind: Literal["MNIST", "CIFAR10", "CIFAR100"], root: Path, folder: str) -> Path:
    """Download one of torchvision's data sets and return its folder; torchvision checks the MD5 of each archive.

    Raises:
        DataError: when the download fails.
    """
    import_torchvision()
    from torchvision import datasets

    root.mkdir(parents=True, exist_ok=True)
    with download_errors(f"torchvision.datasets.{kind}", root / folder):
        getattr(datasets, kind)(str(root), download=True)
    return root / folder


@contextmanager
def download_errors(source: str, place: Path) -> Iterator[None]:
    """Turn a failure of a download into an error that says which file was to be put where.

    Raises:
        DataError: when the network, the source or the disk fails.
    """
    try:
        yield
    except (OSError, RuntimeError, EOFError) as error:
        reason = " ".join(str(error).split())[:300]
        raise DataError(
            f"{place}: {source} could not fetch it ({type(error).__name__}: {reason}); try again, or put the files "
            "there yourself, as docs/datasets.md says"
        ) from error
