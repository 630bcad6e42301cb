"""EM over visits by an attacker who knows which defense runs at which setting."""

from __future__ import annotations

from dataclasses import replace
from math import exp
from types import SimpleNamespace

import pytest
import torch

from tests.attacks.test_gradient_em import EM, success, world
from tests.helpers.cells import cells
from tune_vfl.attacks.parts.folded_rows import FoldedRows
from tune_vfl.attacks.parts.visit_channel import Channel
from tune_vfl.defenses.base import DEFENSES, defense_params
from tune_vfl.evaluation.grants.base import view_of
from tune_vfl.evaluation.grants.visits import KeptVisits
from tune_vfl.evaluation.scoring import score_answer
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack
from tune_vfl.protocol.granted import Auxiliary, Features, Visits
from tune_vfl.protocol.members import Pack
from tune_vfl.protocol.view import View
from tune_vfl.seeds import Streams
from tune_vfl.spec import Training


def trained(name, settings, seeds=(0, 1), epochs=12, data="breast_cancer"):
    """Return what stays of a pack whose members have these settings."""
    cell = cells(f"training.epochs={epochs}", f"dataset.name={data}", defense=name, attacks=["gradient_em"])()
    task = Task.open(cell)
    params = [defense_params(name, given, num_classes=cell.num_classes) for given in settings]
    return task, train_pack(task, params, Pack(seeds, len(params)), task.watching)


def found_in(task, run):
    """Return each variant's success by member."""
    answers = task.watching[0].run(view_of(task.watching[0], run))
    return {
        name: score_answer(a, run.y_train, run.y_test, task.cell.num_classes, list(run.pack.seeds))["success"]
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


def test_label_dp_declares_the_swapping_probabilities_of_each_member():
    cls = DEFENSES["label_dp"]
    declared = cls([cls.Params(epsilon=e) for e in (0.5, 2.0)], num_classes=3, embedding_dims=[2]).mechanism()
    for swaps, epsilon in zip(declared.swaps, (0.5, 2.0), strict=True):
        torch.testing.assert_close(swaps.sum(-1), torch.ones(3, dtype=torch.float64))
        assert float(swaps[0, 0] / swaps[0, 1]) == pytest.approx(exp(epsilon))
    alone = cls(cls.Params(epsilon=2.0), num_classes=3, embedding_dims=[2]).mechanism()
    torch.testing.assert_close(alone.swaps, declared.swaps[1])


@pytest.mark.parametrize("given", [{"rule": "rr_with_prior"}, {"forward_correct": True}])
def test_label_dp_declares_nothing_where_rows_differ_or_the_loss_is_another(given):
    cls = DEFENSES["label_dp"]
    assert cls(cls.Params(**given), num_classes=2, embedding_dims=[2]).mechanism() is None


def swapped(seed, keep, **options):
    """Return the true labels and the view of a world whose gradients show labels that were swapped, kept by chance."""
    shown, view = world(seed, features=0.0, **options)
    g = torch.Generator().manual_seed(100 + seed)
    y = torch.where(torch.rand(len(shown), generator=g) < keep, shown, 1 - shown)
    x = 2.0 * torch.nn.functional.one_hot(y, 2).float() + view.features.train
    ids = torch.cat([(y == k).nonzero().flatten()[:10] for k in range(2)])
    swaps = torch.tensor([[keep, 1 - keep], [1 - keep, keep]])
    return y, view.holding(
        visits=replace(view.granted("visits"), swaps=swaps),
        features=replace(view.features, train=x),
        auxiliary=replace(view.auxiliary, ids=ids, labels=y[ids]),
        class_prior=torch.nn.functional.one_hot(y, 2).float().mean(0),
    )


def test_a_pack_of_swapped_labels_equals_its_members_one_by_one():
    """A member's own swapping probabilities judge its rows; members of a pack have others."""
    views = [swapped(seed, keep)[1] for seed, keep in ((0, 0.7), (1, 0.9))]

    def stacked(name, *fields):
        return [torch.stack([getattr(v.granted(name), field) for v in views]) for field in fields]

    held = {
        "visits": Visits(*stacked("visits", *vars(views[0].granted("visits")))),
        "features": Features(*stacked("features", "train", "test")),
        "auxiliary": Auxiliary(*stacked("auxiliary", "ids", "labels")),
        "bottom": torch.nn.Identity,
        "class_prior": torch.stack([v.class_prior for v in views]),
    }
    together = EM().run(View("gradient_em", (2,), 2, Streams([0, 1]), held))["channel"]
    for index, view in enumerate(views):
        answers = EM().run(view)
        assert set(answers) == {"gradient_em", "means", "directions", "epochs", "curved", "channel"}
        alone = answers["channel"]
        assert torch.equal(alone.ids, together.ids[index])
        assert float(((alone.scores - together.scores[index]).abs() > 2e-3).float().mean()) < 0.005


def test_swapped_labels_that_nothing_shows_are_not_found():
    found = []
    for seed in range(6):
        y, view = swapped(seed, 0.7, tell=False)
        x = torch.randn(len(y), 2, generator=torch.Generator().manual_seed(seed))
        view = view.holding(features=replace(view.features, train=x))
        found.append(success(EM().run(view)["channel"], y))
    assert abs(sum(found) / 6 - 0.5) < 4 * 0.02 / 6**0.5 + 0.01


def test_what_a_model_believes_is_read_off_the_size_of_its_gradients():
    """Gradients ``(p - y) J`` of a calibrated p give p back, whatever the scale; the twin is Bayes' rule by hand."""
    g = torch.Generator().manual_seed(0)
    rows, keep = 4000, 0.75
    true = torch.rand(rows, generator=g)
    p = keep * true + (1 - keep) * (1 - true)
    y = (torch.rand(rows, generator=g) < p).long()
    along = torch.tensor([0.6, -0.8])
    received = 7.0 * (p - y)[:, None] * along
    folds = FoldedRows(torch.randperm(rows, generator=g)[None])
    taught = folds.fold(torch.nn.functional.one_hot(y, 2).float()[None]).unsqueeze(2)
    swaps = torch.tensor([[[keep, 1 - keep], [1 - keep, keep]]])
    prior = torch.full((1, 1, 1, 2, 1), 0.5).log()
    found = Channel(swaps, prior, folds.mask).behind(received[None, None], taught, folds)
    said = folds.unfold(found)[0, 0, 1]
    true, y = true[folds.order[0]], y[folds.order[0]]
    lot = true * torch.where(y == 1, keep, 1 - keep)
    rest = (1 - true) * torch.where(y == 1, 1 - keep, keep)
    assert float((said - lot / (lot + rest)).abs().mean()) < 0.03


def test_behind_label_dps_swaps_more_labels_are_found(monkeypatch):
    task, run = trained("label_dp", [{"epsilon": 1.5}], seeds=(0, 1), epochs=30, data="digits")
    known = sum(found_in(task, run)["gradient_em"])
    monkeypatch.setattr(DEFENSES["label_dp"], "mechanism", lambda _: None)
    task, run = trained("label_dp", [{"epsilon": 1.5}], seeds=(0, 1), epochs=30, data="digits")
    found = found_in(task, run)
    assert "channel" not in found
    assert known > sum(found["gradient_em"]) + 0.1
