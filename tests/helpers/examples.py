"""The programs under examples/, as modules."""

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).parents[2] / "examples"


@cache
def example(name: str) -> ModuleType:
    """Import a program, which is in no package."""
    found = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module
