"""EM over visits by an attacker who knows which defense runs at which setting."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from tests.helpers.cells import cells
from tune_vfl.defenses.base import DEFENSES, defense_params
from tune_vfl.evaluation.grants.base import view_of
from tune_vfl.evaluation.grants.visits import KeptVisits
from tune_vfl.evaluation.scoring import score_answer
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Training


def trained(name, settings, seeds=(0, 1), epochs=12):
    """Return what stays of a pack whose members have these settings."""
    cell = cells(f"training.epochs={epochs}", "dataset.name=breast_cancer", defense=name, attacks=["gradient_em"])()
    task = Task.open(cell)
    params = [defense_params(name, given, num_classes=2) for given in settings]
    return task, train_pack(task, params, Pack(seeds, len(params)), task.watching)


def found_in(task, run):
    """Return each variant's success by member."""
    answers = task.watching[0].run(view_of(task.watching[0], run))
    return {
        name: score_answer(a, run.y_train, run.y_test, 2, list(run.pack.seeds))["success"]
        for name, a in answers.items()
    }


def kept(defense, gradient):
    """Return the keeper of a training of one epoch, of one step."""
    keeper = KeptVisits([], Training(epochs=1), gradient.shape[-2])
    keeper.begin(SimpleNamespace(hooks=[defense]))
    ids = torch.arange(gradient.shape[-2]).expand(gradient.shape[:-1])
    keeper.inputs(SimpleNamespace(ids=ids), None, epoch=0)
    keeper.send_embedding(torch.zeros_like(gradient), party=0)
    keeper.gradient_received(gradient, party=0, ids=ids, epoch=0, step=0)
    return keeper


def test_what_ppdl_sends_at_a_members_bound_counts_as_nothing_and_all_else_stays():
    cls = DEFENSES["ppdl"]
    bounds = [1e-3, 2e-3]
    defense = cls([cls.Params(bound=b) for b in bounds], num_classes=2, embedding_dims=[3])
    sent = torch.tensor([[1e-3, -1e-3, 2e-3], [-2e-3, 5e-4, -0.1]])
    found = kept(defense, sent.expand(2, 2, 3)).of().received[:, 0]
    first = torch.tensor([[0, 0, 2e-3], [-2e-3, 5e-4, -0.1]])
    second = torch.tensor([[1e-3, -1e-3, 0], [0, 5e-4, -0.1]])
    torch.testing.assert_close(found, 2 * torch.stack([first, second]))


def test_where_the_noise_is_below_the_bound_an_entry_at_the_bound_stays():
    cls = DEFENSES["ppdl"]
    defense = cls(cls.Params(bound=1.0, epsilon=100.0), num_classes=2, embedding_dims=[2])
    sent = torch.tensor([[1.0, -1.0], [0.5, 0.0]])
    torch.testing.assert_close(kept(defense, sent).of().received[0], 2 * sent)


@pytest.mark.parametrize("name", ["none", "laplace"])
def test_under_a_defense_that_declares_nothing_all_that_came_is_kept(name):
    cls = DEFENSES[name]
    defense = cls(cls.Params(), num_classes=2, embedding_dims=[2])
    sent = torch.tensor([[1e-3, -1e-3], [0.5, 0.0]])
    torch.testing.assert_close(kept(defense, sent).of().received[0], 2 * sent)


def test_each_member_of_a_pack_has_the_mechanism_of_its_own_setting():
    task, run = trained("ppdl", [{"bound": 1e-3}, {"bound": 4e-3, "theta": 0.2}], seeds=(0,), epochs=3)
    attack = task.watching[0]
    together = view_of(attack, run).granted("visits")
    for index in range(2):
        alone = view_of(attack, run.member(index)).granted("visits")
        torch.testing.assert_close(alone.received, together.received[index])
    rows = torch.arange(1, 257)  # of a batch: what is kept is multiplied by them
    for received, bound in zip(together.received, (1e-3, 4e-3), strict=True):
        assert not torch.isin(received.abs(), torch.tensor(bound) * rows).any()


def test_without_what_ppdl_drew_more_labels_are_found(monkeypatch):
    found = {}
    for known in (True, False):
        if not known:
            monkeypatch.setattr(DEFENSES["ppdl"], "mechanism", lambda _: None)
        task, run = trained("ppdl", [{"theta": 0.1}], seeds=(0, 1, 2))
        found[known] = sum(found_in(task, run)["gradient_em"]) / 3
    assert found[True] > found[False] + 0.03
