"""Workers that are this process, for studies that are gone on with."""

from tests.confirmation.conftest import as_searched, here

__all__ = ["as_searched", "here"]
