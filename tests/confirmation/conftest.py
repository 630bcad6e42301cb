"""Shared by the tests of confirmations."""

from __future__ import annotations

import pytest


@pytest.fixture
def as_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Confirm with the attacks of the search alone, as before a confirmation added one."""
    monkeypatch.setattr("tune_vfl.confirmation.jobs._added", lambda cell: [])
