"""A study that a cluster knows already, clusters by name, and what must not travel; tried without a cluster."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import typer
import yaml

from tests.helpers.ledgers import open_ledger
from tests.helpers.packing import planned
from tests.helpers.packing import run as run_trials
from tune_vfl import load_study
from tune_vfl.cli.jobs import _show_end, _usable
from tune_vfl.cluster import studies
from tune_vfl.cluster.jobs import SCHEMAS, ClusterJob, Where, answers_in, is_answer
from tune_vfl.cluster.profiles import find_profile, profiles_file
from tune_vfl.cluster.shipping import stays_here
from tune_vfl.data import load
from tune_vfl.data.own_files import SHIPPED_BYTES
from tune_vfl.errors import ParcelError, SpecError, StudyError, UnknownNameError, UsageError
from tune_vfl.ledger import packing
from tune_vfl.ledger.storage import storage_at
from tune_vfl.records.packed_file import to_bytes, to_text
from tune_vfl.spec import Named
from tune_vfl.spec.raw import read_yaml

RAW = {"study": "s", "dataset": "wine", "defense": "laplace", "budget": {"trials": 4}}


class Cluster:
    """Jobs that are written down and never run; a job prints what it is told to."""

    address = "http://c"

    def __init__(self, *jobs: ClusterJob, status: str = "SUCCEEDED", log: str = "") -> None:
        self.jobs, self.asked = list(jobs), []
        self._status, self._log = status, log

    def list(self):
        return self.jobs

    def run(self, does, arguments, study, where, *, files=None, spec=""):
        self.asked.append(([does, *arguments], where, files))
        self.jobs.append(ClusterJob(f"job{len(self.jobs)}", "RUNNING", study, does, where.home or "", spec))
        return self.jobs[-1].id

    def wait(self, job_id):
        return ClusterJob(job_id, self._status)

    def logs(self, _job_id):
        return self._log


def test_a_running_study_is_joined_and_another_spec_of_it_is_refused():
    there = Cluster()
    first = studies.submit(there, RAW, Where())
    assert first == ("job0", False)
    assert studies.submit(there, dict(reversed(RAW.items())), Where()) == ("job0", True)
    with pytest.raises(StudyError, match=r"job0 with another spec or budget.*jobs stop job0"):
        studies.submit(there, {**RAW, "budget": {"trials": 8}}, Where())
    assert studies.resume(there, "s", Where()) == ("job0", True)
    with pytest.raises(StudyError, match="--trials 9 then"):
        studies.resume(there, "s", Where(), trials=9)
    assert len(there.asked) == 1
    assert not studies.submit(there, RAW, Where(home="/elsewhere")).joined, "kept elsewhere, it is another study"


def test_a_stopped_study_goes_on():
    there = Cluster(ClusterJob("old", "STOPPED", "s", "search", "/h", "x"), ClusterJob("strange", "SUCCEEDED"))
    assert not studies.submit(there, {**RAW, "budget": {"trials": 8}}, Where("/h")).joined
    command, where, files = there.asked[-1]
    assert (command, where) == (["search", "spec.yaml", "--json"], Where("/h"))
    assert yaml.safe_load(files["spec.yaml"])["budget"]["trials"] == 8
    there.jobs.pop()
    assert not studies.resume(there, "old", Where(), trials=8).joined
    assert there.asked[-1][:2] == (["resume", "s", "--json", "--trials", "8"], Where("/h"))
    with pytest.raises(StudyError, match="runs no study"):
        studies.resume(there, "strange", Where())


@pytest.mark.parametrize("by", ["time", "group"])
@pytest.mark.parametrize("separator", ["|", "\t", "\x01", "~"])
def test_how_a_table_is_read_travels_to_the_cluster_with_the_table(tmp_path, monkeypatch, by, separator):
    rows = [("größe", "on", "when", "y"), *((f"{k % 9},5", "Ja", str(2000 + k // 20), str(k % 3)) for k in range(400))]
    (tmp_path / "t.csv").write_bytes("".join(separator.join(row) + "\n" for row in rows).encode("cp1252"))
    dataset = {
        "name": "csv", "path": str(tmp_path / "t.csv"), "label": "y", "positive": ["1", "2"], "rows": 200,
        "separator": separator, "encoding": "cp1252", "decimal": ",", "split": {by: "when"},
        "categories": {"on": {"Ja": "ja"}}, "parties": {"no": ["größe"], "active": ["on"]},
    }  # fmt: skip
    there = Cluster()
    studies.submit(there, {**RAW, "study": "2024", "dataset": dataset}, Where())
    command, _, files = there.asked[-1]
    assert command[-1] == "--copy-data"
    (tmp_path / "spec.yaml").write_text(files.pop("spec.yaml"), encoding="utf-8")
    arrived, ((place, file),) = read_yaml(tmp_path / "spec.yaml"), files.items()
    assert arrived == {**RAW, "study": "2024", "dataset": {**dataset, "path": place}}
    fingerprint = load(Named.model_validate(dataset)).fingerprint
    (tmp_path / place).parent.mkdir(parents=True)
    file.rename(tmp_path / place)
    monkeypatch.chdir(tmp_path)
    data = load(Named.model_validate(arrived["dataset"]))
    assert data.fingerprint == fingerprint
    assert (len(data.y), data.passive[0].party, data.active.names) == (200, "no", ("on=ja",))
    assert data.passive[0].x.max() == 8.5
    assert any(("latest" if by == "time" else "groups of 'when'") in note for note in data.notes)


def test_a_changed_table_is_another_spec_and_one_that_is_not_here_stays_as_it_is_written(tmp_path):
    table = tmp_path / "t.csv"
    raw = {**RAW, "dataset": [{"name": "csv", "path": str(table), "label": "y"}, "wine"]}
    there = Cluster()
    studies.submit(there, raw, Where())
    assert there.asked[-1][0] == ["search", "spec.yaml", "--json"]
    assert yaml.safe_load(there.asked[-1][2]["spec.yaml"]) == raw
    there.jobs.clear()
    table.write_text("a,y\n1,0\n")
    studies.submit(there, raw, Where())
    assert len(there.asked[-1][2]) == 2
    assert studies.submit(there, raw, Where()).joined
    table.write_text("a,y\n1,1\n")
    with pytest.raises(StudyError, match="with another spec"):
        studies.submit(there, raw, Where())


def test_what_is_too_large_does_not_travel_and_is_said(tmp_path):
    table = tmp_path / "t.csv"
    raw = {**RAW, "dataset": {"name": "csv", "path": str(table), "label": "y"}}
    with table.open("wb") as file:
        file.truncate(SHIPPED_BYTES)
    assert stays_here(raw) == ""
    with table.open("ab") as file:
        file.write(b"\n")
    assert f"{table} (64.0 MiB)" in stays_here(raw)
    there = Cluster()
    studies.submit(there, raw, Where())
    command, _, files = there.asked[-1]
    assert (command, list(files)) == (["search", "spec.yaml", "--json"], ["spec.yaml"])
    assert yaml.safe_load(files["spec.yaml"]) == raw
    (tmp_path / "pictures").mkdir()
    assert f"{tmp_path / 'pictures'} (a folder)" in stays_here(
        {**RAW, "dataset": [{"name": "images", "path": str(tmp_path / "pictures")}, "wine"]}
    )


def test_where_studies_are_kept_is_quoted_for_the_shell():
    assert Where().variables == 'TUNE_VFL_HOME="${TUNE_VFL_HOME:-$HOME/tune-vfl-home}"'
    assert Where("/a b; rm -rf /", "x$(y)").variables == "TUNE_VFL_HOME='/a b; rm -rf /' TUNE_VFL_STORAGE='x$(y)'"


@pytest.mark.parametrize(
    ("field", "url"),
    [
        ("storage", "postgresql://u:secret@h/d"),
        ("tracking", "https://u:p%40@h"),
        ("storage", "postgresql://h/d?user=u&password=secret"),
        ("storage", "postgresql://u:${env:A}tail@h/d"),
    ],
)
def test_a_password_does_not_travel(field, url):
    there = Cluster()
    with pytest.raises(SpecError, match=rf"{field}: holds a password.*\.pgpass") as refused:
        studies.submit(there, {**RAW, field: url}, Where())
    assert "secret" not in str(refused.value)
    with pytest.raises(SpecError, match=r"dataset\.path"):
        studies.submit(there, {**RAW, "dataset": {"name": "csv", "path": "ftp://u:p@h/f"}}, Where())
    assert there.asked == []


@pytest.mark.parametrize("url", ["postgresql://u@h/d", "postgresql://u:${env:A}@h/d", "${env:URL}", "sqlite:////a@b/c"])
def test_what_holds_no_password_travels_as_it_stands(url):
    there = Cluster()
    studies.submit(there, {**RAW, "storage": url}, Where())
    assert yaml.safe_load(there.asked[0][2]["spec.yaml"])["storage"] == url


def test_a_study_is_pulled_from_a_log_and_is_not_taken_for_running(home):
    ledger = open_ledger()
    ledger.close()
    packed = packing.pack("study")
    there = Cluster(log=f"Running entrypoint ...\nnote\n{to_text(to_bytes(packed))}")
    assert studies.pull(there, "study", Where()) == packed
    assert there.asked[0][0] == ["study pack", "study", "-o", "-"]
    assert not studies.resume(there, "study", Where()).joined, "what is packed is not being run"
    with pytest.raises(ParcelError, match="http://c"):
        studies.pull(Cluster(log="cut"), "study", Where())
    lost = Cluster(status="FAILED", log="Running entrypoint x\ntune-vfl: no study 'study'. Known: a.\n")
    with pytest.raises(StudyError, match=r"from http://c: no study 'study'. Known: a."):
        studies.pull(lost, "study", Where())


@pytest.fixture
def described(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"):
        monkeypatch.delenv(name, raising=False)

    def write(text):
        profiles_file().parent.mkdir(exist_ok=True)
        profiles_file().write_text(text)

    return write


def test_a_cluster_is_called_by_its_name_or_its_url(described):
    with pytest.raises(UsageError, match=r"no cluster 'lab'.*clusters\.yaml describes none"):
        find_profile("lab")
    described("lab: {address: 'http://lab:8265/', home: /data/vfl, token_file: ~/lab.token}\nbare:\n")
    lab = find_profile("lab")
    assert (lab.address, lab.home) == ("http://lab:8265", "/data/vfl")
    assert lab.token_file.is_absolute()
    assert find_profile("bare").address == find_profile().address == "http://127.0.0.1:8265"
    assert find_profile("https://x").address == "https://x"
    with pytest.raises(UnknownNameError, match="Did you mean 'lab'"):
        find_profile("labs")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[lab]", "mapping of names"),
        ("lab: {adress: x}", r"lab\.adress: no such field.*address"),
        ("lab: {storage: 'postgresql://u:p@h/d'}", r"lab\.storage: holds a password"),
        ("lab: {address: 'os://x'}", "dashboard's URL"),
        ("lab: [", "cannot be read as YAML"),
    ],
)
def test_a_description_that_is_wrong_says_so(described, text, words):
    described(text)
    with pytest.raises(UsageError, match=words):
        find_profile("lab")


CAMPAIGN = {"study": "c", "dataset": "wine", "defense": ["laplace", "iso"], "budget": {"trials": 8}}


def test_the_studies_that_are_kept_there_are_listed_when_ray_has_forgotten_its_jobs(home, run):
    ledger = open_ledger("kept")
    code, out, _ = run("studies", "--json")
    ledger.close()
    assert code == 0
    there = Cluster(log=f"noise\n{out}")
    (study,) = studies.listed(there, Where("/h"))
    assert there.asked == [(["studies", "--json"], Where("/h"), None)]
    assert (study["study"], study["state"], study["owed"]) == ("kept", "stopped", 40)
    with pytest.raises(StudyError, match="cannot be listed: no room"):
        studies.listed(Cluster(log="tune-vfl: no room\n"), Where())


def test_a_study_of_a_head_that_is_gone_is_taken_over():
    there = Cluster()
    studies.submit(there, RAW, Where(), take_over=True)
    assert there.asked[-1][0] == ["search", "spec.yaml", "--json", "--take-over"]
    there.jobs.clear()
    studies.resume(there, "s", Where(), take_over=True)
    assert there.asked[-1][0] == ["resume", "s", "--json", "--take-over"]


def test_a_campaign_is_one_job_under_its_name():
    there = Cluster()
    assert studies.submit(there, CAMPAIGN, Where()) == ("job0", False)
    assert studies.submit(there, CAMPAIGN, Where()) == ("job0", True)
    with pytest.raises(StudyError, match="'c' is being run by job job0 with another spec"):
        studies.submit(there, {**CAMPAIGN, "defense": ["laplace", "iso", "gaussian"]}, Where())
    assert there.jobs[0].study == "c"
    there.jobs[0] = replace(there.jobs[0], status="STOPPED")
    assert not studies.submit(there, {**CAMPAIGN, "defense": ["laplace", "iso", "gaussian"]}, Where()).joined
    assert yaml.safe_load(there.asked[-1][2]["spec.yaml"])["defense"] == ["laplace", "iso", "gaussian"]
    assert studies.resume(there, "c", Where()) == ("job1", True)


def test_a_campaign_is_pulled_whole(home):
    place = storage_at()
    run_trials(planned(), place)
    packed = packing.pack("c")
    there = Cluster(log=f"Running entrypoint ...\n{to_text(to_bytes(packed))}")
    assert studies.pull(there, "c", Where()) == packed
    assert list(packing.pack("c-laplace").trials) == [trial for trial in packed.trials if trial.study == "c-laplace"]


def test_what_a_job_prints_at_its_end_is_found_and_shown(home, capsys):
    run_trials(planned(), storage_at())
    summaries = [load_study(name).summary() for name in ("c", "c-laplace")]
    assert tuple(summary["schema"] for summary in summaries) == (SCHEMAS[1], SCHEMAS[0])
    lines = [json.dumps(summary) for summary in summaries]
    log = "\n".join(["campaign c was finished already, nothing was run; --trials N asks for more", *lines])
    assert answers_in(log) == summaries
    assert [is_answer(line) for line in log.splitlines()] == [False, True, True]
    _show_end(ClusterJob("j", "SUCCEEDED"), lines[0], json=False)
    assert "campaign c: 2 studies, 4 ok" in capsys.readouterr().out
    failed = {**summaries[0], "studies": [{**summaries[1], "trials": {"ok": 1, "error": 1}}]}
    for log, code in ((lines[0], 1), (json.dumps(failed), 3)):
        with pytest.raises(typer.Exit) as ended:
            _show_end(ClusterJob("j", "FAILED", message="it said 3"), log, json=True)
        assert ended.value.exit_code == code


def test_submit_takes_all_defenses():
    raw = {**CAMPAIGN, "defense": "all"}
    assert _usable(raw) == raw
    with pytest.raises(SpecError, match="unknown defense 'laplas'"):
        _usable({**CAMPAIGN, "defense": ["laplas", "iso"]})
