"""Putting a packed study into a ledger: whole, once, and never over another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tune_vfl.errors import ParcelError, StudyError
from tune_vfl.ledger import opening
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.parcel import PackedTrial, Parcel
from tune_vfl.ledger.storage import storage_at
from tune_vfl.ledger.writing import write_together

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optuna.distributions import BaseDistribution
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial

    from tune_vfl.ledger.database import LedgerStorage
    from tune_vfl.ledger.lease import Lease

Unpacked = Literal["new", "grown", "same"]


def unpack(parcel: Parcel, storage: str | None = None) -> Unpacked:
    """Put a study into a ledger.

    A study that is there already is left alone where it holds everything of the parcel, and replaced where the parcel
    is the same study later on. A kill in the middle leaves such an earlier study, so that doing it again completes it.

    Args:
        parcel: the study.
        storage: the ledger, see :func:`tune_vfl.ledger.storage.storage_at`.

    Returns:
        Whether the study was not there before, was there with less, or was there already.

    Raises:
        StudyError: when another study has its name, or somebody runs the one of this name.
        ParcelError: when a trial does not fit what the study searches; nothing is written then.
        UnreachableError: when the ledger does not answer or cannot be written.
    """
    trials = _templates(parcel)
    place = storage_at(storage)
    with place.lease(parcel.name) as lease:
        opened = place.open(lease)
        try:
            before = _before(parcel, place, opened)
            if before == "same":
                return before
            if before == "grown":
                opened.delete_study(opened.get_study_id_from_name(parcel.name))
            _write(parcel, trials, place, opened, lease)
            return before
        finally:
            opened.remove_session()


def _before(parcel: Parcel, place: LedgerStorage, opened: BaseStorage) -> Unpacked:
    if parcel.name not in opening.names(opened):
        return "new"
    held = Parcel.of(Ledger(place, opened, *opening.find(opened, parcel.name), None))
    if not held.difference(parcel):
        return "same"
    if different := parcel.difference(held):
        raise StudyError(
            f"study {parcel.name!r} is in the ledger {place.shown} already, with another content ({different}); "
            "give the one that comes another name: --name NEW"
        )
    return "grown"


def _write(parcel: Parcel, trials: list[FrozenTrial], place: LedgerStorage, opened: BaseStorage, lease: Lease) -> None:
    study_id, study = opening.create_or_open(opened, parcel.planned)
    ledger = Ledger(place, opened, study_id, study, lease)
    head, kept = parcel.head, ledger.confirmations
    ledger.extend(head.budget)
    if head.references is not None and head.reference_point is not None:
        ledger.set_references_and_reference_point(head.references, head.reference_point)
    if head.baseline is not None:
        ledger.set_baseline(head.baseline)
    write_together(place, study_id, trials, lease)
    for number, seed, record in head.confirmed:
        kept.keep((number, seed), record)
    for number, found in head.tuned.items():
        kept.keep_tuned(number, found)
    if head.answer is not None:
        kept.set_answer(head.answer)


def _templates(parcel: Parcel) -> list[FrozenTrial]:
    searched = parcel.planned.space.distributions()
    found = []
    for trial in parcel.trials:
        try:
            found.append(_template(trial, searched))
        except (KeyError, ValueError, TypeError) as error:
            raise ParcelError(
                f"study {parcel.name!r}: trial {trial.number} does not fit what the study searches ({error})"
            ) from error
    return found


def _template(trial: PackedTrial, searched: Mapping[str, BaseDistribution]) -> FrozenTrial:
    from optuna.trial import TrialState, create_trial

    marks = trial.model_dump(mode="json", include={"pack", "asked", "retry_of", "lost", "outcome"}, exclude_none=True)
    template = create_trial(
        state=TrialState[trial.state],
        values=trial.outcome.objectives if trial.outcome is not None and trial.state == "COMPLETE" else None,
        params=dict(trial.params),
        distributions={name: searched[name] for name in trial.params},
        user_attrs=marks,
        system_attrs=dict(trial.sampler),
    )
    # Optuna keeps local time without a zone.
    template.datetime_start, template.datetime_complete = (
        None if moment is None else moment.astimezone().replace(tzinfo=None)
        for moment in (trial.started, trial.finished)
    )
    return template
