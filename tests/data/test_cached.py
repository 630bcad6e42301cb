"""Prepared data: what comes back is what was kept, and nothing that is stale, broken or another's is used."""

import dataclasses
import math
import subprocess
import sys
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from tests.data.test_mnist import RAW, idx, put, tiny
from tune_vfl.data import cached, load, loading
from tune_vfl.data.base import DATASETS, Dataset
from tune_vfl.data.cached import folder, keep, stamp, take
from tune_vfl.data.sets.mnist import Mnist
from tune_vfl.data.split import split
from tune_vfl.spec import Named

pytestmark = pytest.mark.usefixtures("cache_home")
OWN = ("csv", "npz", "images")


@pytest.fixture
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(loading, "LEAST_SECONDS", 0)
    return tmp_path / "home"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Count how often the original files are read."""
    seen: list[str] = []
    usual = Mnist.load

    def noticing(self: Mnist, options: object, root: Path) -> Dataset:
        seen.append("read")
        return usual(self, options, root)  # type: ignore[arg-type]

    monkeypatch.setattr(Mnist, "load", noticing)
    return seen


def next_process(root: Path, monkeypatch: pytest.MonkeyPatch, **options: object) -> Dataset:
    monkeypatch.setattr(loading, "_cache", OrderedDict())
    return load(Named.model_validate({"name": "mnist", **options}), root=root)


def assert_same(a: Dataset, b: Dataset) -> None:
    for field in dataclasses.fields(Dataset):
        x, y = getattr(a, field.name), getattr(b, field.name)
        if field.name in ("passive", "active"):
            continue
        assert torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y, field.name
    parties_a, parties_b = ([*d.passive, *([d.active] if d.active else [])] for d in (a, b))
    for p, q in zip(parties_a, parties_b, strict=True):
        assert (p.party, p.names, p.sources) == (q.party, q.names, q.sources)
        assert torch.equal(p.x, q.x)
        assert (p.scaled is None) == (q.scaled is None)
        assert p.scaled is None or q.scaled is None or torch.equal(p.scaled, q.scaled)


@pytest.mark.parametrize("options", [{}, {"split": 1.0, "passive_parties": 3}, {"rows": 20, "metric": "f1"}])
def test_the_next_process_maps_what_this_one_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[str], options: dict[str, object]
) -> None:
    tiny(tmp_path)
    first = next_process(tmp_path, monkeypatch, **options)
    second = next_process(tmp_path, monkeypatch, **options)
    assert reads == ["read"]
    assert_same(first, second)
    a, b = split(first, 1), split(second, 1)
    assert torch.equal(a.passive_train[0], b.passive_train[0])


@pytest.mark.parametrize("name", ["digits", "breast_cancer", "wine"])
def test_any_data_set_comes_back_whole(name: str, tmp_path: Path) -> None:
    data = load(Named(name=name))
    file = tmp_path / "file"
    file.write_text("x")
    keep("key", data, {file: stamp(file)})
    found = take("key", name)
    assert found is not None
    assert_same(data, found[0])
    assert take("another key", name) is None


def test_other_options_other_roots_and_changed_files_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[str]
) -> None:
    tiny(tmp_path)
    tiny(tmp_path / "other")
    for root, options in ((tmp_path, {}), (tmp_path, {"split": 0.25}), (tmp_path / "other", {})):
        next_process(root, monkeypatch, **options)
    assert len(reads) == 3
    before = next_process(tmp_path, monkeypatch)
    assert len(reads) == 3
    put(tmp_path, "t10k-labels-idx1-ubyte", idx(torch.arange(1, 21).remainder(10).numpy()))
    after = next_process(tmp_path, monkeypatch)
    assert len(reads) == 4
    assert after.y[-20:].tolist() == [k % 10 for k in range(1, 21)] != before.y[-20:].tolist()


def test_a_missing_original_is_an_error_though_the_data_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny(tmp_path)
    next_process(tmp_path, monkeypatch)
    (tmp_path / RAW / "train-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(Exception, match="no such file"):
        next_process(tmp_path, monkeypatch)


def test_what_other_code_made_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[str]) -> None:
    tiny(tmp_path)
    next_process(tmp_path, monkeypatch)
    monkeypatch.setattr(cached, "code_digest", lambda: "of another version")
    next_process(tmp_path, monkeypatch)
    assert len(reads) == 2
    assert len(list(folder().iterdir())) == 1


def test_code_of_the_data_sets_and_their_readers_counts() -> None:
    from tune_vfl.data import loading, partition
    from tune_vfl.data.reading import idx
    from tune_vfl.data.sets import mnist

    assert {module.__file__ for module in (loading, partition, idx, mnist)} <= set(map(str, cached.loading_code()))


@pytest.mark.parametrize("broken", [b"", b"junk", None])
def test_a_broken_entry_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[str], broken: bytes | None
) -> None:
    tiny(tmp_path)
    first = next_process(tmp_path, monkeypatch)
    (entry,) = folder().iterdir()
    entry.write_bytes(entry.read_bytes()[:-50] if broken is None else broken)
    assert_same(first, next_process(tmp_path, monkeypatch))
    assert len(reads) == 2
    next_process(tmp_path, monkeypatch)
    assert len(reads) == 2


def test_a_place_that_cannot_be_written_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[str]
) -> None:
    tiny(tmp_path)
    (tmp_path / "home").write_text("a file where the folder should be")
    first = next_process(tmp_path, monkeypatch)
    assert_same(first, next_process(tmp_path, monkeypatch))
    assert len(reads) == 2


def test_workers_that_race_leave_one_whole_entry(tmp_path: Path) -> None:
    data, file = load(Named(name="wine")), tmp_path / "file"
    file.write_text("x")
    with ThreadPoolExecutor(8) as workers:
        list(workers.map(lambda _: keep("key", data, {file: stamp(file)}), range(24)))
    assert len(list(folder().iterdir())) == 1
    found = take("key", "wine")
    assert found is not None
    assert_same(data, found[0])


def test_writing_to_mapped_data_does_not_reach_the_file(tmp_path: Path) -> None:
    data, file = load(Named(name="wine")), tmp_path / "file"
    file.write_text("x")
    keep("key", data, {file: stamp(file)})
    found = take("key", "wine")
    assert found is not None
    found[0].passive[0].x.fill_(7)
    again = take("key", "wine")
    assert again is not None
    assert_same(data, again[0])


def test_old_entries_go(tmp_path: Path) -> None:
    data, file = load(Named(name="wine")), tmp_path / "file"
    file.write_text("x")
    for k in range(cached.MOST_ENTRIES + 3):
        keep(f"key {k}", data, {file: stamp(file)})
    assert len(list(folder().iterdir())) == cached.MOST_ENTRIES
    assert take(f"key {cached.MOST_ENTRIES + 2}", "wine") is not None


def test_data_that_are_read_at_once_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "LEAST_SECONDS", math.inf)
    monkeypatch.setattr(loading, "_cache", OrderedDict())
    load(Named(name="wine"))
    assert not folder().exists()


@pytest.mark.parametrize("name", ["breast_cancer", "digits", "wine"])
def test_the_next_process_has_bundled_data_without_scikit_learn(name: str) -> None:
    loading._cache.clear()
    first = load(Named(name=name))
    program = "import sys; from tune_vfl.data import load; from tune_vfl.spec import Named\n"
    program += "print(load(Named(name=sys.argv[1])).fingerprint, 'sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program, name], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [first.fingerprint, "False"]


def test_bundled_data_of_another_scikit_learn_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_cache", OrderedDict())
    load(Named(name="wine"))
    assert cached.stale() == []
    monkeypatch.setattr(cached, "stamp", lambda path: (-1, -1) if path.parent.name == "sklearn" else stamp(path))
    assert cached.stale() == list(folder().iterdir())


def test_a_users_own_data_are_never_kept() -> None:
    assert not any(DATASETS[name].kept for name in OWN)
