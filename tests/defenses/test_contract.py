"""Every registered defense keeps the contracts."""

from tune_vfl.testing.clients import ClientContract
from tune_vfl.testing.defenses import DefenseContract


class TestRegisteredDefenses(DefenseContract):
    names = None


class TestRegisteredDefensesAtClients(ClientContract):
    names = None
