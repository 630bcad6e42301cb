"""What is removed from a ledger is gone with all that hangs on it, and nothing else is."""

import pytest
from sqlalchemy import func, select, update

from tests.helpers.confirmations import made_up_confirmation
from tests.helpers.ledgers import open_ledger, reopened
from tests.helpers.packing import joint, keep, planned, run
from tune_vfl import load_study
from tune_vfl.errors import StudyError
from tune_vfl.ledger.confirmation_store import Confirmations
from tune_vfl.ledger.reading import open_study, study_names
from tune_vfl.ledger.removing import removal_of, remove
from tune_vfl.ledger.schema import campaigns, confirmations, leases, studies, trials
from tune_vfl.ledger.storage import storage_at
from tune_vfl.outcome import Outcome

pytestmark = pytest.mark.usefixtures("home")


def rows(place):
    """How many rows each table of a ledger has that tells of studies."""
    tables = (campaigns, studies, trials, confirmations, leases)

    def count(connection):
        return {t.name: connection.execute(select(func.count()).select_from(t)).scalar_one() for t in tables}

    return place.read(count)


def add_lone(name="lone"):
    ledger = open_ledger(name)
    ledger.tell(ledger.begin({"scale": 1e-3}), Outcome.failed("error", "x"))
    ledger.close()


def check_a_campaign_goes_whole(place):
    run(planned(), place)
    full = rows(place)
    assert full["trials"] == 4
    assert str(removal_of("c", place.url)) == "c: a campaign of 2 studies, 4 trials"
    assert rows(place) == full, "looking changes nothing"
    gone = remove("c", place.url)
    assert (gone.studies, gone.trials) == (("c-laplace", "c-gaussian"), 4)
    assert set(rows(place).values()) == {0}, "no row is left, of leases neither"
    with pytest.raises(StudyError, match="no study 'c'"):
        remove("c", place.url)
    run(planned(), place)
    assert rows(place) == full, "its names are free"


def test_a_campaign_goes_whole():
    check_a_campaign_goes_whole(storage_at())


def test_from_a_server_as_from_a_file(postgres):
    check_a_campaign_goes_whole(storage_at(postgres.fresh()))


def test_what_stands_beside_stays():
    add_lone()
    before = load_study("lone").record().studies[0]
    alone = rows(storage_at())
    run(planned(), storage_at())
    remove("c")
    assert {t: n for t, n in rows(storage_at()).items() if "lease" not in t} == {
        t: n for t, n in alone.items() if "lease" not in t
    }
    assert load_study("lone").record().studies[0] == before
    remove("lone")
    assert study_names() == []


def test_a_part_is_taken_out_of_its_campaign():
    place = storage_at()
    run(planned(("laplace", "gaussian", "iso"), 9), place)
    keep(place, confirmation=joint())
    with place.lease("c") as lease:
        ledger = reopened("c-laplace", None, lease)
        Confirmations(place, lease).set_answer(made_up_confirmation("c-laplace"))
        ledger.set_cost(3.0)
        ledger.close()
    told = str(removal_of("c-iso"))
    assert "a study of campaign c, which goes on with 2, 2 trials; the campaign's confirmation goes too" in told
    remove("c-iso")
    record = open_study("c").record()
    assert [s.name for s in record.studies] == ["c-laplace", "c-gaussian"]
    assert (record.trials, record.studies[0].cost) == (6, 3.0)
    assert record.confirmation is None
    assert record.studies[0].confirmation is None, "who stayed was measured against what is gone"
    load_study("c").summary()
    remove("c-gaussian")
    with pytest.raises(StudyError, match="last study of campaign 'c': remove the campaign"):
        remove("c-laplace")


def test_nobody_removes_what_somebody_runs():
    run(planned(), storage_at())
    before = rows(storage_at())
    for name in ("c", "c-laplace"):
        with storage_at().lease("c"), pytest.raises(StudyError, match="being run by another process"):
            remove(name)
    assert rows(storage_at()) == before


def test_a_study_that_is_no_more_readable_can_be_removed():
    add_lone()
    with storage_at().lease("lone") as lease:
        strange = update(studies).where(studies.c.name == "lone").values(cell={"of": "a later version"})
        storage_at().write(lambda connection: connection.execute(strange), lease)
    remove("lone")
    assert study_names() == []


def test_what_is_not_there_is_told_with_where_it_was_looked_for(home):
    run(planned(), storage_at())
    with pytest.raises(StudyError) as refused:
        removal_of("c-laplas")
    words = str(refused.value)
    assert f"no study 'c-laplas' in the ledger sqlite:///{home}/ledger.db, which holds 2 studies." in words
    assert "Did you mean 'c-laplace'? Known: c, c-gaussian, c-laplace." in words
    assert "TUNE_VFL_HOME" in words
    remove("c")
    with pytest.raises(StudyError, match="which is empty; TUNE_VFL_HOME"):
        load_study("c")
