"""Packing studies by name, and putting packed ones into a ledger and into MLflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.parcel import Parcel
from tune_vfl.ledger.unpacking import Unpacked, unpack
from tune_vfl.service.projecting import show_in_mlflow
from tune_vfl.service.studies import open_study, refuse_no_ledger

if TYPE_CHECKING:
    from tune_vfl.ledger.records import StudyRecord


def pack_study(name: str, storage: str | None = None) -> Parcel:
    """Pack a study as it stands; one that is being run keeps running.

    Raises:
        StudyError: when there is none of this name.
        ParcelError: when it holds what tune-vfl has not written.
        UnreachableError: when the ledger does not answer.
    """
    refuse_no_ledger(name, storage)
    ledger = Ledger.open(name, storage)
    try:
        return Parcel.of(ledger)
    finally:
        ledger.close()


def unpack_study(parcel: Parcel, storage: str | None = None) -> tuple[Unpacked, StudyRecord]:
    """Put a study into the ledger, and show it in MLflow where it is new there.

    Returns:
        What was done (see :func:`tune_vfl.ledger.unpacking.unpack`, which says what it raises), and the study.
    """
    did = unpack(parcel, storage)
    study = open_study(parcel.name, storage)
    if did != "same":
        show_in_mlflow(study)
    return did, study.record()
