"""EM over visits by an attacker who knows which defense runs at which setting."""

from __future__ import annotations

from dataclasses import replace
from math import exp
from types import SimpleNamespace

import pytest
import torch

from tests.helpers.cells import cells
from tests.helpers.visits import EM, success, visits_of, world
from tune_vfl.attacks.parts.folded_rows import FoldedRows
from tune_vfl.attacks.parts.visit_channel import Channel
from tune_vfl.defenses.base import DEFENSES, defense_params
from tune_vfl.evaluation.grants.base import view_of
from tune_vfl.evaluation.grants.visits import KeptVisits
from tune_vfl.evaluation.scoring import score_answer
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack
from tune_vfl.protocol.granted import Auxiliary, Features
from tune_vfl.protocol.mechanism import ClassParts, Mechanism
from tune_vfl.protocol.members import Pack
from tune_vfl.protocol.view import View
from tune_vfl.protocol.visits import Visits
from tune_vfl.seeds import Streams
from tune_vfl.spec import Training

NAMES = ("sent", "received", "sent_means", "received_means", "direction_means")


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


@pytest.mark.parametrize("name", ["none", "gaussian"])
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


def test_laplace_noise_that_drowns_a_gradient_is_clipped_at_the_median_deviation_and_no_other_noise_is():
    cls = DEFENSES["laplace"]
    defense = cls([cls.Params(scale=b) for b in (1.0, 0.1)], num_classes=2, embedding_dims=[1])
    sent = torch.tensor([[-9.0], [-1.0], [0.0], [1.0], [30.0]])
    drowned, clear = kept(defense, sent.expand(2, 5, 1)).of().received[:, 0] / 5
    assert drowned.flatten().tolist() == [-1, -1, 0, 1, 1]
    assert torch.equal(clear, sent)


def test_less_of_laplace_noise_finds_more_labels(monkeypatch):
    settings, seeds = [{"scale": 0.02}], (0, 1, 2, 3)
    task, run = trained("laplace", settings, seeds, epochs=30)
    known = sum(found_in(task, run)["directions"]) + sum(found_in(task, run)["epochs"])
    monkeypatch.setattr(DEFENSES["laplace"], "mechanism", lambda _: None)
    task, run = trained("laplace", settings, seeds, epochs=30)
    assert known > sum(found_in(task, run)["directions"]) + sum(found_in(task, run)["epochs"]) + 0.02


def odds_by_counting(parts, own, parties, known):
    """Return the share of all draws of the other parties that put a row into each part; numbers 0 to 4."""
    draws = torch.cartesian_prod(*[torch.arange(5)] * (parties - known)).view(5 ** (parties - known), -1).sum(-1)
    part = (own + draws[:, None] > parts).sum(-1)
    return torch.bincount(part, minlength=len(parts) + 1) / len(draws)


@pytest.mark.parametrize(("parties", "known"), [(2, 1), (3, 1), (3, 2)])
def test_the_odds_of_a_part_are_the_share_of_the_other_parties_draws(parties, known):
    cuts = torch.tensor([[3.0, 5.0], [4.0, torch.inf]])
    declared = ClassParts(torch.zeros(2, 2, 3), cuts, parties, largest=4)
    added = torch.cartesian_prod(*[torch.arange(5)] * known).view(-1, known) / 4
    found = declared.odds(added.expand(2, -1, -1))
    for member, of in enumerate(cuts):
        wanted = [odds_by_counting(of, row.sum() * 4, parties, known) for row in added]
        torch.testing.assert_close(found[member], torch.stack(wanted))


def test_labobf_declares_its_numbers_unless_a_party_lies():
    cls = DEFENSES["labobf"]
    declared = cls([cls.Params(bins=m) for m in (2, 3)], num_classes=2, embedding_dims=[3]).mechanism().parts
    torch.testing.assert_close(declared.values[0, :, :2], torch.tensor([[0, 2 / 3], [1 / 3, 1]]))
    assert declared.values[0, :, 2].isinf().all()
    own = torch.tensor([[[0.0], [0.5], [1.0]]])
    odds = declared.member(0).batched().odds(own)[0]
    assert odds[:, 2].tolist() == [0, 0, 0]
    torch.testing.assert_close(odds[:, 0], torch.tensor([1.0, 101 / 201, 1 / 201]))
    lying = cls(cls.Params(honest=False), num_classes=2, embedding_dims=[3])
    assert lying.mechanism() is None


