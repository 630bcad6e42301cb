"""A measurement beside the trials that records its answers."""

from tests.helpers.simulated import simulated_cell, simulated_spec
from tune_vfl.driver.side_measurements import SideMeasurement
from tune_vfl.execution.jobs import Job


class Asking(SideMeasurement):
    """Sends a name to its worker.

    Args:
        name: what it asks for.
        parts: jobs until it is over; of references the first one is enough for trials.

    Attributes:
        answers: the worker's answers, and the outcomes of failures.
    """

    what = "something"

    def __init__(self, name, parts=1):
        super().__init__()
        self.name, self.answers, self._parts = name, [], parts

    @property
    def enough(self):
        return bool(self.answers)

    def job(self):
        return Job(simulated_cell(simulated_spec("study")), "", {"": {}}, asks=self.name)

    def learn(self, answer):
        self.answers.append(answer)
        if len(self.answers) < self._parts:
            self.over = self._begun = False

    def fail(self, outcome):
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
