"""A working folder that other accounts write, with modules and programs in it that leave a mark when they are run."""

from pathlib import Path

SPEC = """
study: theirs
dataset: breast_cancer
defense: laplace
attacks: [norm]
budget: {trials: 1, seeds: 1}
training: {epochs: 1}
"""
MODULES = ("numpy", "trainables", "tune_vfl", "mlflow", "torch", "sitecustomize", "reports")
PROGRAMS = ("c++", "ps")


def plant(folder: Path, mark: Path) -> None:
    """Write the modules and programs; each adds its name to the file ``mark``."""
    for name in MODULES:
        (folder / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write({name!r})\nraise SystemExit({name!r})\n")
    for name in PROGRAMS:
        (folder / name).write_text(f"#!/bin/sh\necho {name} >> {mark}\n")
        (folder / name).chmod(0o755)
