"""What stands at the place of a file that is written: nothing, a file, a link, a pipe, a device, an open file."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.helpers.mounts import among_own_mounts
from tests.helpers.refusals import refusal
from tune_vfl.errors import UnwritableError
from tune_vfl.machine.files import is_stdout, written_out, written_whole

WRITE = "import sys; from pathlib import Path; from tune_vfl.machine.files import written_out\n"
WRITE += "with written_out(Path(sys.argv[1])) as draft: draft.write_text('new')"


def written(path: Path, text: str = "new") -> None:
    with written_out(path) as draft:
        draft.write_text(text)


@pytest.mark.parametrize("how", [written_whole, written_out])
def test_the_old_file_stays_when_the_new_one_fails(how, tmp_path):
    target = tmp_path / "f.csv"
    target.write_text("old")

    def fail_half_way():
        with how(target) as draft:
            draft.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]
    with how(target) as draft:
        draft.write_text("new")
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "f").write_text("old")
    (tmp_path / "to").symlink_to("real/f")
    (tmp_path / "link").symlink_to(tmp_path / "to")
    (tmp_path / "new").symlink_to("real/new")  # which does not exist yet
    for name, behind in (("link", "real/f"), ("new", "real/new")):
        written(tmp_path / name)
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / behind).read_text() == "new"
    assert (tmp_path / "to").is_symlink()
    (tmp_path / "ring").symlink_to("ring")
    with refusal("ring", "symbolic links", error=UnwritableError):
        written(tmp_path / "ring")


def test_the_reader_of_a_pipe_gets_the_content(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_text()))
    reader.start()
    written(tmp_path / "pipe", "a" * 200_000)  # more than a pipe holds
    reader.join()
    assert got == ["a" * 200_000]
    assert (tmp_path / "pipe").is_fifo()


def test_a_pipe_without_a_reader_any_more_is_said(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        with refusal("Broken pipe", error=UnwritableError):
            written(Path(f"/dev/fd/{writing}"))
    finally:
        os.close(writing)


def test_a_device_stays_one_and_a_full_one_is_said():
    written(Path(os.devnull))
    assert Path(os.devnull).is_char_device()
    if Path("/dev/full").exists():
        with refusal("/dev/full", "No space left", error=UnwritableError):
            written(Path("/dev/full"))
        assert Path("/dev/full").is_char_device()


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1"])
def test_the_output_goes_on_where_it_was(name, tmp_path):
    command = f'(echo before; {sys.executable} -c "$0" {name}; echo after) > out'
    subprocess.run(["bash", "-c", command, WRITE], cwd=tmp_path, check=True)
    assert (tmp_path / "out").read_text() == "before\nnewafter\n"


def test_what_a_shell_puts_between_brackets_is_written(tmp_path):
    command = f'{sys.executable} -c "$0" >(cat > got); wait $!'
    subprocess.run(["bash", "-c", command, WRITE], cwd=tmp_path, check=True)
    assert (tmp_path / "got").read_text() == "new"


def test_folders_sockets_and_the_dash_are_refused_and_stay(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with refusal("is a folder", error=UnwritableError):
        written(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        with refusal("a disk or a socket", error=UnwritableError):
            written(Path("socket"))
    with refusal("/dev/stdout", "whole path", error=UnwritableError):
        written(Path("./-"))
    assert [p.name for p in tmp_path.iterdir()] == ["socket"]
    assert Path("socket").is_socket()
    written(tmp_path / "-")
    assert (tmp_path / "-").read_text() == "new"


def test_a_private_file_stays_private_and_a_new_one_is_as_the_user_wants_it(tmp_path):
    private = tmp_path / "private"
    private.write_text("old")
    private.chmod(0o600)
    before = os.umask(0o027)
    try:
        written(private)
        written(tmp_path / "made")
    finally:
        os.umask(before)
    assert (private.stat().st_mode & 0o777, (tmp_path / "made").stat().st_mode & 0o777) == (0o600, 0o640)


def test_a_protected_file_stays_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # as it is for everybody but root
    (tmp_path / "f").write_text("old")
    with refusal("write-protected", error=UnwritableError):
        written(tmp_path / "f")
    assert (tmp_path / "f").read_text() == "old"


def test_a_file_that_is_mounted_by_itself_is_written(tmp_path):
    (tmp_path / "f").write_text("a longer old one")
    (tmp_path / "outside").write_text("old")
    said = among_own_mounts('mount --bind outside f && "$0" -c "$1" f && ls -A', tmp_path, WRITE)
    assert said.split() == ["f", "outside"]
    assert (tmp_path / "outside").read_text() == "new"


def test_the_output_is_known_by_what_it_is(tmp_path):
    assert is_stdout(Path("/dev/stdout"))
    assert not is_stdout(tmp_path / "none")
