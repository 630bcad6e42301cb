"""Putting a packed study or campaign into a ledger: whole, once, and never over another one."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tune_vfl.errors import ParcelError, StudyError
from tune_vfl.ledger import opening
from tune_vfl.ledger.campaign_parcel import CampaignParcel, PackedCampaign
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.parcel import PackedTrial, Parcel
from tune_vfl.ledger.storage import storage_at
from tune_vfl.ledger.writing import TrialWriter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optuna.distributions import BaseDistribution
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial

    from tune_vfl.ledger.campaign_parcel import Packed
    from tune_vfl.ledger.database import LedgerStorage
    from tune_vfl.ledger.lease import Lease

Unpacked = Literal["new", "grown", "same"]


def unpack(packed: Packed, storage: str | None = None) -> Unpacked:
    """Put a study or a campaign into a ledger.

    What is there already is left alone where it holds everything that comes, and brought up where what comes is the
    same later on. Studies are written first and the campaign after them, so that a kill in the middle leaves what is
    earlier, or lone studies, and doing it again completes them. A lone study that is part of what comes becomes it.

    Args:
        packed: the study or campaign.
        storage: the ledger, see :func:`tune_vfl.ledger.storage.storage_at`.

    Returns:
        Whether it was not there before, was there with less, or was there already.

    Raises:
        StudyError: when something else has one of its names, or somebody runs it; nothing is written then.
        ParcelError: when a trial does not fit what its study searches; nothing is written then.
        UnreachableError: when the ledger does not answer or cannot be written.
    """
    trials = {parcel.name: _templates(parcel) for parcel in packed.studies}
    place = storage_at(storage)
    with place.lease(packed.name) as lease, ExitStack() as others:
        opened = place.open(lease)
        others.callback(opened.remove_session)
        for parcel in packed.studies:
            attrs = _attrs(opened, parcel.name)
            if parcel.name != packed.name and attrs is not None and not attrs.get("campaign"):
                others.enter_context(place.lease(parcel.name))  # a lone one, which somebody may be running
        found = _compared(packed, place, opened)
        for parcel in found.lacking:
            _replace(parcel, trials[parcel.name], place, opened, lease)
        if isinstance(packed, CampaignParcel) and found.did != "same":
            opening.put_campaign(opened, packed.name, packed.head.attrs())
        return found.did


class _Told(Protocol):
    """What may be the same later on: :class:`Parcel`, :class:`PackedCampaign`."""

    def difference(self, earlier: Any) -> str:
        """Return why it is not."""

    def told_otherwise(self, other: Any) -> bool:
        """Say whether two differ in what has no earlier and later."""


@dataclass(frozen=True)
class _Compared:
    """What a ledger holds of what comes.

    Attributes:
        did: what is to be done.
        lacking: the studies that are to be written.
    """

    did: Unpacked
    lacking: tuple[Parcel, ...] = ()


def _compared(packed: Packed, place: LedgerStorage, opened: BaseStorage) -> _Compared:
    """Compare what comes with what is there.

    Raises:
        StudyError: with everything of these names that is something else.
    """
    names = {parcel.name: _attrs(opened, parcel.name) for parcel in packed.studies}
    problems = [told for name, attrs in names.items() if (told := _taken(name, attrs, packed))]
    whole = _attrs(opened, packed.name) if isinstance(packed, CampaignParcel) else None
    if whole is not None and whole.get("schema") != opening.CAMPAIGN_SCHEMA:
        problems.append(f"{packed.name!r} is a study")
    if problems:
        raise _refused(problems, place)
    coming: list[tuple[str, _Told, _Told | None]] = [
        (f"study {parcel.name!r}", parcel, _held(parcel.name, place, opened) if names[parcel.name] else None)
        for parcel in packed.studies
    ]
    if isinstance(packed, CampaignParcel):
        held = None if whole is None else PackedCampaign.of(packed.name, whole)
        coming.append((f"campaign {packed.name!r}", packed.head, held))
    there = [(what, now, before) for what, now, before in coming if before is not None]
    if not there:
        return _Compared("new", packed.studies)
    ours = isinstance(packed, Parcel) or all(attrs and attrs.get("campaign") for attrs in names.values())
    ahead = len(there) == len(coming) and ours and not any(before.difference(now) for _, now, before in there)
    later = [(what, told) for what, now, before in there if (told := now.difference(before))]
    lacking = {what for what, now, before in coming if before is None or before.difference(now)}
    lacking |= {what for what, now, before in there if not later and now.told_otherwise(before)}
    if ahead and (later or not lacking):
        return _Compared("same")
    if later:
        raise _refused([f"{what} is there with another content ({told})" for what, told in later], place)
    return _Compared("grown", tuple(p for p in packed.studies if f"study {p.name!r}" in lacking))


def _taken(name: str, attrs: Mapping[str, Any] | None, packed: Packed) -> str:
    """Say what else has the name of a study that comes; empty where nothing has."""
    if attrs is None:
        return ""
    if attrs.get("schema") == opening.CAMPAIGN_SCHEMA:
        return f"{name!r} is a campaign"
    campaign = attrs.get("campaign", "")
    other = isinstance(packed, CampaignParcel) and campaign not in ("", packed.name)
    return f"study {name!r} is a part of campaign {campaign!r}" if other else ""


def _refused(problems: list[str], place: LedgerStorage) -> StudyError:
    return StudyError(
        f"in the ledger {place.shown} already: {'; '.join(problems)}. Nothing was written; give what comes another "
        "name: --name NEW"
    )


def _attrs(opened: BaseStorage, name: str) -> Mapping[str, Any] | None:
    """Return what the ledger holds of a name; None where there is nothing, or what was begun and never written."""
    try:
        attrs: Mapping[str, Any] = opened.get_study_user_attrs(opened.get_study_id_from_name(name))
    except KeyError:
        return None
    return attrs if "schema" in attrs else None


def _held(name: str, place: LedgerStorage, opened: BaseStorage) -> Parcel:
    return Parcel.of(Ledger(place, opened, *opening.find(opened, name, place.shown), None))


def _replace(
    parcel: Parcel, trials: list[FrozenTrial], place: LedgerStorage, opened: BaseStorage, lease: Lease
) -> None:
    """Write a study, in the place of what was there of it; what campaign that is a part of stays."""
    before = _attrs(opened, parcel.name)
    if before is not None:
        opened.delete_study(opened.get_study_id_from_name(parcel.name))
    planned = replace(parcel.planned, campaign=(before or {}).get("campaign", ""))
    study_id, study = opening.create_or_open(opened, planned)
    ledger = Ledger(place, opened, study_id, study, lease)
    head, kept = parcel.head, ledger.confirmations
    ledger.extend(head.budget)
    if head.references is not None and head.reference_point is not None:
        ledger.set_references_and_reference_point(head.references, head.reference_point)
    if head.baseline is not None:
        ledger.set_baseline(head.baseline)
    if head.cost is not None:
        ledger.set_cost(head.cost)
    TrialWriter(opened, study_id, lease).make(trials)
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
