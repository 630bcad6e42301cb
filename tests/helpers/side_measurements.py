"""A measurement beside the trials that records its answers."""

from tune_vfl.driver.side_measurements import SideMeasurement


class Asking(SideMeasurement):
    """Sends a name to its worker.

    Attributes:
        answers: the worker's answers, and the outcomes of failures.
    """

    seconds_allowed = None

    def __init__(self, name):
        super().__init__()
        self.name, self.answers = name, []

    def message(self):
        return {"asks": self.name}

    def _keep(self, answer):
        self.answers.append(answer)

    def _fail(self, outcome):
        self.answers.append(outcome.outcome)


class Empty:
    """A study without a trial, which counts how often it was asked for one."""

    taken = 0

    def __init__(self):
        self.asked = 0

    @property
    def has_pending(self):
        self.asked += 1
        return False
