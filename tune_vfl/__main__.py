"""The command ``tune-vfl``, and ``python -m tune_vfl``: nothing is imported before Ctrl-C is answered."""

import gc
import sys


def main() -> int:
    """Run the command line and return its exit code."""
    # A verb makes much and throws little away: at its usual pace Python's collector takes a sixth of what imports take.
    gc.set_threshold(50_000, 20, 50)
    try:
        from tune_vfl.errors import UsageError
        from tune_vfl.machine.installs import naming_the_install
        from tune_vfl.machine.streams import complain

        try:
            with naming_the_install():
                from tune_vfl.cli.main import main as run
        except UsageError as error:
            complain([str(error)], error.anchor)
            return error.exit_code
        return run()
    except KeyboardInterrupt:
        sys.stderr.write("tune-vfl: interrupted before anything was begun\n")
        return 130
    finally:
        gc.freeze()  # a last look through all that is imported takes a second, and finds nothing of worth


if __name__ == "__main__":
    sys.exit(main())
