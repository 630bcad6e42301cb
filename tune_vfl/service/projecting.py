"""Verbs after which MLflow shows what the ledger has: a confirmation, and what comes from another ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tune_vfl.ledger import packing
from tune_vfl.ledger.reading import open_study
from tune_vfl.machine.streams import tell

if TYPE_CHECKING:
    from tune_vfl.confirmation.run import Confirmed
    from tune_vfl.ledger.packing import Unpacked
    from tune_vfl.ledger.reading import StoredStudy
    from tune_vfl.records.campaigns import CampaignRecord
    from tune_vfl.records.packed import Packed


def show_in_mlflow(found: StoredStudy) -> None:
    """Write a study or a campaign to MLflow; a study of a campaign together with the whole campaign.

    A failure is reported and not raised: the ledger is complete without MLflow.
    """
    try:
        from tune_vfl.tracking.mlflow import Recorder

        shown = open_study(found.campaign or found.name, found.storage).record()
        Recorder(shown.name, shown.studies[0].spec.tracking).sync(shown)
    except Exception as error:  # MLflow is a projection: the ledger is complete without it
        tell(f"tune-vfl: MLflow is not recorded: {error}; 'tune-vfl doctor --repair' rebuilds it later")


def confirm_named(name: str, *, seeds: int = 10, adaptive: float = 0.0, storage: str | None = None) -> Confirmed:
    """Confirm a study or a campaign, see ``confirmation.run``, then update its MLflow runs and their report."""
    from tune_vfl.confirmation.run import confirm

    ended = confirm(name, seeds=seeds, adaptive=adaptive, storage=storage)
    if ended.answer is not None:
        show_in_mlflow(open_study(name, storage))
    return ended


def unpack_here(packed: Packed, storage: str | None = None) -> tuple[Unpacked, CampaignRecord]:
    """Import a packed study or campaign into the ledger, and into MLflow where it is new.

    Returns:
        The result of :func:`tune_vfl.ledger.packing.unpack`, which lists the errors, and what the ledger has now.
    """
    did = packing.unpack(packed, storage)
    found = open_study(packed.name, storage)
    if did != "same":
        show_in_mlflow(found)
    return did, found.record()
