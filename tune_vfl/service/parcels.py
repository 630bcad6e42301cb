"""The verbs ``pack`` and ``unpack``: studies and campaigns as files, from one ledger to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tune_vfl.ledger import packing
from tune_vfl.ledger.reading import open_study, refuse_no_ledger
from tune_vfl.service.projecting import show_in_mlflow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.ledger.packing import Unpacked
    from tune_vfl.records.packed import Packed
    from tune_vfl.records.studies import StudyRecord


def pack(name: str, storage: str | None = None) -> Packed:
    """Pack a snapshot of a study or a campaign, which may be running.

    One study of a campaign is packed as an independent study.

    Raises:
        StudyError: when the ledger has no such name.
        ParcelError: when it contains data that tune-vfl has not written.
        UnreachableError: when the ledger does not answer.
    """
    refuse_no_ledger(name, storage)
    return packing.pack(name, storage)


def unpack_here(packed: Packed, storage: str | None = None) -> tuple[Unpacked, Sequence[StudyRecord]]:
    """Import a packed study or campaign into the ledger, and into MLflow where it is new.

    Returns:
        The result of :func:`tune_vfl.ledger.packing.unpack`, which lists the errors, and the studies.
    """
    did = packing.unpack(packed, storage)
    found = open_study(packed.name, storage)
    if did != "same":
        show_in_mlflow(found)
    return did, found.record().studies
