"""The home: one's own, named or made by this account."""

import os
from pathlib import Path

import pytest

from tune_vfl.errors import UsageError
from tune_vfl.machine.places import home


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
