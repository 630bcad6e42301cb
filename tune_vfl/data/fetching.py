"""Download what torchvision and scikit-learn offer, when asked to and never otherwise."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from tune_vfl.errors import DataError
from tune_vfl.machine.vision import import_torchvision

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def by_torchvision(kind: Literal["MNIST", "CIFAR10", "CIFAR100"], root: Path, folder: str) -> Path:
    """Download one of torchvision's data sets, which holds each archive against its MD5; return its folder.

    Raises:
        DataError: when the download fails.
    """
    import_torchvision()
    from torchvision import datasets

    root.mkdir(parents=True, exist_ok=True)
    with telling(f"torchvision.datasets.{kind}", root / folder):
        getattr(datasets, kind)(str(root), download=True)
    return root / folder


@contextmanager
def telling(source: str, place: Path) -> Iterator[None]:
    """Turn what goes wrong with a download into an error that says what was wanted where.

    Raises:
        DataError: when the network, the source or the disk does not do its part.
    """
    try:
        yield
    except (OSError, RuntimeError, EOFError) as error:
        told = " ".join(str(error).split())[:300]
        raise DataError(
            f"{place}: {source} could not fetch it ({type(error).__name__}: {told}); try again, or put the files there "
            "yourself, as docs/datasets.md says"
        ) from error
