"""Shared by the tests of nets for images."""

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def images(tmp_path: Path) -> dict[str, object]:
    """Two classes of noisy 8x8 images, each bright in its upper or lower part."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 2
    x = rng.integers(0, 90, (90, 8, 8), dtype=np.uint8)
    x[y == 1, :4] += 120
    np.savez(tmp_path / "images.npz", x=x, y=y)
    return {"name": "npz", "path": str(tmp_path / "images.npz")}
