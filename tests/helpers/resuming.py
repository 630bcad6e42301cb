"""A search that is gone on with, as ``tune-vfl resume`` does."""

from typing import Any

from tune_vfl.driver.api import search
from tune_vfl.driver.planning import with_more
from tune_vfl.ledger.reading import StoredStudy, open_study


def resume(name: str, trials: int | None = None, **how: Any) -> StoredStudy:
    """Run what a stopped search lacks; ``how`` as for a search."""
    stored = open_study(name)
    return search(with_more(stored.plan(), trials), storage=stored.storage, **how)
