"""All that a page imports when it gets to it: what a search imports while its trials run, since nobody waits then."""

from __future__ import annotations

import jinja2  # noqa: F401
import matplotlib.backends.backend_agg
import matplotlib.backends.backend_svg
import matplotlib.figure  # noqa: F401
