"""The command ``tune-vfl``, and ``python -m tune_vfl``: nothing is imported before Ctrl-C is answered."""

import sys


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        from tune_vfl.cli.main import main as run

        return run()
    except KeyboardInterrupt:
        sys.stderr.write("tune-vfl: interrupted before anything was begun\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
