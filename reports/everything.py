"""Preload a report's lazy imports, while the trials of a search run."""

from __future__ import annotations

import jinja2  # noqa: F401
import matplotlib.backends.backend_agg
import matplotlib.backends.backend_svg
import matplotlib.figure  # noqa: F401
