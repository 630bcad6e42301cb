"""Packing studies and campaigns by name, and putting packed ones into a ledger and into MLflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tune_vfl.ledger import packing
from tune_vfl.service.projecting import show_in_mlflow
from tune_vfl.service.studies import open_named, records_of, refuse_no_ledger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.ledger.packed import Packed
    from tune_vfl.ledger.packing import Unpacked
    from tune_vfl.ledger.records import StudyRecord


def pack(name: str, storage: str | None = None) -> Packed:
    """Pack a study or a campaign as it stands; one that is being run keeps running.

    A part of a campaign is packed alone, as a lone study.

    Raises:
        StudyError: when there is nothing of this name.
        ParcelError: when it holds what tune-vfl has not written.
        UnreachableError: when the ledger does not answer.
    """
    refuse_no_ledger(name, storage)
    return packing.pack(name, storage)


def unpack_here(packed: Packed, storage: str | None = None) -> tuple[Unpacked, Sequence[StudyRecord]]:
    """Put a study or a campaign into the ledger, and show it in MLflow where it is new there.

    Returns:
        What was done (see :func:`tune_vfl.ledger.packing.unpack`, which says what it raises), and the studies.
    """
    did = packing.unpack(packed, storage)
    if did != "same":
        show_in_mlflow(open_named(packed.name, storage))
    return did, records_of(packed.name, storage)
