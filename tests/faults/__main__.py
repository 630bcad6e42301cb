"""The program that a fault meets: `python -m tests.faults '{...}'`, see tests/faults/driver.py."""

import gc
import json
import sys

from tune_vfl.machine.signals import Interrupted, answered

try:
    with answered(lambda: "left before anything was begun"):
        from tests.faults.driver import main

        code = main(json.loads(sys.argv[1]))
except Interrupted as interrupted:
    code = interrupted.exit_code
gc.freeze()  # as the command line does it: a last look of the collector takes a second
sys.exit(code)
