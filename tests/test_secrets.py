"""Passwords stay in the environment, and Ray's token in a file that nobody else reads."""

import json
import re

import pytest

from benchmarks.house import files
from tune_vfl.errors import SpecError, UnreachableError, UsageError
from tune_vfl.ledger.storage import storage_at
from tune_vfl.machine import places
from tune_vfl.machine.passwords import StudyUrl, from_environment, has_password, hide_password, server_of
from tune_vfl.machine.secrets import keep_private, make_token_private, token_file
from tune_vfl.spec import parse


@pytest.fixture
def user(tmp_path, monkeypatch):
    """A user without a token, in a home of their own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_AUTH_MODE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def mode(path):
    return path.stat().st_mode & 0o777


def test_a_variable_of_ones_own_stands_for_a_password_or_for_all_of_a_url(monkeypatch):
    monkeypatch.setenv("P", "p@ss/w:rd")
    assert from_environment("postgresql://u:${env:P}@h/d", "storage") == "postgresql://u:p%40ss%2Fw%3Ard@h/d"
    monkeypatch.setenv("URL", "postgresql://u:p@h/d")
    assert from_environment("${env:URL}", "storage") == "postgresql://u:p@h/d"
    assert from_environment("plain", "storage") == "plain"
    monkeypatch.setenv("TUNE_VFL_STORAGE", "${env:URL}")
    assert storage_at().url == "postgresql://u:p@h/d"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://u:${env:NOWHERE}@h")
    with pytest.raises(UsageError, match=r"tracking: \$\{env:NOWHERE\} names .* not set here"):
        places.resolve_uri(None)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TUNE_VFL_HOSTS", "other, H"),
        ("TUNE_VFL_STORAGE", "postgresql://me@h/d"),
        ("MLFLOW_TRACKING_URI", "https://me:${env:P}@h?x=@y"),
        ("TUNE_VFL_STORAGE", "postgresql://me:${env:ODD}@h/d"),
        ("TUNE_VFL_STORAGE", "postgresql://me:pa/ss@h/d"),
        ("TUNE_VFL_STORAGE", "postgresql://me@/d?host=other&host=h"),
        ("MLFLOW_TRACKING_URI", "postgresql://me@other:1,h/d"),
    ],
)
def test_a_spec_sends_a_password_to_ones_own_hosts(variable, value, monkeypatch):
    monkeypatch.setenv("P", "hidden")
    monkeypatch.setenv("ODD", "a/b@c ?#:x")
    for send in (storage_at, places.resolve_uri):
        with pytest.raises(UsageError, match=r"it would send P to h, which none of .*export TUNE_VFL_HOSTS=h"):
            send("postgresql://u:${env:P}@h/d")
    monkeypatch.setenv(variable, value)
    assert storage_at("postgresql://u:${env:P}@h/d").url == "postgresql://u:hidden@h/d"
    assert storage_at("postgresql://u:${env:P}@h/d").shown == "postgresql://u@h/d"
    assert places.resolve_uri("https://u:${env:P}@h") == "https://u:hidden@h"
    assert places.named_uri("https://u:${env:P}@h") == "https://u:${env:P}@h"
    for other in ("h:1", "h.evil", "x.h"):
        with pytest.raises(UsageError, match=f"it would send P to {other}"):
            places.resolve_uri(f"https://u:${{env:P}}@{other}/")


@pytest.mark.parametrize(
    "text",
    [
        "${env:P}",
        "https://evil/${env:P}",
        "https://${env:P}@h",
        "https://${env:P}.evil/",
        "https://u:x${env:P}@h",
        "https://u:${env:P}@h@evil/",
        "https://u:${env:P}@h/x@evil",
        "https://u:${env:P}@h\\@evil/",
        "https://u:${env:P}@h/${env:Q}",
        "https://u:${env:P}@h?x=${env:P}",
        "postgresql://u:${env:P}@h/d?host=evil",
        "postgresql://u:${env:P}@h/d?sslmode=require&hostaddr=1.2.3.4",
        "postgresql://u:${env:P}@h,evil/d",
        "postgresql://u:${env:P}@/d?host=evil",
        "sqlite:///${env:P}.db",
        "https://u:${env:P}@h /",
        "https://u:${env:P }@h/",
        "postgresql://u:${env:P}@h/d?%68ost=127.0.0.1&%70ort=45998",
        "postgresql://u@h/d?hostaddr=1.2.3.4",
        "postgresql://u@h/d?service=other",
        "postgresql://u@h/d?sslmode=disable",
        "postgresql://u@h/d?passfile=/home/me/notes",
        "postgresql://u@h/host=evil port=1",
        "postgresql://u@h1:1,h2:2/d",
        "postgresql:///d?host=/tmp",
        "https://h/x?y=1",
        "mysql://u@h/d",
        "databricks://profile",
        "databricks",
        "arn:aws:sagemaker:us-east-1:1:x",
        " http://evil:9911/",
        "\nhttp://evil/",
        "\x0chttp://evil/",
        "\xa0http://evil/",
        " databricks",
        "ledger\0.db",
        "http://evil/\u200b",
    ],
)
def test_a_spec_that_could_send_something_elsewhere_is_refused(text, monkeypatch):
    monkeypatch.setenv("P", "hidden")
    monkeypatch.setenv("TUNE_VFL_HOSTS", "h,evil")
    for send in (storage_at, places.resolve_uri):
        with pytest.raises(UsageError, match=r"stands for a password only|a study file may name") as refused:
            send(StudyUrl(text))
        assert "hidden" not in str(refused.value)
    for field in ("storage", "tracking"):
        with pytest.raises(SpecError, match=rf"{field}: .*(stands for a password only|a study file may name)"):
            parse({"study": "s", "dataset": "wine", "defense": "laplace", field: text})


@pytest.mark.parametrize("text", ["ledger.db", "/a b/ledger.db", "sqlite:////x/y.db", "~/ledger.db"])
def test_a_spec_may_name_a_file(text):
    assert parse({"study": "s", "dataset": "wine", "defense": "laplace", "storage": text}).storage == text
    assert server_of(text) is None


def test_a_server_of_a_spec_is_put_together_from_what_was_understood(monkeypatch):
    monkeypatch.setenv("TUNE_VFL_HOSTS", "db.example, [::1]:5000")
    for text, url in {
        "postgresql://a@b@db.example/d?sslmode=verify-full": "postgresql://a%40b@db.example/d?sslmode=verify-full",
        "https://DB.example:443/x/y": "https://DB.example:443/x/y",
        "http://[::1]:5000": "http://[::1]:5000",
        "https://u\\:p@db.example": "https://u%5C:p@db.example",
    }.items():
        assert places.resolve_uri(StudyUrl(text)) == url


def test_what_clients_bring_along_goes_to_ones_own_servers_alone(monkeypatch):
    for text in ("http://127.0.0.1:45999", "postgresql://x@127.0.0.1:45998/y"):
        for send in (storage_at, places.resolve_uri):
            with pytest.raises(
                UsageError, match=r"MLFLOW_TRACKING_TOKEN.*to 127\.0\.0\.1:4599.*export TUNE_VFL_HOSTS=127"
            ):
                send(StudyUrl(text))
    assert storage_at("postgresql://x@127.0.0.1:45998/y").shown == "postgresql://x@127.0.0.1:45998/y", "a user typed it"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:45999")
    assert places.resolve_uri(StudyUrl("http://127.0.0.1:45999/")) == "http://127.0.0.1:45999/"


def test_a_url_is_shown_without_what_is_secret():
    for url, shown in {
        "postgresql://tune@h/ledger?password=x&sslpassword=y": "postgresql://tune@h/ledger",
        "postgresql://tune:p?w@h/ledger": "postgresql://tune@h/ledger",
        "postgresql://u:p@h1:1,h2:2/d?password=x": "postgresql://u@h1:1,h2:2/d",
        "postgresql://u:p@SECRET@h/d": "postgresql://u@h/d",
        "http://u:p@ss:SECRET@h:1/x": "http://u@h:1/x",
        "https://me:p@ml:5000/x": "https://me@ml:5000/x",
        "sqlite+pysqlite:////a%3Fb/ledger.db": "sqlite+pysqlite:////a%3Fb/ledger.db",
        "/a/ledger.db": "/a/ledger.db",
    }.items():
        assert hide_password(url) == shown


def test_what_a_spec_sends_is_listed(monkeypatch, run, tmp_path):
    spec = tmp_path / "study.yaml"
    spec.write_text(
        "study: s\ndataset: breast_cancer\ndefense: laplace\nattacks: [norm]\nbudget: {trials: 2, seeds: 1}\n"
        "tracking: https://me:${env:P}@mlflow.example:8443/x\n"
    )
    monkeypatch.setattr("tune_vfl.cli.plan.cost", lambda _planned: {"space": {}})
    told = json.loads(run("validate", spec, "--json")[1])["studies"][0]
    sent = {"field": "tracking", "variable": "P", "host": "mlflow.example:8443", "own": False}
    assert told["environment"] == [sent]
    code, _, err = run("search", spec)
    assert (code, "it would send P to mlflow.example:8443" in err) == (2, True)
    monkeypatch.setenv("TUNE_VFL_HOSTS", "mlflow.example:8443")
    told = json.loads(run("validate", spec, "--json")[1])["studies"][0]
    assert told["environment"] == [{**sent, "own": True}]


def test_a_password_is_seen_where_it_is_written_out():
    assert all(map(has_password, ["a://u:p@h", "a://u:p@s@h/d", "a://h?password=p", "a://h?x=1&sslpassword=p"]))
    assert not any(map(has_password, ["a://u@h", "a://u:${env:P}@h", "a://h?password=", "u:p@h", "a://h:5/d", ""]))


def test_a_token_is_made_for_its_owner_alone(user):
    make_token_private()
    first = token_file().read_text()
    assert len(first) == 64
    assert mode(token_file()) == 0o600
    assert mode(user / ".ray") == 0o700
    make_token_private()
    assert token_file().read_text() == first
    assert [p.name for p in token_file().parent.iterdir()] == ["auth_token"]


def test_a_token_that_others_could_read_is_closed_and_kept(user, capsys):
    token_file().parent.mkdir()
    token_file().write_text("from-ray")
    token_file().chmod(0o644)
    make_token_private()
    assert (mode(token_file()), token_file().read_text()) == (0o600, "from-ray")
    assert "could be read by other users" in capsys.readouterr().err
    make_token_private()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("name", "value"), [("RAY_AUTH_MODE", "disabled"), ("RAY_AUTH_TOKEN", "t"), ("RAY_AUTH_TOKEN_PATH", "/nowhere/t")]
)
def test_who_has_chosen_otherwise_is_left_alone(user, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    make_token_private()
    assert not (user / ".ray").exists()


@pytest.mark.parametrize(
    "url",
    ["postgresql://u:p@SECRET@h/d", "postgresql://u@h1:1,h2:2/d", "postgresql://h:abc/x", "postgresql://u:p@[::1/x"],
)
def test_a_ledger_s_url_that_cannot_be_read_is_refused_with_the_way_to_write_it(url, monkeypatch):
    monkeypatch.setenv("TUNE_VFL_STORAGE", url)
    with pytest.raises(UsageError, match=r"cannot be read; several hosts are \?host=A:5432") as refused:
        storage_at()
    assert "SECRET" not in str(refused.value)


def test_a_token_s_place_that_is_no_file_keeps_its_mode(user, monkeypatch, tmp_path):
    """As root the path of a token could be a device that everybody needs."""
    folder = tmp_path / "device"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    keep_private(folder)
    assert mode(folder) == 0o777


LOADS = re.compile(
    r"pickle\.(load|Unpickler)|allow_pickle\s*=\s*True|joblib|\bshelve\b|marshal|yaml\.(load|unsafe_load|full_load)\b|weights_only\s*=\s*False"
)


def test_nothing_is_unpickled():
    """But for CIFAR's own batches, by an unpickler that knows plain types and arrays only."""
    texts = {"/".join(path.parts[-3:]): path.read_text(encoding="utf-8") for path in files()}
    assert [name for name, text in texts.items() if LOADS.search(text)] == ["data/reading/batches.py"]
    for name, text in texts.items():
        assert text.count("torch.load(") == text.count("weights_only=True"), name


def test_the_token_stands_in_the_home_of_tune_vfl_where_the_users_cannot_be_written(user, home, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "")  # put back after the test
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH")
    monkeypatch.setenv("HOME", "/proc")
    make_token_private()
    assert token_file().is_relative_to(home)
    assert (mode(token_file()), len(token_file().read_text())) == (0o600, 64)
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH")
    monkeypatch.setenv("TUNE_VFL_HOME", "/proc/none")
    with pytest.raises(UnreachableError, match=r"set RAY_AUTH_TOKEN_PATH to a file .*TUNE_VFL_HOME"):
        make_token_private()
