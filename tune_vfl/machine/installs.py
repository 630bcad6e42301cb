"""Two installs of one package: what a training loop needs, and with ``[search]`` all that searches and reports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tune_vfl.errors import UsageError

OF_SEARCH = {
    "flask_wtf": "flask-wtf",
    "jinja2": "jinja2",
    "matplotlib": "matplotlib",
    "mlflow": "mlflow",
    "moocore": "moocore",
    "optuna": "optuna",
    "plotly": "plotly",
    "psutil": "psutil",
    "pyarrow": "pyarrow",
    "ray": "ray",
    "rich": "rich",
    "safetensors": "safetensors",
    "sklearn": "scikit-learn",
    "sqlalchemy": "sqlalchemy",
    "torchvision": "torchvision",
    "transformers": "transformers",
    "typer": "typer",
}
"""Distributions of the install for searches alone, by the name that is imported."""


@contextmanager
def naming_the_install() -> Iterator[None]:
    """Turn the error of a missing library into the line that installs it; also a decorator.

    Raises:
        UsageError: where a library of the install for searches is imported and is not there.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        library = OF_SEARCH.get((missing.name or "").partition(".")[0])
        if library is None:
            raise
        reason = f"{library} is not installed: it comes with python -m pip install 'tune-vfl[search]'"
        raise UsageError(f"{reason} (in a clone: -e '.[search]')") from missing
