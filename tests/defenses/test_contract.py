"""Every registered defense keeps the contract."""

from tune_vfl.testing.defenses import DefenseContract


class TestRegisteredDefenses(DefenseContract):
    names = None
