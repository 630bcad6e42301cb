"""The cluster files: accepted by Ray's own schema check, offline, usable from any folder, and closed by default."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tune_vfl.cluster.admission import SEAT

ROOT = Path(__file__).parents[2]
AWS, LOCAL = ROOT / "cluster.yaml", ROOT / "cluster" / "local.yaml"


def read(file):
    return yaml.safe_load(file.read_text(encoding="utf-8"))


@pytest.fixture
def raw():
    return read(AWS)


@pytest.fixture(params=[AWS, LOCAL], ids=lambda p: p.name)
def each(request):
    return read(request.param)


def start_of(raw, role):
    (start,) = [c for c in raw[f"{role}_start_ray_commands"] if "ray start" in c]
    return start


@pytest.mark.parametrize(("file", "head"), [(AWS, "head"), (LOCAL, "local.cluster.node")])
def test_ray_accepts_it(file, head):
    from ray.autoscaler._private.util import prepare_config, validate_config

    prepared = prepare_config(read(file))
    validate_config(prepared)
    assert prepared["available_node_types"][head]["max_workers"] == (0 if file == AWS else 1)


def test_ray_would_refuse_a_misspelled_field(raw):
    import jsonschema
    from ray.autoscaler._private.util import prepare_config, validate_config

    with pytest.raises(jsonschema.ValidationError):
        validate_config(prepare_config({**raw, "max_wokers": 3}))


def test_a_cpu_head_and_workers_of_both_kinds_from_zero(raw):
    types = raw["available_node_types"]
    assert raw["provider"]["type"] == "aws"
    assert {name: kind["resources"]["GPU"] for name, kind in types.items()} == {
        "head": 0,
        "cpu_worker": 0,
        "gpu_worker": 1,
    }
    workers = [kind for name, kind in types.items() if name != raw["head_node_type"]]
    assert all(kind["min_workers"] == 0 for kind in workers)
    assert raw["max_workers"] == sum(kind["max_workers"] for kind in workers), (
        "neither kind keeps the other from starting"
    )


@pytest.mark.parametrize("role", ["head", "worker"])
def test_every_ray_starts_with_a_token(each, role):
    before = start_of(each, role).partition("ray start")[0]
    assert "RAY_AUTH_MODE=token" in before
    assert 'RAY_AUTH_TOKEN_PATH="$HOME/.ray/auth_token"' in before
    assert [to for to in each["file_mounts"] if to.endswith("/.ray/auth_token")]
    assert "WORKING_DIR_CACHE_SIZE_GB=0" in before, "data that a job brought go with it"


def test_dashboard_on_loopback(each):
    assert "--dashboard-host=127.0.0.1" in start_of(each, "head")
    assert "0.0.0.0" not in str(each)  # noqa: S104


def test_nothing_depends_on_the_folder_where_it_is_typed(each):
    assert all(source.startswith("~/") for source in each["file_mounts"].values())


def test_what_searches_leave_lies_on_the_volume_that_stays(raw):
    (mount,) = [c for c in raw["head_setup_commands"] if "sudo mount" in c]
    assert "sudo mount $disk ~/lasting" in mount
    assert 'TUNE_VFL_HOME="$HOME/lasting/tune-vfl-home"' in start_of(raw, "head")
    assert 'TUNE_VFL_HOME="$HOME/lasting/tune-vfl-home"' in str(raw["setup_commands"])
    assert "," not in raw["provider"]["availability_zone"], "a volume is attached within its zone only"


def test_no_node_gets_full_rights(raw):
    types = raw["available_node_types"]
    assert types["head"]["node_config"]["IamInstanceProfile"] == {"Name": "tune-vfl-head"}
    assert [name for name, kind in types.items() if "IamInstanceProfile" in kind["node_config"]] == ["head"]
    assert all(kind["node_config"]["MetadataOptions"]["HttpTokens"] == "required" for kind in types.values())


def test_all_nodes_have_one_python_to_the_last_digit(raw):
    (made,) = [c for c in raw["setup_commands"] if "uv venv" in c]
    assert re.search(r"--managed-python --python \d+\.\d+\.\d+ ", made)


def test_all_nodes_hold_what_they_fetch_against_its_hashes(raw):
    """Made by cluster/wheels.sh for the nodes' own Python."""
    installing = [c for k in raw if k.endswith("setup_commands") for c in raw[k] if "uv pip install" in c]
    for line in installing:
        assert "-c ~/.tune-vfl/wheels/locked.txt " in line or "download.pytorch.org/whl/cpu torch==" in line
    assert len(installing) == 3
    (made,) = [c for c in raw["setup_commands"] if "uv venv" in c]
    script = (ROOT / "cluster" / "wheels.sh").read_text(encoding="utf-8")
    assert re.findall(r"--python(?:-version)? (\d+\.\d+\.\d+)", made + script) == ["3.12.12"] * 2
    assert "--generate-hashes" in script
    subprocess.run(["bash", "-n", str(ROOT / "cluster" / "wheels.sh")], check=True)


def test_all_nodes_can_keep_a_ledger_on_postgresql():
    assert '"tune-vfl[postgres]==' in (ROOT / "cluster" / "wheels.sh").read_text(encoding="utf-8")
    (needs,) = [c for c in read(LOCAL)["setup_commands"] if "ray==" in c]
    assert "'tune-vfl[postgres]'" in needs
    assert "'.[postgres]'" in (ROOT / "cluster" / "Dockerfile").read_text(encoding="utf-8")


def test_a_head_takes_so_many_drivers_and_lets_others_wait(raw):
    assert raw["available_node_types"]["head"]["resources"][SEAT] == 8
    assert [name for name, kind in raw["available_node_types"].items() if SEAT in kind["resources"]] == ["head"]
    for file in (AWS, LOCAL):
        heads, workers = (start_of(read(file), role) for role in ("head", "worker"))
        assert "RAY_JOB_START_TIMEOUT_SECONDS=31536000" in heads, "after a quarter of an hour Ray would fail the job"
        assert "RAY_JOB_START_TIMEOUT_SECONDS" not in workers
    assert f"--resources='{{\"{SEAT}\": 8}}'" in start_of(read(LOCAL), "head")


def test_what_ray_keeps_is_in_a_folder_of_one_user(raw):
    for role in ("head", "worker"):
        start = start_of(raw, role)
        assert start.index("chmod 700 ~/ray\n") < start.index('--temp-dir="$HOME/ray/r"')


def test_no_other_ray_on_machines_of_one_s_own_is_touched():
    raw = read(LOCAL)
    assert "ray stop" not in str(raw)
    for role in ("head", "worker"):
        assert '--temp-dir="$HOME/.tune-vfl-node/ray"' in start_of(raw, role)
        assert "--dashboard-agent-listen-port=" in start_of(raw, role)


def test_every_command_is_whole(each):
    """A `` #`` inside a plain scalar starts a comment and silently shortens a shell command."""
    for command in [c for k in each if k.endswith("_commands") for c in each[k]]:
        checked = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, (command, checked.stderr)
