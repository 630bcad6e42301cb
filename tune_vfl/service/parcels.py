"""The verbs ``pack`` and ``unpack``: studies and campaigns as files, from one ledger to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tune_vfl.ledger import opening
from tune_vfl.ledger.campaign_parcel import CampaignParcel
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.parcel import Parcel
from tune_vfl.ledger.storage import storage_at
from tune_vfl.ledger.unpacking import Unpacked, unpack
from tune_vfl.service.projecting import show_in_mlflow
from tune_vfl.service.studies import open_named, records_of, refuse_no_ledger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.ledger.campaign_parcel import Packed
    from tune_vfl.ledger.records import StudyRecord


def pack(name: str, storage: str | None = None) -> Packed:
    """Pack a snapshot of a study or a campaign, which may be running.

    One study of a campaign is packed as an independent study.

    Raises:
        StudyError: when the ledger has no such name.
        ParcelError: when it contains data that tune-vfl has not written.
        UnreachableError: when the ledger does not answer.
    """
    refuse_no_ledger(name, storage)
    place = storage_at(storage)
    opened = place.open()
    try:
        if name in opening.campaigns(opened):
            return CampaignParcel.of(name, place, opened)
        return Parcel.of(Ledger(place, opened, *opening.find(opened, name, place.shown), None))
    finally:
        opened.remove_session()


def unpack_here(packed: Packed, storage: str | None = None) -> tuple[Unpacked, Sequence[StudyRecord]]:
    """Import a packed study or campaign into the ledger, and into MLflow where it is new.

    Returns:
        The result of :func:`tune_vfl.ledger.unpacking.unpack`, which lists the errors, and the studies.
    """
    did = unpack(packed, storage)
    if did != "same":
        show_in_mlflow(open_named(packed.name, storage))
    return did, records_of(packed.name, storage)
