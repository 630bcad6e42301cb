"""Make the samples beside this file with release 0.1.0: minutes, and a PostgreSQL of the tests' own.

    git clone . ../release && git -C ../release checkout 30e6c9b4
    unshare --uts sh -c 'hostname lab && PYTHONPATH=. python tests/samples/0.1.0/make.py ../release'

The dependencies are those of the environment; tune-vfl is the clone. Leases keep the name of the machine: lab.
"""

import gzip
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.helpers.postgres import Postgres, binaries

SAMPLES = Path(__file__).parent
LEFT, CONDITIONS = Path("half.yaml"), Path("board/breast_cancer.yaml")
CONFIRM = "confirm pair --seeds 3 --adaptive 0.05"
FINISHED_BEFORE_KILL = 3


class Release:
    """Its command line, with a home and a ledger of its own."""

    def __init__(self, clone: Path, home: Path, storage: str | None = None) -> None:
        place = {"TUNE_VFL_HOME": str(home), **({"TUNE_VFL_STORAGE": storage} if storage else {})}
        self._how: dict[str, Any] = {"cwd": SAMPLES, "env": {**os.environ, "PYTHONPATH": str(clone), **place}}
        where = [sys.executable, "-c", "import tune_vfl; print(tune_vfl.__file__)"]
        found = subprocess.run(where, check=True, capture_output=True, text=True, **self._how).stdout
        assert Path(found).is_relative_to(clone), found

    def start(self, words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tune_vfl", *words.split()]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True, **self._how)

    def __call__(self, words: str) -> str:
        print("tune-vfl", words, flush=True)
        program = self.start(words)
        out, _ = program.communicate()
        assert program.returncode == 0, program.returncode
        return out


def kill_in_flight(search: subprocess.Popen[str], ask: Callable[[str], list[Any]]) -> None:
    """End a search as ``kill -9`` does, once some trials are finished and another one is running."""
    while True:
        time.sleep(0.05)
        assert search.poll() is None, "it ended before it was killed"
        search.send_signal(signal.SIGSTOP)  # so that what is counted is still so when it is killed
        try:
            ((finished, asked),) = ask("SELECT COUNT(outcome), COUNT(*) FROM trials WHERE study = 'half'")
            if FINISHED_BEFORE_KILL <= finished < asked:
                search.kill()
                search.wait()
                return
        finally:
            search.send_signal(signal.SIGCONT)


def fill(release: Release, ask: Callable[[str], list[Any]]) -> None:
    """Make a finished, confirmed campaign and a killed study."""
    release(f"search {CONDITIONS}")
    release(CONFIRM)
    print("tune-vfl search half.yaml, killed", flush=True)
    kill_in_flight(release.start(f"search {LEFT}"), ask)


def without_places(said: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in said.items() if key != "mlflow"}


def in_sqlite(clone: Path, home: Path) -> None:
    release, ledger = Release(clone, home), home / "ledger.db"

    def ask(statement: str) -> list[Any]:
        with sqlite3.connect(ledger) as connection:
            return connection.execute(statement).fetchall()

    fill(release, ask)
    asked = ("status pair", "status half", CONFIRM)
    said = {words: json.loads(release(f"{words} --json"), object_hook=without_places) for words in asked}
    (SAMPLES / "said.json").write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    for name in ("pair", "half"):
        (SAMPLES / f"{name}.study").unlink(missing_ok=True)
        release(f"study pack {name}")
    release("export pair --select pair-breast_cancer-laplace#3 -o config.json")
    release("board add pair --board board")
    ask("PRAGMA wal_checkpoint(TRUNCATE)")
    (SAMPLES / "ledger.db.gz").write_bytes(gzip.compress(ledger.read_bytes(), mtime=0))


def in_postgres(clone: Path, home: Path) -> None:
    folder = binaries()
    assert folder is not None
    server = Postgres()
    try:
        url = server.fresh()
        fill(Release(clone, home, url), lambda statement: server.sql(statement, url))
        command = [str(folder / "pg_dump"), "--no-owner", "--no-privileges", url]
        dump = subprocess.run(command, check=True, capture_output=True).stdout
    finally:
        server.remove()
    # psql of before August 2025 knows no \restrict.
    lines = [line for line in dump.splitlines(keepends=True) if not line.startswith((b"\\restrict", b"\\unrestrict"))]
    (SAMPLES / "ledger.sql.gz").write_bytes(gzip.compress(b"".join(lines), mtime=0))


def main(clone: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        in_sqlite(clone, Path(folder) / "sqlite")
        in_postgres(clone, Path(folder) / "postgres")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
