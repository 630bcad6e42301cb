"""An errand that only notes what it is told."""

from tune_vfl.search.errands import Errand


class Asking(Errand):
    """Asks for what it is given.

    Attributes:
        told: the answer that it was told, or why there is none.
    """

    seconds_allowed = None

    def __init__(self, what):
        super().__init__()
        self.what, self.told = what, []

    def _pack(self):
        return {"asks": self.what}

    def _keep(self, answer):
        self.told.append(answer)

    def _fail(self, why):
        self.told.append(why)
