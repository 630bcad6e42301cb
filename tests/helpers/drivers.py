"""Python programs that run a study beside the tests, so that they can be interrupted and killed."""

import os
import textwrap
from pathlib import Path

from tests.helpers.ready import Program, start


def shared_ray() -> str:
    """Return the address of the Ray that the tests of this process share, which is started where it is not up yet."""
    import ray

    from tune_vfl.execution import ray_session

    with ray_session.quiet_tune():
        ray_session.connect()
    return str(ray.get_runtime_context().gcs_address)


def start_driver(code: str, *arguments: object, ray: str) -> Program:
    """Start a program in a session of its own, as a terminal does.

    Args:
        code: the program.
        arguments: what it finds in ``sys.argv``.
        ray: the address of a Ray to connect to.
    """
    environment = {**os.environ, "RAY_ADDRESS": ray}
    return start(None, textwrap.dedent(code), list(map(str, arguments)), cwd=Path.cwd(), env=environment)
