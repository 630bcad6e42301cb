"""A study as one file: it comes back whole, and a file that anybody may have written is checked first."""

from __future__ import annotations

import gzip
import io
import json
import platform
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.confirmations import made_up_confirmation
from tests.helpers.ledgers import open_ledger
from trainables.simulated import Simulation, simulate
from tune_vfl.errors import ParcelError, SpecError, StudyError
from tune_vfl.ledger import parcel_file
from tune_vfl.ledger.confirmations import UNDEFENDED, AttackOfSeed, Confirmations, SeedRecord
from tune_vfl.ledger.ledger import Ledger, study_names
from tune_vfl.ledger.parcel import Parcel
from tune_vfl.ledger.parcel_file import from_bytes, from_text, read_parcel, to_bytes, to_text
from tune_vfl.ledger.storage import storage_at
from tune_vfl.ledger.unpacking import unpack
from tune_vfl.outcome import Outcome, TunedAttack
from tune_vfl.search import load_study
from tune_vfl.spec.cell import References

SAMPLES = Path(__file__).parents[1] / "samples"

pytestmark = pytest.mark.usefixtures("home")

SEEN = SeedRecord(outcome="ok", utility=0.9, attacks={"norm": AttackOfSeed(guess=0.5, candidates={"chosen": 0.7})})
TUNED = TunedAttack(
    attack="norm", params={}, variant="v", success=(0.7,), floors=(0.5,), advantages=(0.4,), tried=3, minutes=1.0
)


def answer_of(ledger, scale):
    return Outcome.model_validate(simulate(Simulation(), ledger.cell, {"scale": scale}).model_dump())


def add(ledger, scale):
    ledger.tell(ledger.begin({"scale": scale}, pack="p"), answer_of(ledger, scale))


def ledger_in(folder):
    """A study with something of everything, kept where its spec says."""
    held = open_ledger(budget={"trials": 9}, storage=str(folder / "there" / "ledger.db"))
    held.set_references_and_reference_point(References(r_lower={"norm": [0.5, 0.6]}), (0.5, 1.0))
    held.set_baseline(answer_of(held, 1e-5))
    add(held, 1e-4)
    held.tell(held.begin({"scale": 2e-4}), Outcome.failed("diverged", "NaN"))
    held.lose(held.begin({"scale": 3e-4}), "worker", "died")
    held.tell(held.begin({"scale": 3e-4}, retry_of=2, sampler_attrs={"nsga2:generation": 1}), answer_of(held, 3e-4))
    held.begin({"scale": 4e-4})
    held.confirmations.keep((0, 1000), SEEN)
    held.confirmations.keep((UNDEFENDED, 1000), SEEN)
    held.confirmations.keep_tuned(0, TUNED)
    held.confirmations.set_answer(made_up_confirmation())
    held.set_cost(1.25)
    held.extend(12)
    return held


@pytest.fixture
def ledger(tmp_path):
    held = ledger_in(tmp_path)
    yield held
    held.close()


@pytest.fixture(scope="module")
def parcel(tmp_path_factory):
    held = ledger_in(tmp_path_factory.mktemp("packed"))
    held.close()
    return Parcel.of(held)


def test_everything_comes_back_and_says_nothing_of_where_it_was(ledger, tmp_path):
    content = to_bytes(Parcel.of(ledger))
    assert content == to_bytes(Parcel.of(ledger)), "the same study gives the same bytes"
    parcel = from_bytes(content, "f")
    assert unpack(parcel) == "new"
    here, there = Ledger.open("study"), ledger
    assert here.place.url != there.place.url
    assert here.record() == replace(there.record(), spec=here.spec)
    assert (here.budget, here.references, here.confirmations.tuned()) == (12, there.references, {0: TUNED})
    assert here.confirmations.records() == there.confirmations.records()
    assert load_study("study").record().cost == 1.25
    assert here.trials()[3].system_attrs == {"nsga2:generation": 1}
    assert load_study("study").summary()["front"] == load_study("study", there.place.url).summary()["front"]
    text = "".join(json.dumps(part) for part in parcel.plain())
    assert here.spec.storage is None
    assert not [word for word in (str(tmp_path), platform.node(), '"pid"', '"owner"') if word in text]


