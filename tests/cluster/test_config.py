"""The cluster files: accepted by Ray's own schema check, offline, usable from any folder, and closed by default."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

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
    (start,) = [c for c in raw[f"{role}_start_ray_commands"] if re.search(r"(ray|node) start", c)]
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


def test_cpu_head_and_gpu_workers_from_zero(raw):
    types = raw["available_node_types"]
    head, workers = types[raw["head_node_type"]], [t for n, t in types.items() if n != raw["head_node_type"]]
    assert raw["provider"]["type"] == "aws"
    assert head["resources"]["GPU"] == 0
    assert workers
    assert all(w["min_workers"] == 0 and w["resources"]["GPU"] >= 1 for w in workers)


@pytest.mark.parametrize("role", ["head", "worker"])
def test_every_ray_starts_with_a_token(each, role):
    before = re.split(r"(?:ray|node) start", start_of(each, role))[0]
    assert "RAY_AUTH_MODE=token" in before
    assert 'RAY_AUTH_TOKEN_PATH="$HOME/.ray/auth_token"' in before
    assert [to for to in each["file_mounts"] if to.endswith("/.ray/auth_token")]


def test_dashboard_on_loopback(each):
    assert "--dashboard-host=127.0.0.1" in start_of(each, "head")
    assert "0.0.0.0" not in str(each)  # noqa: S104


def test_nothing_depends_on_the_folder_where_it_is_typed(each):
    assert all(source.startswith("~/") for source in each["file_mounts"].values())


def test_what_searches_leave_lies_on_the_volume_that_stays(raw):
    (mount,) = [c for c in raw["head_setup_commands"] if "tune_vfl.cluster.volume" in c]
    place = mount.split()[-1].replace("~", "$HOME")
    assert raw["head_setup_commands"].index(mount) > 0, "what mounts it is installed first"
    assert f'TUNE_VFL_HOME="{place}/tune-vfl-home"' in start_of(raw, "head")
    assert f'TUNE_VFL_HOME="{place}/tune-vfl-home"' in str(raw["setup_commands"])
    head = raw["available_node_types"]["head"]["node_config"]
    assert "," not in raw["provider"]["availability_zone"], "a volume is attached within its zone only"
    assert all("vol-" not in str(d) for d in head["BlockDeviceMappings"]), "disks of the head go with it"


def test_what_ray_keeps_is_in_a_folder_of_one_user(raw):
    for role in ("head", "worker"):
        start = start_of(raw, role)
        assert start.index("mkdir -p -m 700 ~/ray") < start.index('--temp-dir="$HOME/ray"')


def test_no_other_ray_on_machines_of_one_s_own_is_touched():
    raw = read(LOCAL)
    assert "ray stop" not in str(raw)
    for role in ("head", "worker"):
        assert "tune_vfl.cluster.node start" in start_of(raw, role)
        assert "--dashboard-agent-listen-port=" in start_of(raw, role)


def test_no_command_was_cut_by_a_yaml_comment(each):
    # A " #" inside a plain scalar starts a comment and silently shortens a shell command.
    keys = [k for k in each if k.endswith("_commands")]
    for command in [c for k in keys for c in each[k]]:
        assert command.count("'") % 2 == 0, command
        assert command.count('"') % 2 == 0, command
