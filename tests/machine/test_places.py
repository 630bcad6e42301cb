"""The home: one's own, named or made by this account."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Run
from tune_vfl.cluster.profiles import profiles_file
from tune_vfl.errors import UsageError
from tune_vfl.machine.places import data_root, home, user_cache
from tune_vfl.machine.secrets import token_file


def test_a_home_that_another_account_made_is_not_used_unless_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TUNE_VFL_HOME", raising=False)
    assert home() == tmp_path / "tune-vfl-home"
    home().mkdir()
    assert home() == tmp_path / "tune-vfl-home"
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    if home().stat().st_uid == 0:  # root's own may be used by everybody: root needs no ledger to do harm
        os.chown(tmp_path / "tune-vfl-home", 54321, -1)
    with pytest.raises(UsageError, match=r"tune-vfl-home was made by another account.*set TUNE_VFL_HOME"):
        home()
    monkeypatch.setenv("TUNE_VFL_HOME", str(tmp_path / "tune-vfl-home"))
    assert home() == tmp_path / "tune-vfl-home"


def test_a_link_that_another_account_made_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.getuid():
        pytest.skip("only root can give a link to another account")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TUNE_VFL_HOME", raising=False)
    (tmp_path / "mine").mkdir()
    (tmp_path / "tune-vfl-home").symlink_to(tmp_path / "mine")
    os.chown(tmp_path / "tune-vfl-home", 54321, -1, follow_symlinks=False)
    with pytest.raises(UsageError, match="another account"):
        home()


PLACES = {
    "TUNE_VFL_DATA": data_root,
    "XDG_CACHE_HOME": user_cache,
    "XDG_CONFIG_HOME": profiles_file,
    "RAY_AUTH_TOKEN_PATH": token_file,
}


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a home and without a name, as containers have them."""
    for name in ("HOME", *PLACES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 54321)


@pytest.mark.usefixtures("homeless")
@pytest.mark.parametrize(("variable", "place"), PLACES.items())
def test_the_places_of_a_user_without_a_home_are_in_that_of_tune_vfl(
    variable: str, place: Callable[[], Path], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert place().is_relative_to(home)
    monkeypatch.setenv(variable, str(tmp_path / "named"))
    assert place().is_relative_to(tmp_path / "named")
    monkeypatch.setenv(variable, "~nobody-of-this-name/x")
    with pytest.raises(UsageError, match=f"^~nobody-of-this-name/x: .*set HOME, or {variable} to a whole path"):
        place()
    monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    assert place().is_relative_to(tmp_path / "user")


def test_no_verb_needs_a_home_of_the_user(home: Path, homeless: None, run: Run) -> None:
    (home.parent / "s.yaml").write_text("{study: s, dataset: breast_cancer, defense: laplace, attacks: [norm]}")
    assert run("validate", home.parent / "s.yaml")[0] == 0
    assert run("clean")[0] == 0
    code, _, err = run("jobs", "list", "--cluster", "lab")
    assert (code, "HOME" in err.replace(str(home), "")) == (2, False), err