def test_a_server_holds_it_as_a_file_does(parcel, postgres):
    server = postgres.fresh()
    assert unpack(parcel, server) == "new"
    assert Parcel.of(Ledger.open("study", server)) == parcel
    assert unpack(parcel, server) == "same"


def test_a_running_trial_is_asked_again_where_it_was_unpacked(ledger):
    unpack(Parcel.of(ledger))
    here = open_ledger(budget={"trials": 9})
    assert [t.number for t in here.recover()] == [4]
    assert [t.number for t in here.owed_retries()] == [4]
    here.close()


def test_a_study_that_has_gone_on_grows_and_one_that_has_not_stays(ledger):
    unpack(Parcel.of(ledger))
    assert unpack(Parcel.of(ledger)) == "same"
    early = Parcel.of(ledger)
    ledger.tell(4, answer_of(ledger, 4e-4))
    add(ledger, 5e-4)
    late = Parcel.of(ledger)
    assert unpack(late) == "grown"
    assert Parcel.of(Ledger.open("study")) == late
    assert unpack(early) == "same", "what comes late and holds less takes nothing away"
    assert Parcel.of(Ledger.open("study")) == late


def test_a_cost_that_was_measured_later_comes_along_and_is_measured_once(ledger):
    late = Parcel.of(ledger)
    early, other = (replace(late, head=late.head.model_copy(update={"cost": cost})) for cost in (None, 1.4))
    unpack(early)
    assert unpack(late) == "grown"
    assert [unpack(early), unpack(other)] == ["same", "same"]
    assert load_study("study").record().cost == 1.25


def test_another_study_of_the_name_is_never_overwritten(ledger):
    mine = open_ledger(budget={"trials": 9})
    mine.tell(mine.begin({"scale": 1e-4}), Outcome.failed("error", "mine"))
    mine.close()
    before = mine.record()
    with pytest.raises(StudyError, match=r"another content \(trial 0 ended otherwise\).*--name NEW"):
        unpack(Parcel.of(ledger))
    assert Ledger.open("study").record() == before
    renamed = Parcel.of(ledger).named("from-the-lab")
    unpack(renamed)
    assert study_names() == ["from-the-lab", "study"]
    assert Ledger.open("from-the-lab").record().confirmation.name == "from-the-lab"
    with pytest.raises(StudyError, match=r"budget\.seeds"):
        unpack(Parcel.of(open_ledger("other", budget={"seeds": 2})).named("study"))
    with pytest.raises(SpecError, match="study"):
        renamed.named("../up")


