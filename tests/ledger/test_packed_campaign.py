"""A whole campaign as one file: it comes back with its studies, under its name or another, all of it or nothing."""

from dataclasses import replace

import pytest

from tests.helpers.confirmations import made_up_confirmation
from tests.helpers.ledgers import reopened
from tests.helpers.packing import joint, keep, planned, run
from tests.ledger.test_packing import repacked
from tune_vfl import load_study
from tune_vfl.errors import ParcelError, StudyError
from tune_vfl.ledger.confirmation_store import Confirmations
from tune_vfl.ledger.packing import pack, unpack
from tune_vfl.ledger.reading import open_study, study_names
from tune_vfl.ledger.storage import storage_at
from tune_vfl.records.campaigns import PlannedCampaign
from tune_vfl.records.packed_file import from_bytes, to_bytes, to_text

pytestmark = pytest.mark.usefixtures("home")


def held(place, name="c"):
    return pack(name, place.url)


def made(folder):
    """A campaign of two studies with something of everything, elsewhere."""
    place = storage_at(str(folder / "there.db"))
    run(planned(constraints={"leakage": 0.2}), place)
    keep(place, confirmation=joint())
    with place.lease("c") as lease:
        ledger = reopened("c-laplace", place.url, lease)
        Confirmations(place, lease).set_answer(made_up_confirmation("c-laplace"))
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
    """A campaign's record without where its studies were kept, and without its id there."""
    studies = (replace(s, spec=s.spec.model_copy(update={"storage": None}), id="") for s in record.studies)
    spec = {name: value for name, value in record.spec.items() if name != "storage"}
    return replace(record, studies=tuple(studies), spec=spec)


def test_a_campaign_comes_back_whole_and_says_nothing_of_where_it_was(there):
    packed = held(there)
    content = to_bytes(packed)
    assert content == to_bytes(held(there)), "the same campaign gives the same bytes"
    read = from_bytes(content, "f")
    assert read == packed
    assert from_bytes(to_text(content).encode(), "f") == packed
    assert unpack(read) == "new"
    record = open_study("c").record()
    assert comparable(record) == comparable(open_study("c", there.url).record())
    assert (record.trials, record.constraints) == (6, {"leakage": 0.2})
    assert [s.cost for s in record.studies] == [1.5, None]
    assert record.confirmation == joint()
    assert [str(left) for left in record.skipped] == ["c-mid: needs a bottleneck"]
    here, elsewhere = load_study("c"), load_study("c", there.url)
    assert here.frontier() == elsewhere.frontier()
    assert here.campaign == "c"
    assert "/some/where" not in str(packed.plain())
    with storage_at().lease("c-gaussian") as lease:
        assert lease.study == "c", "one lease, as before"


def test_a_server_holds_it_as_a_file_does(packed, postgres):
    server = postgres.fresh()
    assert unpack(packed, server) == "new"
    assert held(storage_at(server)) == packed
    assert unpack(packed, server) == "same"


def test_what_went_on_is_refused_whole_with_the_difference(there):
    packed = held(there)
    unpack(packed)
    assert unpack(packed) == "same"
    run(planned(constraints={"leakage": 0.2}), there, (1e-4, 1e-3, 3e-3))
    with pytest.raises(StudyError, match=r"study 'c-laplace': 2 trials -> 3.*--name NEW"):
        unpack(held(there))
    run(planned(("laplace", "gaussian", "iso"), 9, constraints={"leakage": 0.2}), there)
    with pytest.raises(StudyError, match=r"the studies c-gaussian, c-laplace -> c-gaussian, c-iso, c-laplace"):
        unpack(held(there))
    assert held(storage_at()) == packed


def test_a_name_of_something_else_is_refused_before_anything_is_written(packed, tmp_path):
    def taken(words, plan, lone=False):
        home = storage_at(str(tmp_path / f"{words}.db"))
        run(plan, home, scales=(2e-4,))
        before = [load_study(name, home.url).record() for name in study_names(home.url)]
        with pytest.raises(StudyError, match=rf"{words}.*Nothing was written.*--name NEW"):
            unpack(packed, home.url)
        assert [load_study(name, home.url).record() for name in study_names(home.url)] == before

    lone = planned(("gaussian",)).studies[0]
    taken("'c' is a study", PlannedCampaign.of(replace(lone.changed(name="c"), campaign="")))
    taken("'c-gaussian' is a study of its own", PlannedCampaign.of(replace(lone, campaign="")))
    of_another = replace(planned(("gaussian",)), name="d", studies=(replace(lone, campaign="d"),))
    taken("'c-gaussian' is a part of campaign 'd'", of_another)
    seeds = planned(budget={"seeds": 2})
    taken(r"budget\.seeds", seeds)


