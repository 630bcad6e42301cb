"""What the files of this folder share: an MLflow server, and a door before it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.faults.mlflow_server import Door, Server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("mlflow"))
    yield server
    server.remove()


@pytest.fixture
def door(server: Server) -> Iterator[Door]:
    door = Door(server.port)
    yield door
    door.remove()


@pytest.fixture(autouse=True)
def own_servers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A study file may name the servers of this folder: their user says that they are hers."""
    asked = {"server", "door"}.intersection(request.fixturenames)
    uris = {name: request.getfixturevalue(name) for name in asked}
    hosts = [f"127.0.0.1:{uris['server'].port}"] if "server" in uris else []
    hosts += [uris["door"].uri.removeprefix("http://")] if "door" in uris else []
    monkeypatch.setenv("TUNE_VFL_HOSTS", ",".join(hosts))


@pytest.fixture
def wiped(server: Server) -> Iterator[None]:
    """The experiment of an earlier test is set aside: each begins with a name that the server does not know."""
    yield
    client = server.client()
    found = client.get_experiment_by_name("study")
    if found is not None:
        client.rename_experiment(found.experiment_id, f"study-{time.time_ns()}")
        client.delete_experiment(found.experiment_id)
