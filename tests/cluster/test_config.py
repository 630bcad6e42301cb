"""cluster.yaml: accepted by Ray's own schema check, offline, and closed by default."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

CLUSTER = Path(__file__).parents[2] / "cluster.yaml"


@pytest.fixture
def raw():
    return yaml.safe_load(CLUSTER.read_text(encoding="utf-8"))


def test_ray_accepts_it(raw):
    from ray.autoscaler._private.util import prepare_config, validate_config

    prepared = prepare_config(raw)
    validate_config(prepared)
    assert prepared["available_node_types"]["head"]["max_workers"] == 0


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


@pytest.mark.parametrize("commands", ["head_start_ray_commands", "worker_start_ray_commands"])
def test_every_ray_starts_with_a_token(raw, commands):
    (start,) = [c for c in raw[commands] if "ray start" in c]
    before = start.split("ray start")[0]
    assert "RAY_AUTH_MODE=token" in before
    assert "RAY_AUTH_TOKEN_PATH=" in before
    assert "/home/ubuntu/.ray/auth_token" in raw["file_mounts"]


def test_dashboard_on_loopback(raw):
    (start,) = [c for c in raw["head_start_ray_commands"] if "ray start" in c]
    assert "--dashboard-host=127.0.0.1" in start
    assert "0.0.0.0" not in CLUSTER.read_text(encoding="utf-8")  # noqa: S104


def test_no_command_was_cut_by_a_yaml_comment(raw):
    # A " #" inside a plain scalar starts a comment and silently shortens a shell command.
    keys = [k for k in raw if k.endswith("_commands")]
    for command in [c for k in keys for c in raw[k]]:
        assert command.count("'") % 2 == 0, command
        assert command.count('"') % 2 == 0, command
