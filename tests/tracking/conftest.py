"""What the tests of tracking share."""

from __future__ import annotations

import pytest

from tune_vfl.tracking import store


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory):
    """A database with MLflow's schema, made once: making it takes seconds."""
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    store.client(f"sqlite:///{path}")
    return path
