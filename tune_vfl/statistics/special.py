"""scipy's special functions, without a tenth of a second of numpy that nobody wants.

As it is imported, scipy looks at everything that numpy has under a name, for which numpy would import its tools for
Fortran. Whoever wants these functions imports them from here, when they are called.
"""

from __future__ import annotations

import numpy as np

_wanted = "f2py" in vars(np)
vars(np).setdefault("f2py", None)
try:
    from scipy.special import erfcx, nctdtr, ndtr, ndtri, stdtrit
finally:
    if not _wanted:
        del vars(np)["f2py"]

__all__ = ["erfcx", "nctdtr", "ndtr", "ndtri", "stdtrit"]
