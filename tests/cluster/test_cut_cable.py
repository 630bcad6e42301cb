"""cluster/local.yaml on two machines made of network namespaces, whose cable is cut for two minutes during a search.

Each machine has an address and a home of its own, and sees nobody else's; the table that is searched is on neither, but
travels from the client. The commands are those of docs/cluster.md. By hand, as root, in about ten minutes:

    python -m pytest -m slow -n0 -s tests/cluster/test_cut_cable.py
"""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

from tests.cluster.test_local_over_ssh import NEEDED, SPEC, SSHD, Machines, story

CUT_SECONDS = 120
TRIALS = 60
# A trial takes some seconds, so that both machines are at work before the cable is cut, while it is, and afterwards.
SLOW = {
    **SPEC,
    "dataset": {"name": "csv", "path": "loans.csv", "label": "y", "parties": {"passive": ["a", "b"], "active": ["c"]}},
    "training": {"epochs": 100, "batch_size": 16},
    "budget": {"trials": TRIALS, "seeds": 1},
}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not all(NEEDED.values()), reason=f"needs {', '.join(k for k, v in NEEDED.items() if not v)}"),
    pytest.mark.skipif(os.getuid() != 0 or not shutil.which("ip"), reason="needs root, and ip (Debian's iproute2)"),
]


def sh(*words: object) -> None:
    subprocess.run([str(word) for word in words], check=True)


class TwoMachines(Machines):
    """A bridge with the client at it, and two cables to namespaces; in each an sshd that sees its own home alone."""

    head, worker, client_address = "10.77.0.1", "10.77.0.2", "10.77.0.254"

    def _serve(self) -> list[subprocess.Popen[bytes]]:
        sh("ip", "link", "add", "tvb", "type", "bridge")
        sh("ip", "addr", "add", f"{self.client_address}/24", "dev", "tvb")
        sh("ip", "link", "set", "tvb", "up")
        return [self._machine(address, home) for address, home in self.homes.items()]

    def _machine(self, address: str, home: Path) -> subprocess.Popen[bytes]:
        name = f"tv{home.name}"
        sh("ip", "netns", "add", name)
        sh("ip", "link", "add", name, "master", "tvb", "type", "veth", "peer", "name", "eth0", "netns", name)
        sh("ip", "link", "set", name, "up")
        for command in (("addr", "add", f"{address}/24", "dev", "eth0"), ("link", "set", "eth0", "up")):
            sh("ip", "-n", name, *command)
        sh("ip", "-n", name, "link", "set", "lo", "up")
        config = self.folder / f"sshd_{home.name}"
        config.write_text(self._sshd_config({address: home}))
        others = [other for other in (self.client, self.folder / "r", *self.homes.values()) if other != home]
        hidden = " && ".join(f"mount -t tmpfs none {other}" for other in others)
        alone = ["ip", "netns", "exec", name, "unshare", "--mount", "--propagation", "private"]
        return subprocess.Popen([*alone, "sh", "-c", f"{hidden} && exec {SSHD} -D -e -f {config}"])

    def cut(self, done: list[int]) -> None:
        """Cut the worker's cable once both machines have trained, and put it back; note what was done before and after.

        Args:
            done: gets the number of finished trials before the cut, and when the cable is back.
        """
        while self.ended()["ok"] < TRIALS // 6:
            time.sleep(1)
        for up in ("down", "up"):
            sh("ip", "link", "set", "tvw", up)
            done.append(self.ended()["ok"])
            if up == "down":
                time.sleep(CUT_SECONDS)

    def ended(self) -> Counter[str]:
        """Return how many trials ended how, or were lost by which failure, from the head's ledger."""
        ledger = self.homes[self.head] / "tune-vfl-home" / "ledger.db"
        if not ledger.is_file():
            return Counter()
        with closing(sqlite3.connect(f"{ledger.as_uri()}?mode=ro", uri=True, timeout=30)) as connection:
            return Counter(
                lost or outcome
                for outcome, lost in connection.execute("SELECT outcome, lost FROM trials WHERE outcome NOT NULL")
            )

    def remove(self) -> None:
        super().remove()
        for name in ("tvh", "tvw"):
            subprocess.run(["ip", "netns", "del", name], check=False)
        subprocess.run(["ip", "link", "del", "tvb"], check=False)


@pytest.fixture
def machines() -> Iterator[TwoMachines]:
    folder = Path(tempfile.mkdtemp(prefix="tv", dir="/tmp"))  # Ray's sockets need a short path
    found = TwoMachines(folder, SLOW)
    rows = (f"{k % 13},{k * 7 % 11},{k % 3},{int((k % 13) * (k % 7) > 20)}" for k in range(1000))
    (found.repository / "loans.csv").write_text("\n".join(["a,b,c,y", *rows, ""]))
    try:
        yield found
    finally:
        found.remove()


def test_a_search_on_a_table_that_travelled_outlives_a_cable_that_is_cut(machines: TwoMachines) -> None:
    lines = story()
    log = f"{machines.homes[machines.worker]}/.tune-vfl-node/log"
    up = f"timeout 120 sh -c 'until grep -sq \"runtime started\" {log}; do sleep 1; done'"
    submit = next(i for i, line in enumerate(lines) if "submit" in line)
    done: list[int] = []
    cutting = Thread(target=machines.cut, args=(done,), daemon=True)
    cutting.start()
    code, told = machines.type([*lines[:submit], up, *lines[submit:-1], "tune-vfl study pack loans", lines[-1]])
    sys.stdout.write(told)
    assert code == 0, told
    cutting.join(CUT_SECONDS)
    sys.stdout.write(f"finished trials when the cable was cut, and when it was back: {done}\n")
    ended = machines.ended()
    sys.stdout.write(f"{dict(ended)}\n")
    assert ended["ok"] == TRIALS
    assert set(ended) == {"ok", "node"}, "the worker was at work when its cable was cut"
    assert done[0] < done[1] <= TRIALS
    assert (machines.client / "tune-vfl-home" / "reports" / "loans" / "index.html").is_file()
    end = time.monotonic() + 180
    while machines.nodes() and time.monotonic() < end:
        time.sleep(1)
    assert machines.nodes() == []
    # What travelled is the study's in the head's home, and nowhere else.
    (copy,) = [path for home in machines.homes.values() for path in home.rglob("loans.csv")]
    assert copy.parents[1] == machines.homes[machines.head] / "tune-vfl-home" / "data" / "loans"
    assert copy.stat().st_mode & 0o777 == 0o600