def test_what_an_interrupted_unpacking_has_left_is_completed(ledger, monkeypatch):
    def dies(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(Confirmations, "keep", dies)
        with pytest.raises(KeyboardInterrupt):
            unpack(Parcel.of(ledger))
    assert Ledger.open("study").confirmations.records() == {}
    assert unpack(Parcel.of(ledger)) == "grown"
    assert Parcel.of(Ledger.open("study")) == Parcel.of(ledger)


def test_a_log_carries_it_among_other_lines(parcel):
    content = to_bytes(parcel)
    log = f"Running entrypoint\nwarning: {{}}\n{to_text(content)}bye\n"
    assert from_text(log, "log") == content
    assert from_bytes(to_text(content).encode(), "f") == parcel
    damaged = log.replace("VFL STUDY-----\nU", "VFL STUDY-----\n!")
    for cut in ("", log[: len(log) // 2], log.replace("BEGIN", "BEGUN"), damaged):
        with pytest.raises(ParcelError, match="log: "):
            from_text(cut, "log")


def repacked(parcel, change=lambda head, trials: None, extra=()):
    """The bytes of a parcel after a change of its plain data, and with more files in it."""
    head, trials = parcel.plain()
    change(head, trials)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(parcel_file.HEAD, json.dumps(head))
        archive.writestr(parcel_file.TRIALS, "\n".join(map(json.dumps, trials)))
        for name in extra:
            archive.writestr(name, "x")
    return file.getvalue()


def _newer(head, _):
    head.update(schema="tune-vfl/packed-study/2", program="9.0")


HOSTILE = {
    "a later schema": (_newer, "tune-vfl 9.0"),
    "a field that is not known": (lambda head, _: head.update(hook="os.system"), "hook"),
    "a field of a trial that is not known": (lambda _, trials: trials[0].update(owner={}), "owner"),
    "a number that is none": (lambda _, trials: trials[0]["outcome"].update(leakage=float("nan")), "NaN"),
    "a trial that is complete without a result": (lambda _, trials: trials[1].update(state="COMPLETE"), "COMPLETE"),
    "a trial that is missing": (lambda _, trials: trials.pop(1), "each once"),
    "a trial twice": (lambda _, trials: trials.append(trials[0]), "each once"),
    "a trial that repeats a later one": (lambda _, trials: trials[1].update(retry_of=3), "earlier"),
    "a name that leaves its folder": (lambda head, _: head["study"]["spec"].update(study="../x"), "study"),
    "a cell of something else": (lambda head, _: head["study"].update(cell={"dataset": "x"}), "model"),
    "no head": (lambda head, _: head.clear(), "schema"),
    "a state that Optuna has and studies have not": (lambda _, trials: trials[0].update(state="PRUNED"), "PRUNED"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_file_is_checked_field_by_field(parcel, case):
    change, words = HOSTILE[case]
    with pytest.raises(ParcelError, match=f"f: .*{words}"):
        from_bytes(repacked(parcel, change), "f")


def test_parameters_that_the_study_does_not_search_are_refused_before_anything_is_written(parcel):
    def outside(_, trials):
        trials[3]["params"] = {"scale": 1e9}

    def unknown(_, trials):
        trials[3]["params"]["other"] = 1.0

    for change in (outside, unknown):
        with pytest.raises(ParcelError, match="trial 3 does not fit"):
            unpack(from_bytes(repacked(parcel, change), "f"))
    assert not storage_at().exists()


def test_what_is_no_packed_study_is_said_to_be_none(parcel, tmp_path, monkeypatch):
    whole = to_bytes(parcel)
    files = {
        "empty": b"",
        "text": b"study: x",
        "cut": whole[: len(whole) // 2],
        "more": repacked(parcel, extra=["../../etc/passwd"]),
        "flipped": whole[:200] + bytes([whole[200] ^ 255]) + whole[201:],
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ParcelError, match=f"{name}: is not a packed study"):
            read_parcel(tmp_path / name)
    with pytest.raises(ParcelError, match="cannot be read"):
        read_parcel(tmp_path / "nowhere")
    monkeypatch.setattr(parcel_file, "MOST_BYTES", 100)
    with pytest.raises(ParcelError, match="larger than 100 bytes"):
        from_bytes(whole, "f")
    with pytest.raises(ParcelError, match="zero: is not a packed study: it is larger"):
        read_parcel(Path("/dev/zero"))


def test_what_the_first_version_packed_is_read_for_ever(home):
    """The file holds the study of the ledger that stands beside it, which is older than packing."""
    home.mkdir()
    (home / "ledger.db").write_bytes(gzip.decompress((SAMPLES / "7ce63a4" / "ledger.db.gz").read_bytes()))
    packed = read_parcel(SAMPLES / "packed-1.study")
    assert packed == replace(Parcel.of(Ledger.open("sample")), head=packed.head)
    unpack(packed.named("again"))
    again, before = Ledger.open("again").record(), Ledger.open("sample").record()
    assert (again.trials, again.baseline, again.measure) == (before.trials, before.baseline, 1)
