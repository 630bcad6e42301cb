"""The contract of every defense for the horizontal setting: a client's upload in place of its update.

Inherit :class:`ClientContract` beside :class:`tune_vfl.testing.defenses.DefenseContract`::

    class TestMineAtClients(ClientContract):
        names = ("my_defense",)  # None: all registered ones that are for the horizontal setting
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from tune_vfl.defenses.base import DEFENSES, Defense
from tune_vfl.seeds import generator
from tune_vfl.spec import Strict
from tune_vfl.testing.defenses import build, rows_for
from tune_vfl.testing.fitting import fitting, other
from tune_vfl.testing.gradients import CASES, MadeUpRows

TOLERANCE = 1e-5
"""Largest difference between a client of a cohort and the same client alone, per round."""
WIDTH = 37
ROUNDS = 4
_CASE = CASES[1]


def update_of(client: int, turn: int) -> Tensor:
    """Return a made-up update ``(1, WIDTH)`` of a client in a round."""
    return torch.randn(1, WIDTH, generator=generator(client, f"testing/update/{turn}")) * 0.1


def takes_part(client: int, turn: int) -> bool:
    """Say whether a client takes part in a round: most do."""
    return (client + turn) % 3 != 1


def alone(defense: type[Defense], params: Strict, client: int) -> Defense:
    """Return the defense of one client, set up on its rows."""
    return build(defense, params, _CASE, rows_for(defense, _CASE, client), client)


def uploads(made: Defense, update: Tensor, taking: Tensor | bool = True) -> Tensor:
    """Return the uploads; clients ``(*trials, 1, 1)`` that take no part upload 0, as in the loop of rounds."""
    part = torch.full((*update.shape[:-2], 1, 1), taking) if isinstance(taking, bool) else taking
    return torch.where(part, made.client_update(update, taking=part), 0.0)


class ClientContract:
    """The contract of every defense on the updates of clients.

    Attributes:
        names: the registered names to hold to the contract; None for all that are for the horizontal setting.
    """

    names: ClassVar[Sequence[str] | None] = None

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make a test for every defense."""
        defenses = [DEFENSES[name] for name in self.names or DEFENSES.names()]
        fit = [d for d in defenses if "horizontal" in d.capabilities.federations]
        metafunc.parametrize("defense", fit, ids=[d.name for d in fit])

    def test_uploads_are_finite_and_of_the_same_shape(self, defense: type[Defense]) -> None:
        """Shape and dtype stay, no number is lost, and the update that came in is left alone."""
        for scale in (1.0, 0.0, 1e9, 1e-25):
            for dtype in (torch.float32, torch.float64):
                made, update = alone(defense, fitting(defense, _CASE), 0), update_of(0, 0).to(dtype) * scale
                before = update.clone()
                for _ in range(2):
                    sent = uploads(made, update)
                    assert (sent.shape, sent.dtype) == (update.shape, dtype)
                    assert torch.isfinite(sent).all(), scale
                assert torch.equal(update, before)

    def test_the_weakest_setting_uploads_the_update(self, defense: type[Defense]) -> None:
        """Where a setting is declared to do nothing, it does nothing, round after round."""
        if defense.weakest is None:
            pytest.skip("declares no setting that does nothing")
        weakest = defense.Params.model_validate({**fitting(defense, _CASE).model_dump(), **defense.weakest})
        made = alone(defense, weakest, 0)
        for turn in range(ROUNDS):
            assert torch.equal(uploads(made, update_of(0, turn)), update_of(0, turn))

    def test_a_cohort_is_its_clients(self, defense: type[Defense]) -> None:
        """Clients of several trials in one pass upload the same as each alone, for any set of participants."""
        if not defense.capabilities.stackable:
            pytest.skip("declared as not stackable")
        members = [(p, c) for p in (fitting(defense, _CASE), other(defense, _CASE)) for c in range(3)]
        together = _cohort(defense, members)
        by_itself = [alone(defense, params, client) for params, client in members]
        for turn in range(ROUNDS):
            for member, (_, client) in enumerate(members):
                own = uploads(by_itself[member], update_of(client, turn), takes_part(client, turn))
                torch.testing.assert_close(together[turn][member], own, rtol=0, atol=TOLERANCE)

    def test_the_order_of_trials_and_clients_decides_nothing(self, defense: type[Defense]) -> None:
        """Turned round, a cohort uploads the same."""
        members = [(p, c) for p in (fitting(defense, _CASE), other(defense, _CASE)) for c in range(3)]
        for one, turned in zip(_cohort(defense, members), _cohort(defense, members[::-1]), strict=True):
            torch.testing.assert_close(turned.flip(0), one, rtol=0, atol=TOLERANCE)

    def test_nothing_is_kept_of_a_round_without_the_client(self, defense: type[Defense]) -> None:
        """Training in a round that a client takes no part in changes none of its later uploads."""
        sent = []
        for elsewhere in (1, 2):
            made = alone(defense, fitting(defense, _CASE), 0)
            uploads(made, update_of(0, 0))
            uploads(made, update_of(elsewhere, 1), taking=False)
            sent.append([uploads(made, update_of(0, turn)) for turn in (2, 3)])
        assert all(torch.equal(a, b) for a, b in zip(*sent, strict=True))

    def test_clients_and_rounds_draw_their_own_noise(self, defense: type[Defense]) -> None:
        """Two clients with equal updates, and two rounds of one client, never get the same noise."""
        first, second = (alone(defense, fitting(defense, _CASE), client) for client in (0, 1))
        update = update_of(0, 0)
        sent = uploads(first, update)
        if "gradients" in defense.capabilities.random:
            assert not torch.equal(sent, uploads(second, update))
            assert not torch.equal(sent, uploads(first, update))
        else:
            assert torch.equal(sent, uploads(second, update))


def _cohort(defense: type[Defense], members: Sequence[tuple[Strict, int]]) -> list[Tensor]:
    """Return the uploads of clients in one pass, round by round: ``(members, 1, WIDTH)`` each."""
    params, clients = [p for p, _ in members], [c for _, c in members]
    rows = MadeUpRows.stack([rows_for(defense, _CASE, c) for c in clients])
    made, sent = build(defense, params, _CASE, rows, clients), []
    for turn in range(ROUNDS):
        update = torch.stack([update_of(c, turn) for c in clients])
        taking = torch.tensor([takes_part(c, turn) for c in clients]).view(-1, 1, 1)
        sent.append(uploads(made, update, taking))
    return sent
