"""A whole campaign as one file: it comes back with its studies, under its name or another, all of it or nothing."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace

import pytest

from tests.helpers.confirmations import made_up_confirmation
from tests.helpers.packing import joint, keep, planned, run
from tune_vfl.errors import ParcelError, SpecError, StudyError
from tune_vfl.ledger import opening, parcel_file, unpacking
from tune_vfl.ledger.campaign_parcel import CampaignParcel, PackedCampaign
from tune_vfl.ledger.campaigns import PlannedCampaign
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.parcel import Parcel
from tune_vfl.ledger.parcel_file import from_bytes, to_bytes, to_text
from tune_vfl.ledger.reading import open_campaign
from tune_vfl.ledger.storage import storage_at
from tune_vfl.ledger.unpacking import unpack
from tune_vfl.ledger.writing import TrialWriter
from tune_vfl.search import load_study

pytestmark = pytest.mark.usefixtures("home")


def held(place, name="c"):
    opened = place.open()
    return CampaignParcel.of(name, place, opened)


def made(folder):
    """A campaign of two studies with something of everything, elsewhere."""
    place = storage_at(str(folder / "there.db"))
    run(planned(constraints={"leakage": 0.2}), place)
    keep(place, confirmation=joint())
    with place.lease("c") as lease:
        ledger = Ledger.open("c-laplace", place.url, lease)
        ledger.confirmations.set_answer(made_up_confirmation().model_copy(update={"name": "c-laplace"}))
        ledger.set_cost(1.5)
        ledger.close()
    return place


@pytest.fixture
def there(tmp_path):
    return made(tmp_path)


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """The same campaign, packed."""
    return held(made(tmp_path_factory.mktemp("packed")))


def comparable(record):
    """A campaign's record without where its studies were kept."""
    return replace(
        record, studies=tuple(replace(s, spec=s.spec.model_copy(update={"storage": None})) for s in record.studies)
    )


def test_a_campaign_comes_back_whole_and_says_nothing_of_where_it_was(there):
    packed = held(there)
    content = to_bytes(packed)
    assert content == to_bytes(held(there)), "the same campaign gives the same bytes"
    read = from_bytes(content, "f")
    assert read == packed
    assert from_bytes(to_text(content).encode(), "f") == packed
    assert unpack(read) == "new"
    record = open_campaign("c").record()
    assert comparable(record) == comparable(open_campaign("c", there.url).record())
    assert (record.trials, record.constraints) == (6, {"leakage": 0.2})
    assert [s.cost for s in record.studies] == [1.5, None]
    assert record.confirmation == joint()
    assert [str(left) for left in record.skipped] == ["c-mid: needs a bottleneck"]
    here, elsewhere = load_study("c"), load_study("c", there.url)
    assert here.frontier() == elsewhere.frontier()
    assert here.studies()[0].campaign == "c"
    assert "/some/where" not in json.dumps(packed.plain())
    with storage_at().lease("c-gaussian") as lease:
        assert lease.study == "c", "one lease, as before"


def test_a_server_holds_it_as_a_file_does(packed, postgres):
    server = postgres.fresh()
    assert unpack(packed, server) == "new"
    assert held(storage_at(server)) == packed
    assert unpack(packed, server) == "same"


def test_it_grows_by_trials_and_studies_and_what_comes_late_takes_nothing_away(there):
    packed = held(there)
    unpack(packed)
    assert unpack(packed) == "same"
    run(planned(("laplace", "gaussian", "iso"), 9, constraints={"leakage": 0.2}), there, (1e-4, 1e-3, 1e-2))
    late = held(there)
    assert unpack(late) == "grown"
    assert held(storage_at()) == late
    assert open_campaign("c").record().trials == 9
    assert unpack(packed) == "same"
    assert held(storage_at()) == late


def test_what_went_on_here_and_there_is_refused_whole(there):
    packed = held(there)
    unpack(packed)
    run(planned(constraints={"leakage": 0.2}), storage_at(), (1e-4, 1e-3, 3e-3))
    before = held(storage_at())
    run(planned(("laplace", "gaussian", "iso"), 9, constraints={"leakage": 0.2}), there)
    with pytest.raises(StudyError, match=r"study 'c-laplace' is there with another content \(trial 2 is missing\)"):
        unpack(held(there))
    assert held(storage_at()) == before