def split(seed, bins, *, tell=True):
    """Return the labels and the view of a world whose gradients show a number for a class and a part of it."""
    shown, view = world(seed, features=0.0)
    cls = DEFENSES["labobf"]
    parts = cls(cls.Params(bins=bins), num_classes=2, embedding_dims=[3]).mechanism().parts
    g = torch.Generator().manual_seed(seed)
    numbers = torch.randint(201, (2, len(shown)), generator=g).float()
    at = (numbers.sum(0)[:, None] > parts.cuts).sum(-1)
    truth = shown if tell else shown[torch.randperm(len(shown), generator=g)]
    value = parts.values[truth, at]
    received = view.granted("visits").received
    shape = (len(received), 1, received.shape[-1])
    received = 3 * value[:, None] * torch.randn(shape, generator=g) + torch.randn(received.shape, generator=g)
    x = torch.cat([view.features.train, numbers[0][:, None] / 200], 1)
    visits = visits_of(received, view.granted("visits").sent)
    return shown, view.holding(
        visits=replace(visits, mechanism=Mechanism(parts=parts)), features=Features(x, x[:1], added=1)
    )


@pytest.mark.parametrize("bins", [2, 3])
def test_classes_split_by_random_numbers_are_found_by_the_attackers_own_number(bins):
    y, view = split(0, bins)
    answers = EM().run(view)
    assert success(answers["parts"], y) > 0.97
    assert torch.equal(answers["gradient_em"].scores, answers["parts"].scores)
    assert max(success(answers[name], y) for name in ("means", "directions", "epochs")) < 0.9


def test_parts_that_nothing_shows_are_not_found():
    found = [success(EM().run(view)["parts"], y) for y, view in (split(s, 2, tell=False) for s in range(6))]
    assert abs(sum(found) / 6 - 0.5) < 4 * 0.02 / 6**0.5 + 0.01


def test_a_pack_of_split_classes_equals_its_members_one_by_one():
    task, run = trained("labobf", [{"bins": 2}, {"bins": 3}], seeds=(0,), epochs=6, data="breast_cancer")
    attack = task.watching[0]
    together = attack.run(view_of(attack, run))["parts"].scores
    for index in range(2):
        alone = attack.run(view_of(attack, run.member(index)))["parts"].scores
        assert float(((alone - together[index]).abs() > 2e-3).float().mean()) < 0.005


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
        visits=replace(view.granted("visits"), mechanism=Mechanism(swaps=swaps)),
        features=replace(view.features, train=x),
        auxiliary=replace(view.auxiliary, ids=ids, labels=y[ids]),
        class_prior=torch.nn.functional.one_hot(y, 2).float().mean(0),
    )


def test_a_pack_of_swapped_labels_equals_its_members_one_by_one():
    """A member's own swapping probabilities judge its rows; members of a pack have others."""
    views = [swapped(seed, keep)[1] for seed, keep in ((0, 0.7), (1, 0.9))]

    def stacked(name, *fields):
        return [torch.stack([getattr(v.granted(name), field) for v in views]) for field in fields]

    mechanisms = [v.granted("visits").mechanism for v in views]
    held = {
        "visits": Visits(*stacked("visits", *NAMES), Mechanism(swaps=torch.stack([m.swaps for m in mechanisms]))),
        "features": Features(*stacked("features", "train", "test")),
        "auxiliary": Auxiliary(*stacked("auxiliary", "ids", "labels")),
        "bottom": torch.nn.Identity,
        "class_prior": torch.stack([v.class_prior for v in views]),
    }
    together = EM().run(View("gradient_em", (2,), 2, Streams([0, 1]), held))["channel"]
    for index, view in enumerate(views):
        answers = EM().run(view)
        assert set(answers) == {"gradient_em", "means", "directions", "epochs", "curved", "joint", "channel"}
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
