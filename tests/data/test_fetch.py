"""``data fetch``: what is asked of torchvision and scikit-learn, and where it ends up. Nothing is downloaded here."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.data.test_mnist import tiny
from tune_vfl.cli.main import main
from tune_vfl.data import load
from tune_vfl.data.base import DATASETS
from tune_vfl.machine.vision import import_torchvision
from tune_vfl.spec import Named

FETCHED = {"mnist": "MNIST/raw", "cifar10": "cifar-10-batches-py", "cifar100": "cifar-100-python"}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TUNE_VFL_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.mark.parametrize("name", FETCHED)
def test_torchvision_is_asked_for_it(
    name: str, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import_torchvision()
    asked: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(
        f"torchvision.datasets.{name.upper()}", lambda at, **options: asked.append((at, options)) or tiny(Path(at))
    )
    assert main(["data", "fetch", name]) == 0
    assert asked == [(str(root), {"download": True})]
    assert capsys.readouterr().out.strip() == str(root / FETCHED[name])
    if name == "mnist":
        assert len(load(Named(name="mnist")).y) == 60


def test_scikit_learns_covertype_is_written_as_uci_does(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    bunch = SimpleNamespace(data=rng.integers(-50, 3000, (40, 54)).astype(float), target=np.arange(40) % 7 + 1)
    monkeypatch.setattr("sklearn.datasets.fetch_covtype", lambda **_: bunch)
    assert main(["data", "fetch", "covtype"]) == 0
    data = load(Named(name="covtype"))
    assert data.active is not None
    whole = np.concatenate([data.passive[0].x.numpy(), data.active.x.numpy()], 1)
    np.testing.assert_array_equal(whole, bunch.data)
    assert data.y.tolist() == (bunch.target - 1).tolist()
    assert [p.name for p in (root / "covtype").iterdir()] == ["covtype.data.gz"]


@pytest.mark.parametrize("name", ["mnist", "covtype"])
def test_a_download_that_fails_says_what_and_where(
    name: str, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import_torchvision()

    def fails(*_: object, **__: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr("torchvision.datasets.MNIST", fails)
    monkeypatch.setattr("sklearn.datasets.fetch_covtype", fails)
    assert main(["data", "fetch", name]) == 2
    told = capsys.readouterr().err
    for word in (str(root), "no route to host", "docs/datasets.md"):
        assert word in told
    assert not [p for p in root.rglob("*") if p.is_file()]


def test_what_nobody_offers_is_said_with_its_source(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("bhi", "criteo", "csv"):
        assert main(["data", "fetch", name]) == 2
        told = capsys.readouterr().err
        assert name in told
        assert "neither torchvision nor scikit-learn" in told
        assert "docs/datasets.md" in told
    assert main(["data", "fetch", "minst"]) == 2
    assert "mnist" in capsys.readouterr().err
    assert not root.exists()


def test_nothing_is_fetched_unasked() -> None:
    offered = {name for name in DATASETS.names() if "fetch" in vars(DATASETS[name])}
    assert offered == {*FETCHED, "covtype"}, "a loader with a `fetch` of its own is tested above, and listed in FETCHED"
