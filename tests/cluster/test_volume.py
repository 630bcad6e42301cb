"""The disk that a cluster leaves behind: waited for, attached, formatted once and never again."""

from __future__ import annotations

import pytest

from tune_vfl.cluster import volume
from tune_vfl.errors import TuneVflError


class Ec2:
    """A volume that goes through states, one a look."""

    def __init__(self, *states):
        self.states, self.attached = list(states), []

    def describe_volumes(self, VolumeIds):
        assert VolumeIds == ["vol-1"]
        state, *holders = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return {"Volumes": [{"State": state, "Attachments": [{"InstanceId": h} for h in holders]}]}

    def attach_volume(self, **asked):
        self.attached.append(asked["InstanceId"])


def test_a_volume_that_is_let_go_is_attached_once():
    ec2 = Ec2(["in-use", "old"], ["available"], ["in-use", "me"])
    volume.attach(ec2, "vol-1", "me", pause=0)
    assert ec2.attached == ["me"]


def test_one_that_is_attached_already_is_left_as_it_is():
    ec2 = Ec2(["in-use", "me"])
    volume.attach(ec2, "vol-1", "me", pause=0)
    assert ec2.attached == []


def test_one_that_another_machine_keeps_is_not_taken(monkeypatch):
    monkeypatch.setattr(volume, "PATIENCE_SECONDS", -1)
    ec2 = Ec2(["in-use", "other"])
    with pytest.raises(TuneVflError, match="attached to other; is another head up"):
        volume.attach(ec2, "vol-1", "me", pause=0)
    assert ec2.attached == []


@pytest.mark.parametrize(("blkid", "formatted"), [(2, True), (0, False), (4, False)])
def test_only_an_empty_disk_is_formatted(tmp_path, blkid, formatted):
    ran = []

    def run(*words):
        ran.append(words[1])
        return blkid if words[1] == "blkid" else 0

    volume.mount(tmp_path / "disk", tmp_path / "place", run)
    assert ran == ["blkid", *(["mkfs.ext4"] if formatted else []), "mount", "chown"]
    assert (tmp_path / "place").is_dir()


def test_what_fails_is_said(tmp_path, capsys):
    with pytest.raises(TuneVflError, match="sudo mount"):
        volume.mount(tmp_path / "disk", tmp_path / "place", lambda *words: int(words[1] == "mount"))
    assert volume.main(["vol-XYZ; rm", "x"]) == 2
    assert volume.main([]) == 2
    assert "expected the id of an EBS volume" in capsys.readouterr().err
