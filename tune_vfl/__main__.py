"""The command ``tune-vfl``, and ``python -m tune_vfl``: nothing is imported before Ctrl-C is answered."""

import gc
import os
import sys

STOPPED = (130, 143)


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        from tune_vfl.cli.main import main as run
        from tune_vfl.machine.signals import go_for_good

        go_for_good()
        # A verb makes much and throws little away: Python's collector would look through all of it again and again.
        gc.set_threshold(50_000, 20, 50)
        code = run()
        # All of it goes with the process: nothing is gained by looking through it once more.
        gc.freeze()
    except KeyboardInterrupt:
        sys.stderr.write("tune-vfl: interrupted before anything was begun\n")
        code = STOPPED[0]
    if code in STOPPED:
        # Everything is put away. Ray would now wait for a minute for what the same signal has ended.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