def test_a_name_of_something_else_is_refused_before_anything_is_written(packed, tmp_path):
    def taken(words, plan, lone=False):
        home = storage_at(str(tmp_path / f"{words}.db"))
        run(plan, home, scales=(2e-4,))
        before = home.open().get_all_studies()
        with pytest.raises(StudyError, match=rf"{words}.*Nothing was written.*--name NEW"):
            unpack(packed, home.url)
        after = home.open().get_all_studies()
        assert [(s.study_name, s.user_attrs) for s in after] == [(s.study_name, s.user_attrs) for s in before]

    lone = planned(("gaussian",)).studies[0]
    taken("'c' is a study", PlannedCampaign.of(replace(lone.changed(name="c"), campaign="")))
    taken("trial 0 ended otherwise", PlannedCampaign.of(replace(lone, campaign="")))
    of_another = replace(planned(("gaussian",)), name="d", studies=(replace(lone, campaign="d"),))
    taken("'c-gaussian' is a part of campaign 'd'", of_another)
    seeds = planned(budget={"seeds": 2})
    taken(r"budget\.seeds", seeds)


def test_a_study_cannot_come_over_a_campaign(packed):
    unpack(packed)
    lone = packed.studies[0].named("c")
    with pytest.raises(StudyError, match="'c' is a campaign"):
        unpack(lone)


def test_under_another_name_its_studies_are_called_after_it(packed):
    unpack(packed)
    renamed = from_bytes(to_bytes(packed.named("lab")), "f")
    assert unpack(renamed) == "new"
    record = open_campaign("lab").record()
    assert [s.name for s in record.studies] == ["lab-laplace", "lab-gaussian"]
    assert record.studies[0].cost == 1.5
    assert [left.study for left in record.skipped] == ["lab-mid"]
    assert record.confirmation.knee["breast_cancer"].study == "lab-laplace"
    assert {p.study for p in record.confirmation.points} == {"lab-laplace"}
    assert (record.confirmation.name, record.studies[0].confirmation.name) == ("lab", "lab-laplace")
    assert open_campaign("lab").spec["study"] == "lab"
    assert packed.named("other").named("lab") == packed.named("lab")
    with pytest.raises(SpecError, match="study"):
        packed.named("../up")


def test_a_part_alone_is_a_lone_study_elsewhere_and_becomes_a_part_when_the_whole_comes(there):
    packed = held(there)
    part = Parcel.of(Ledger.open("c-laplace", there.url))
    assert part == packed.studies[0]
    assert unpack(part) == "new"
    assert load_study("c-laplace").campaign == ""
    assert unpack(packed) == "grown"
    assert load_study("c-laplace").campaign == "c"
    assert held(storage_at()) == packed
    run(planned(constraints={"leakage": 0.2}), there, (1e-4, 1e-3, 1e-2))
    assert unpack(Parcel.of(Ledger.open("c-laplace", there.url))) == "grown"
    assert load_study("c-laplace").campaign == "c", "a part stays one when it is brought up alone"
    assert [len(s.ok) for s in open_campaign("c").record().studies] == [3, 2]


def test_what_somebody_runs_is_left_alone(packed):
    unpack(packed.studies[0])
    for name in ("c", "c-laplace"):
        with storage_at().lease(name), pytest.raises(StudyError, match="being run by another process"):
            unpack(packed)
    assert open_campaign("c") is None


