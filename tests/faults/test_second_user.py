"""Another account of the machine gets in nowhere."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.faults.second_user import ROOT


@pytest.mark.slow  # a UI, a Ray head and three verbs: half a minute
@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("useradd"), reason="only root can add an account")
def test_no_way_leads_in() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.faults.second_user"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert ran.returncode == 0, ran.stderr
    tried = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(tried) == 24
    assert [attempt for attempt in tried if attempt["leads in"]] == []
    broken = ("ModuleNotFoundError", "ConnectionRefused", "TypeError", "NameError", "no answer")
    assert [attempt for attempt in tried if attempt["said"].startswith(broken)] == [], "each was really tried"
