"""A study as one file: it comes back whole, and a file that anybody may have written is checked first."""

import io
import json
import platform
import tracemalloc
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.confirmations import made_up_confirmation
from tests.helpers.ledgers import open_ledger, reopened
from tests.helpers.simulated import Simulation, simulate
from tune_vfl import load_study
from tune_vfl.errors import ParcelError, StudyError
from tune_vfl.ledger import packing
from tune_vfl.ledger.confirmation_store import Confirmations
from tune_vfl.ledger.packing import pack, unpack
from tune_vfl.ledger.reading import study_names
from tune_vfl.outcome import Outcome, TunedAttack
from tune_vfl.records import packed_file
from tune_vfl.records.confirmations import UNDEFENDED, AttackOfSeed, SeedRecord
from tune_vfl.records.packed_file import from_bytes, from_text, read_packed, to_bytes, to_text
from tune_vfl.spec.cell import References

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
    store = Confirmations(held.place, None)
    store.keep(("study", 0, 1000), SEEN)
    store.keep(("study", UNDEFENDED, 1000), SEEN)
    store.keep_tuned(("study", 0), TUNED)
    store.set_answer(made_up_confirmation("study"))
    held.set_cost(1.25)
    open_ledger(budget={"trials": 12}, storage=str(folder / "there" / "ledger.db")).close()  # more trials
    return held


@pytest.fixture
def ledger(tmp_path):
    held = ledger_in(tmp_path)
    yield held
    held.close()


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    held = ledger_in(tmp_path_factory.mktemp("packed"))
    held.close()
    return pack("study", held.place.url)


def test_everything_comes_back_and_says_nothing_of_where_it_was(ledger, tmp_path):
    content = to_bytes(pack("study", ledger.place.url))
    assert content == to_bytes(pack("study", ledger.place.url)), "the same study gives the same bytes"
    packed = from_bytes(content, "f")
    assert unpack(packed) == "new"
    here, there = reopened("study"), ledger
    assert here.place.url != there.place.url
    assert here.record() == replace(there.record(), spec=here.spec, id=here.study.id)
    assert here.study.id != there.study.id, "both may go on, and share an MLflow"
    assert (here.row().trials, here.references) == (12, there.references)
    own, theirs = (Confirmations(one.place, None) for one in (here, there))
    assert own.tuned("study") == {("study", 0): TUNED}
    assert own.records("study") == theirs.records("study")
    assert load_study("study").record().studies[0].cost == 1.25
    assert here.trials()[3].sampler == {"nsga2:generation": 1}
    assert load_study("study").summary()["front"] == load_study("study", there.place.url).summary()["front"]
    text = json.dumps(packed.plain())
    assert here.spec.storage is None
    assert not [word for word in (str(tmp_path), platform.node(), there.session) if word in text]


def test_a_server_holds_it_as_a_file_does(packed, postgres):
    server = postgres.fresh()
    assert unpack(packed, server) == "new"
    assert pack("study", server) == packed
    assert unpack(packed, server) == "same"


def test_a_running_trial_is_asked_again_where_it_was_unpacked(packed):
    unpack(packed)
    here = open_ledger(budget={"trials": 9})
    assert [t.number for t in here.recover()] == [4]
    assert [t.number for t in here.owed_retries()] == [4]
    here.close()


def test_the_very_same_is_left_alone_and_what_has_gone_on_is_refused_with_the_difference(ledger):
    early = pack("study", ledger.place.url)
    unpack(early)
    assert unpack(early) == "same"
    add(ledger, 5e-4)
    late = pack("study", ledger.place.url)
    with pytest.raises(StudyError, match=r"'study': 5 trials -> 6.*--name NEW.*tune-vfl study rm study"):
        unpack(late)
    assert pack("study") == early
    assert unpack(late.named("later")) == "new"
    assert study_names() == ["later", "study"]


def test_a_trial_that_has_ended_since_is_a_difference(ledger):
    unpack(pack("study", ledger.place.url))
    ledger.tell(4, answer_of(ledger, 4e-4))
    with pytest.raises(StudyError, match="study 'study': trial 4 ended otherwise"):
        unpack(pack("study", ledger.place.url))


@pytest.mark.parametrize("change", [{"cost": 1.4}, {"trials": 13}])
def test_what_belongs_to_the_whole_study_is_compared_too(packed, change):
    unpack(packed)
    other = packed.model_copy(update={"studies": (packed.studies[0].model_copy(update=change),)})
    with pytest.raises(StudyError, match="what belongs to the whole was measured or asked otherwise"):
        unpack(other)
    assert pack("study") == packed


def test_another_study_of_the_name_is_never_overwritten(packed):
    mine = open_ledger(budget={"trials": 9})
    mine.tell(mine.begin({"scale": 1e-4}), Outcome.failed("error", "mine"))
    mine.close()
    before = mine.record()
    with pytest.raises(StudyError, match=r"study 'study': 1 trials -> 5.*--name NEW"):
        unpack(packed)
    assert reopened("study").record() == before
    renamed = packed.named("from-the-lab")
    unpack(renamed)
    assert study_names() == ["from-the-lab", "study"]
    assert reopened("from-the-lab").record().confirmation.name == "from-the-lab"
    open_ledger("other", budget={"seeds": 2}).close()
    with pytest.raises(StudyError, match=r"budget\.seeds"):
        unpack(pack("other").named("study"))
    with pytest.raises(ParcelError, match="name"):
        renamed.named("../up")