@pytest.mark.parametrize("where", ["the second study", "its trials", "the campaign", "its parts"])
def test_a_kill_in_the_middle_is_completed_by_doing_it_again(packed, monkeypatch, where):
    calls = []

    def dies(whole, at):
        def one(*arguments, **named):
            calls.append(arguments)
            if len(calls) == at:
                raise KeyboardInterrupt
            return whole(*arguments, **named)

        return one

    with monkeypatch.context() as killed:
        if where == "the second study":
            killed.setattr(unpacking, "_replace", dies(unpacking._replace, 2))
        elif where == "its trials":
            killed.setattr(TrialWriter, "make", dies(TrialWriter.make, 2))
        elif where == "the campaign":
            killed.setattr(opening, "put_campaign", dies(opening.put_campaign, 1))
        else:
            killed.setattr(opening, "_change", dies(opening._change, 3))
        with pytest.raises(KeyboardInterrupt):
            unpack(packed)
    for name in opening.names(storage_at().open()):
        load_study(name).summary()  # what is there can be read
    assert unpack(packed) == "grown"
    assert held(storage_at()) == packed
    assert {s.campaign for s in load_study("c").studies()} == {"c"}
    assert unpack(packed) == "same"


def repacked(packed, change):
    """The bytes of a campaign after a change of what is in the file, by name."""
    file = io.BytesIO(to_bytes(packed))
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name).decode() for name in archive.namelist()}
    head = json.loads(members["campaign.json"])
    change(head, members)
    members.setdefault("campaign.json", "")
    if members["campaign.json"]:
        members["campaign.json"] = json.dumps(head)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return file.getvalue()


def test_a_file_from_before_studies_kept_their_costs_is_read(packed):
    """The campaign had a place for them, where nothing was ever written."""
    assert from_bytes(repacked(packed, lambda head, _: head.update(costs={})), "f") == packed


HOSTILE = {
    "a later schema": (lambda head, _: head.update(schema="tune-vfl/packed-campaign/2", program="9.0"), "tune-vfl 9.0"),
    "a field that is not known": (lambda head, _: head.update(hook="os.system"), "hook"),
    "a name that leaves its folder": (lambda head, _: head.update(name="../x"), "name"),
    "a study that is not its own": (lambda head, _: head.update(name="d"), "called d-"),
    "a study that is not in it": (lambda head, _: head["parts"].append("c-iso"), "expected the studies"),
    "a study twice": (lambda head, _: head["parts"].append("c-laplace"), "each once"),
    "a constraint that is none": (lambda head, _: head["spec"].update(constraints={"x": 1}), "cannot be constrained"),
    "an answer of something else": (lambda head, _: head.update(confirmation={"name": "c"}), "confirmation"),
    "no head": (lambda head, _: head.clear(), "schema"),
    "a file more": (lambda _, members: members.update({"../../etc/passwd": "x"}), "expected study.json"),
    "a study less": (lambda _, members: (members.pop("1/study.json"), members.pop("1/trials.jsonl")), "the studies"),
    "a study that is damaged": (lambda _, members: members.update({"1/study.json": "{}"}), "schema"),
    "an empty file": (lambda _, members: members.update({"campaign.json": ""}), "one line in campaign.json"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_file_is_checked_field_by_field(packed, case):
    change, words = HOSTILE[case]
    with pytest.raises(ParcelError, match=f"f: .*({words})"):
        from_bytes(repacked(packed, change), "f")


def test_all_studies_of_a_file_are_measured_together(packed, monkeypatch):
    largest = max(len(json.dumps(part)) for study in packed.studies for part in study.plain())
    monkeypatch.setattr(parcel_file, "MOST_BYTES", largest + 500)
    with pytest.raises(ParcelError, match="larger than"):
        from_bytes(to_bytes(packed), "f")


def test_a_trial_that_does_not_fit_one_study_keeps_all_out(packed):
    _, trials = packed.studies[1].plain()
    trials[1]["params"] = {"sigma": 1e9}
    damaged = Parcel.read(packed.studies[1].plain()[0], trials, "f")
    with pytest.raises(ParcelError, match="study 'c-gaussian': trial 1 does not fit"):
        unpack(replace(packed, studies=(packed.studies[0], damaged)))
    assert not storage_at().exists()


def test_a_campaign_that_holds_something_strange_is_not_packed(there):
    keep(there, trials=-1)
    with pytest.raises(ParcelError, match=r"campaign 'c' cannot be packed: trials"):
        held(there)
    with pytest.raises(ParcelError, match="cannot be packed: KeyError"):
        PackedCampaign.of("c", {"parts": []})
