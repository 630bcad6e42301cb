"""The snippets of docs/cluster.md, held against what can be asked offline: Ray's schema, our profiles, our verbs."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")


def snippet(heading):
    section = TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    (block,) = [b for b in re.findall(r"```yaml\n(.*?)```", section, flags=re.DOTALL) if len(b) > 100]
    return block


def test_ray_accepts_google_s_parts_in_place_of_aws_s():
    from ray.autoscaler._private.util import prepare_config, validate_config

    aws = yaml.safe_load((ROOT / "cluster.yaml").read_text(encoding="utf-8"))
    google = yaml.safe_load((ROOT / "cluster/google-parts.yaml").read_text(encoding="utf-8"))
    validate_config(prepare_config({**aws, **google}))
    assert set(google["available_node_types"]) == set(aws["available_node_types"])
    kept = google["available_node_types"]["head"]["node_config"]["disks"][1]
    assert kept["autoDelete"] is False


def test_the_job_on_kubernetes_wants_a_token_and_the_ray_that_is_installed():
    job = yaml.safe_load((ROOT / "cluster/kubernetes.yaml").read_text(encoding="utf-8"))
    cluster = job["spec"]["rayClusterSpec"]
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    assert cluster["authOptions"] == {"mode": "token"}
    assert cluster["rayVersion"] == version("ray")
    pod = cluster["headGroupSpec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounted = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
    assert set(mounted) == {v["name"] for v in pod["volumes"]}
    (home,) = [e["value"] for e in container["env"] if e["name"] == "TUNE_VFL_HOME"]
    assert home.startswith(mounted["lasting"])


def test_the_job_s_command_is_one_of_ours(run, tmp_path):
    job = yaml.safe_load((ROOT / "cluster/kubernetes.yaml").read_text(encoding="utf-8"))
    program, verb, spec, option = job["spec"]["entrypoint"].split()
    assert (program, option) == ("tune-vfl", "--json")
    code, _, err = run(verb, tmp_path / Path(spec).name, option)
    assert (code, "study.yaml" in err) == (2, True), "the spec is missing, and nothing else"


def test_the_described_cluster_is_read(tmp_path, monkeypatch):
    from tune_vfl.cluster.profiles import find_profile, profiles_file

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    profiles_file().parent.mkdir()
    profiles_file().write_text(snippet("Submit"))
    assert find_profile("lab").home == "/data/tune-vfl"


@pytest.mark.parametrize(
    "file", ["cluster.yaml", "cluster/local.yaml", "cluster/google-parts.yaml", "cluster/kubernetes.yaml"]
)
def test_every_file_that_the_page_names_is_there(file):
    assert f"`{file}`" in TEXT
    assert (ROOT / file).is_file()
