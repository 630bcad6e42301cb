"""Grants: what is kept of a training is asked of them, and nothing is handed out that an attack does not list."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tune_vfl.attacks.base import ATTACKS, Attack, AttackCapabilities
from tune_vfl.defenses.base import defense_params
from tune_vfl.errors import NotGrantedError, UnknownNameError
from tune_vfl.evaluation.grants.base import GRANTS, Grant, keepers_for, view_of
from tune_vfl.evaluation.keeper import Keeper
from tune_vfl.evaluation.measuring import measured
from tune_vfl.evaluation.resolving import open_task
from tune_vfl.evaluation.training import train_pack, untrained
from tune_vfl.protocol.members import Pack
from tune_vfl.protocol.view import Answer, View
from tune_vfl.spec import Strict, parse

PACK = Pack((0, 1), 1)
NONE = defense_params("none", {}, num_classes=2)


def task() -> Any:
    raw = {"study": "s", "dataset": "breast_cancer", "defense": "none", "attacks": ["norm"], "training": {"epochs": 3}}
    return open_task(parse({**raw, "budget": {"trials": 1, "seeds": 2}}))


class NormSums(Keeper):
    """Adds up the lengths of each row's gradients."""

    def begin(self, loop: Any) -> None:
        self.sums = torch.zeros(*loop.lead, self.rows)
        self.ended = False

    def gradient_received(self, gradient: Any, *, party: int, ids: Any, epoch: int, step: int) -> None:
        self.sums.scatter_add_(-1, ids, gradient.norm(dim=-1) * ids.shape[-1])

    def end(self, loop: Any) -> None:
        self.ended = True

    def of_members(self, members: torch.Tensor) -> NormSums:
        some = super().of_members(members)
        some.sums = self.sums[members]
        return some


class GradientNorms(Grant):
    """A grant of one's own."""

    name = "gradient_norms"
    keeps = (NormSums,)

    def hand_out(self, attack: Any, run: Any) -> torch.Tensor:
        return run.kept(NormSums).sums


class NormHistory(Attack[Strict]):
    """An attack that must see something new."""

    name = "norm_history"
    capabilities = AttackCapabilities(classes="binary", sees=frozenset({"gradient_norms"}))

    def run(self, view: View) -> dict[str, Answer]:
        norms = view.granted("gradient_norms")
        return {"norm_history": Answer(scores=norms, ids=torch.arange(norms.shape[-1]).expand(norms.shape))}


def test_a_grant_of_ones_own_is_kept_for_handed_out_and_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    GRANTS.names()
    monkeypatch.setitem(GRANTS._known, "gradient_norms", GradientNorms)
    attack, opened = NormHistory(), task()
    run = train_pack(opened, [NONE], PACK, [attack])
    assert run.kept(NormSums).ended
    assert set(view_of(attack, run).held) == {"gradient_norms"}
    assert torch.equal(view_of(attack, run.member(1)).granted("gradient_norms"), run.kept(NormSums).sums[1])
    table = measured(run, [attack])
    assert len(table["attack", "norm_history", "norm_history", "success"]) == 2
    assert all(0.5 <= s <= 1 for s in table["attack", "norm_history", "norm_history", "success"])


def test_keeping_something_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    GRANTS.names()
    monkeypatch.setitem(GRANTS._known, "gradient_norms", GradientNorms)
    plain, watched = (train_pack(task(), [NONE], PACK, attacks) for attacks in ([], [NormHistory()]))
    assert plain.keepers == {}
    for a, b in zip(plain.network.parameters(), watched.network.parameters(), strict=True):
        assert torch.equal(a, b)


def test_an_unknown_grant_is_answered_with_the_nearest() -> None:
    class Asking(NormHistory):
        capabilities = AttackCapabilities(sees=frozenset({"gradient"}))

    with pytest.raises(UnknownNameError, match=r"unknown grant 'gradient'. Did you mean 'gradients'\?"):
        keepers_for([Asking()])


def test_before_a_training_there_is_nothing_that_must_be_kept_of_one() -> None:
    run = untrained(task(), PACK)
    spectral = ATTACKS["spectral"](ATTACKS["spectral"].Params(source="gradient"))
    with pytest.raises(NotGrantedError, match="'gradients'"):
        spectral.run(view_of(spectral, run))
    assert view_of(ATTACKS["pmc"](), run).bottom() is not run.network.bottoms[0]


def test_every_grant_is_asked_for_and_every_name_asked_for_is_one() -> None:
    asked = {name for attack in ATTACKS for name in ATTACKS[attack].capabilities.sees}
    unknown = asked - set(GRANTS.names())
    assert not unknown, f"some `sees` lists {unknown}; a grant is a class with @grant in tune_vfl/evaluation/grants/"
    assert set(GRANTS.names()) - asked <= {"class_prior"}, "a grant that no attack lists in `sees` is left out"
