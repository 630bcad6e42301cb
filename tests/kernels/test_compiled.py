"""What is compiled, and what becomes of a machine where nothing can be."""

import platform
from pathlib import Path

import pytest

from tests.kernels import test_chain, test_distances, test_rows
from tune_vfl.kernels import build, distances, passes, rows
from tune_vfl.kernels import chain as chains
from tune_vfl.kernels import compiled as kernels
from tune_vfl.kernels.chain import Chain
from tune_vfl.kernels.compiled import compiled
from tune_vfl.kernels.native import NativePasses, native_passes
from tune_vfl.models.layers import Linear

afresh = compiled.__wrapped__


def test_without_a_compiler_or_a_place_torch_does_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with monkeypatch.context() as without:
        without.setenv("PATH", "/nowhere")
        assert afresh() is None
    (tmp_path / "tune-vfl").write_text("in the way")
    assert afresh() is None
    monkeypatch.setenv("TUNE_VFL_NATIVE", "0")
    assert afresh() is None
    monkeypatch.setattr(chains, "native_passes", lambda: None)
    assert Chain([(Linear(3, 2, stream=test_chain.fresh()), "none", 0.0)]).passes is passes


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["-march=native", "-mavx2 -mfma", "-mavx", "-msse2"])
def test_other_processors_do_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str) -> None:
    """Registers of all widths that this processor has."""
    if compiled() is None or platform.machine() not in {"x86_64", "AMD64"}:
        pytest.skip("no compiler on this machine, or other registers")
    options = [kind if option == "-march=native" else option for option in build.OPTIONS]
    monkeypatch.setattr(build, "OPTIONS", " ".join(options).split())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    library = afresh()
    assert library is not None
    found = NativePasses(library)
    monkeypatch.setattr(chains, "native_passes", lambda: found)
    for name in test_chain.NETS:
        for count in (1, 16, 37, 160):
            test_chain.test_a_chain_is_its_layers(found, name, count, by_seed=False)
    monkeypatch.setattr(kernels, "compiled", lambda: library)
    monkeypatch.setattr(rows, "routine", kernels.routine.__wrapped__)
    for columns in (1, 10, 16, 37):
        test_rows.test_rows_are_added_in_their_order(None, (2, 3), columns)
    monkeypatch.setattr(distances, "routine", kernels.routine.__wrapped__)
    for width in (1, 10, 16):
        test_distances.test_a_whole_batch(width)


def test_without_it_nothing_is_native(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "compiled", lambda: None)
    monkeypatch.setattr("tune_vfl.kernels.native.compiled", lambda: None)
    monkeypatch.setattr(rows, "routine", kernels.routine.__wrapped__)
    assert rows.native_adder() is None
    assert native_passes.__wrapped__() is None
