"""Python programs that run a study beside the tests, so that they can be interrupted and killed."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap


def shared_ray() -> str:
    """Return the address of the Ray that the tests of this process share, which is started where it is not up yet."""
    import ray

    from tune_vfl.search import ray_session

    with ray_session.quiet_tune():
        ray_session.connect()
    return str(ray.get_runtime_context().gcs_address)


def start_driver(code: str, *arguments: object, ray: str | None = None) -> subprocess.Popen[str]:
    """Start a program in a session of its own, as a terminal does.

    Args:
        code: the program.
        arguments: what it finds in ``sys.argv``.
        ray: the address of a Ray to connect to. None lets the program start its own, which takes some ten seconds of a
            core, and is for tests of what becomes of both.
    """
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **({"RAY_ADDRESS": ray} if ray else {})},
    )
