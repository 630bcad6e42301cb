"""A study: ask, run, record, resume.

``tune_vfl.search`` is this package and, as ``from tune_vfl import search`` promises, also the function that runs a
search: calling the package calls what the door ``tune_vfl`` has under that name. Nothing heavy is imported before it is
used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tune_vfl.records.plans import PlannedStudy
    from tune_vfl.search.api import resume, search
    from tune_vfl.search.planning import planned

__all__ = ["PlannedStudy", "planned", "resume", "search"]

_HOME = {
    "search": "tune_vfl.search.api",
    "resume": "tune_vfl.search.api",
    "planned": "tune_vfl.search.planning",
    "PlannedStudy": "tune_vfl.records.plans",
}


class _Callable(ModuleType):
    """This package, which can be called."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run a search: :func:`tune_vfl.service.notebook.search`, which gives its study the verbs of a notebook."""
        import tune_vfl

        # As soon as this package is imported it is itself what the door has under its name, so the door is asked.
        return tune_vfl.__getattr__("search")(*args, **kwargs)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


sys.modules[__name__].__class__ = _Callable