def test_a_study_cannot_come_over_a_campaign(packed, tmp_path):
    unpack(packed)
    run(planned(name="d"), storage_at(str(tmp_path / "d.db")))
    lone = pack("d-laplace", str(tmp_path / "d.db")).named("c")
    with pytest.raises(StudyError, match="'c' is a campaign"):
        unpack(lone)


def test_under_another_name_its_studies_are_called_after_it(packed):
    unpack(packed)
    renamed = from_bytes(to_bytes(packed.named("lab")), "f")
    assert unpack(renamed) == "new"
    record = open_study("lab").record()
    assert [s.name for s in record.studies] == ["lab-laplace", "lab-gaussian"]
    assert record.studies[0].cost == 1.5
    assert [left.study for left in record.skipped] == ["lab-mid"]
    assert record.confirmation.knee["breast_cancer"].study == "lab-laplace"
    assert {p.study for p in record.confirmation.points} == {"lab-laplace"}
    assert (record.confirmation.name, record.studies[0].confirmation.name) == ("lab", "lab-laplace")
    assert open_study("lab").plan().spec["study"] == "lab"
    assert packed.named("other").named("lab") == packed.named("lab")
    with pytest.raises(ParcelError, match="name"):
        packed.named("../up")


def test_a_part_alone_is_a_lone_study_elsewhere_which_the_whole_does_not_overwrite(there):
    packed, part = held(there), pack("c-laplace", there.url)
    assert unpack(part) == "new"
    assert load_study("c-laplace").campaign == ""
    with pytest.raises(StudyError, match="study 'c-laplace' is a study of its own"):
        unpack(packed)
    assert unpack(part, there.url) == "same", "where it was packed"
    assert unpack(packed.named("lab")) == "new"


def test_what_somebody_runs_is_left_alone(packed):
    unpack(packed)
    for name in ("c", "c-laplace"):
        with storage_at().lease(name), pytest.raises(StudyError, match="being run by another process"):
            unpack(packed)


HOSTILE = {
    "a later schema": (lambda t: t["head"].update(schema="tune-vfl/packed/2", program="9.0"), "tune-vfl 9.0"),
    "a field that is not known": (lambda t: t["campaigns"][0].update(hook="os.system"), "hook"),
    "a name that leaves its folder": (lambda t: t["campaigns"][0].update(name="../x"), "name"),
    "studies that are not its own": (lambda t: t["campaigns"][0].update(name="d"), "the studies of d"),
    "a study less": (lambda t: t["studies"].pop(), "rows of its studies"),
    "a study twice": (lambda t: t["studies"].append({**t["studies"][0], "place": 2}), "each once"),
    "studies in another order": (lambda t: t["studies"].reverse(), "in order"),
    "a constraint that is none": (
        lambda t: t["campaigns"][0]["spec"].update(constraints={"x": 1}),
        "cannot be constrained",
    ),
    "an answer of something else": (lambda t: t["campaigns"][0].update(confirmation={"name": "c"}), "confirmation"),
    "an answer of another study": (
        lambda t: t["campaigns"][0]["confirmation"]["points"][0].update(study="d-laplace"),
        "some of d-laplace",
    ),
    "a campaign twice": (lambda t: t["campaigns"].append(t["campaigns"][0]), "at most 1"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_file_is_checked_field_by_field(packed, case):
    change, words = HOSTILE[case]
    with pytest.raises(ParcelError, match=f"f: .*({words})"):
        from_bytes(repacked(packed, change), "f")


def test_all_studies_of_a_file_are_measured_together(packed):
    largest = max(len(str(rows)) for rows in packed.plain().values())
    with pytest.raises(ParcelError, match="larger than"):
        from_bytes(to_bytes(packed), "f", largest)


def test_a_campaign_that_holds_something_strange_is_not_packed(there):
    keep(there, trials=-1)
    with pytest.raises(ParcelError, match=r"'c' cannot be packed: campaigns\.0\.trials"):
        held(there)