def test_a_kill_in_the_middle_leaves_nothing_of_it(packed, monkeypatch):
    insert = packing._insert

    def dies(*given):
        insert(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(packing, "_insert", dies)
        with pytest.raises(KeyboardInterrupt):
            unpack(packed)
    assert study_names() == []
    assert unpack(packed) == "new"
    assert pack("study") == packed


def test_a_log_carries_it_among_other_lines(packed):
    content = to_bytes(packed)
    log = f"Running entrypoint\nwarning: {{}}\n{to_text(content)}bye\n"
    assert from_text(log, "log") == content
    assert from_bytes(to_text(content).encode(), "f") == packed
    damaged = log.replace("VFL STUDY-----\nU", "VFL STUDY-----\n!")
    for cut in ("", log[: len(log) // 2], log.replace("BEGIN", "BEGUN"), damaged):
        with pytest.raises(ParcelError, match="log: "):
            from_text(cut, "log")


def repacked(packed, change=lambda tables: None, extra=()):
    """The bytes of a packed study after a change of its plain data, and with more files in it."""
    tables = {"head": {"schema": packed_file.PACKED_SCHEMA, "program": "0.1"}, **packed.plain()}
    change(tables)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(packed_file.HEAD, json.dumps(tables.pop("head")))
        for name, rows in tables.items():
            archive.writestr(f"{name}.jsonl", "\n".join(map(json.dumps, rows)))
        for name in extra:
            archive.writestr(name, "x")
    return file.getvalue()


def _twice(tables):
    tables["confirmations"] *= 2


HOSTILE = {
    "a later schema": (lambda t: t["head"].update(schema="tune-vfl/packed/2", program="9.0"), "tune-vfl 9.0"),
    "a field that is not known": (lambda t: t["studies"][0].update(hook="os.system"), "hook"),
    "a field of a trial that is not known": (lambda t: t["trials"][0].update(owner={}), "owner"),
    "a number that is none": (lambda t: t["trials"][0]["result"].update(leakage=float("nan")), "NaN"),
    "a trial that is finished without a result": (lambda t: t["trials"][1].pop("result"), "where it is finished"),
    "a trial that is missing": (lambda t: t["trials"].pop(1), "each once"),
    "a trial twice": (lambda t: t["trials"].append(t["trials"][0]), "each once"),
    "a trial that repeats a later one": (lambda t: t["trials"][1].update(retry_of=3), "earlier"),
    "a trial of another study": (lambda t: t["trials"][4].update(study="other"), "rows of its studies"),
    "a name that leaves its folder": (lambda t: t["studies"][0].update(name="../x"), "name"),
    "a spec of another study": (lambda t: t["studies"][0]["spec"].update(study="other"), "spec of study"),
    "a cell of something else": (lambda t: t["studies"][0].update(cell={"dataset": "x"}), "model"),
    "two studies": (lambda t: t["studies"].append({**t["studies"][0], "place": 1}), "one study without a campaign"),
    "a seed twice": (_twice, "each seed once"),
    "a seed of no trial": (lambda t: t["confirmations"][0].update(number=99), "confirmations of its trials"),
    "no head": (lambda t: t["head"].clear(), "schema"),
    "a parameter outside": (lambda t: t["trials"][3].update(params={"scale": 1e9}), "trial 3 does not fit"),
    "a moment that no calendar has": (lambda t: t["trials"][0].update(asked=1e18), "trials.0.asked: .* less than"),
    "an end that no calendar has": (lambda t: t["trials"][0].update(finished=-1e308), "trials.0.finished: .* greater"),
    "a parameter that is not searched": (lambda t: t["trials"][3]["params"].update(x=1.0), "trial 3 does not fit"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_file_is_checked_field_by_field(packed, case):
    change, words = HOSTILE[case]
    with pytest.raises(ParcelError, match=f"f: .*{words}"):
        from_bytes(repacked(packed, change), "f")


def test_what_is_no_packed_study_is_said_to_be_none(packed, tmp_path):
    whole = to_bytes(packed)
    files = {
        "empty": b"",
        "text": b"study: x",
        "cut": whole[: len(whole) // 2],
        "more": repacked(packed, extra=["../../etc/passwd"]),
        "less": repacked(packed, lambda tables: tables.pop("trials")),
        "flipped": whole[:60] + bytes([whole[60] ^ 255]) + whole[61:],
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ParcelError, match=f"{name}: is not a packed study"):
            read_packed(tmp_path / name)
    with pytest.raises(ParcelError, match="cannot be read"):
        read_packed(tmp_path / "nowhere")
    with pytest.raises(ParcelError, match="larger than 100 bytes; --max-mib reads a larger one"):
        from_bytes(whole, "f", 100)
    with pytest.raises(ParcelError, match="zero: is not a packed study: it is larger"):
        read_packed(Path("/dev/zero"), 2**20)


@pytest.mark.parametrize("bomb", ["packed.json", "trials.jsonl", "other"])
def test_a_bomb_is_refused_before_it_is_unpacked(bomb, tmp_path, run):
    """Seventy mebibytes of zeros, packed into some kilobytes."""
    file = tmp_path / "bomb.study"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(bomb, "w", force_zip64=True) as into:
        for _ in range(70):
            into.write(bytes(2**20))
    tracemalloc.start()
    code, _, err = run("study", "unpack", file)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (code, "larger than 67108864 bytes; --max-mib" in err) == (2, True)
    assert most < 2**24


def test_a_head_is_small():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("packed.json", " " * 100_000)
    with pytest.raises(ParcelError, match=r"packed\.json in it is larger than 65536 bytes"):
        from_bytes(content.getvalue(), "f")
