"""A copy of the source that is installed from: building in the clone leaves folders there."""

import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("tune_vfl", "trainables", "reports", "search_spaces")


def copied_to(folder: Path) -> Path:
    """Copy what a wheel is built from into a new folder and return it."""
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder
