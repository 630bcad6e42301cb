"""Workers that are this process, for tables that are run."""

from tests.driver.conftest import workers

__all__ = ["workers"]
