"""Every registered attack keeps the contract."""

import pytest

from tune_vfl.attacks.base import ATTACKS
from tune_vfl.testing.attacks import AttackContract


class TestEveryAttack(AttackContract):
    @pytest.fixture(params=ATTACKS.names())
    def attack_class(self, request):
        return ATTACKS[request.param]
