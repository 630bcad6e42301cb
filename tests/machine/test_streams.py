"""What cannot be printed is shown by its nearest letters, and a closed stream stops nobody."""

import os
import shlex
import subprocess
import sys

import pytest

PRINT = "from tune_vfl.machine.streams import accept_all_text as f; f(); f(); import sys; print({!r}, file=sys.{})"


def printed(text: str, stream: str = "stdout", encoding: str = "ascii") -> str:
    ran = subprocess.run(
        [sys.executable, "-c", PRINT.format(text, stream)],
        env=os.environ | {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
        capture_output=True,
        check=True,
    )
    return getattr(ran, stream).decode(encoding).rstrip("\n")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (".763 ± .026", ".763 +/- .026"),
        ("Zürich, naïve", "Zurich, naive"),
        ("三", "?"),
        ("a\udc80b", "a?b"),
        ("ok", "ok"),
    ],
)
def test_the_nearest_letters_are_shown(text: str, shown: str) -> None:
    assert printed(text) == shown


def test_a_stream_that_can_show_all_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed("± ü 三", encoding="utf-8") == "± ü 三"
    assert printed("± ü", "stderr") == "+/- u"
    assert printed("± ü 三", encoding="latin-1") == "± ü ?"


@pytest.mark.parametrize("broken", ["2>/dev/full", "2> >(exit)", "2>/dev/full >/dev/null"])
def test_messages_that_cannot_be_written_are_lost_and_nothing_else(broken: str) -> None:
    code = (
        "import sys, time, logging; from tune_vfl.machine import streams; streams.accept_all_text(); time.sleep(0.3)\n"
        "for _ in range(3000): sys.stderr.write('a line\\n'); streams.tell('another'); logging.error('x')\n"
        "import click; click.echo('y', err=True); print('done'); sys.exit(3)"
    )
    command = f"{sys.executable} -c {shlex.quote(code)} {broken}"
    ran = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, text=True, check=False)
    assert ran.returncode == 3
    assert ran.stdout == ("" if ">/dev/null" in broken else "done\n")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_stream_stops_nobody(closed: str) -> None:
    command = f"{sys.executable} -m tune_vfl --help {closed}"
    assert subprocess.run(["bash", "-c", command], capture_output=True, check=False).returncode == 0
