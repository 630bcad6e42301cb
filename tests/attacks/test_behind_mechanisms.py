"""Matched filter by an attacker who knows which defense runs at which setting: coins, noise, swaps, split classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from tests.attacks.test_matched_filter import OF_TWO
from tests.helpers.cells import cells
from tests.helpers.visits import FILTER, ROWS, success, swapped, visits_of, world
from tune_vfl.defenses.base import DEFENSES, defense_params
from tune_vfl.evaluation.grants.base import view_of
from tune_vfl.evaluation.scoring import score_answer
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack
from tune_vfl.protocol.granted import Features
from tune_vfl.protocol.mechanism import Mechanism
from tune_vfl.protocol.members import Pack


def trained(name, settings, seeds=(0, 1), *given, attack="matched_filter"):
    """Return what stays of a pack whose members have these settings."""
    cell = cells(*given, defense=name, attacks=[attack])()
    task = Task.open(cell)
    params = [defense_params(name, p, num_classes=cell.num_classes) for p in settings]
    return task, train_pack(task, params, Pack(seeds, len(params)), task.watching)


def found_in(task, run):
    """Return each variant's success by member."""
    answers = task.watching[0].run(view_of(task.watching[0], run))
    return {
        name: score_answer(a, run.y_train, run.y_test, task.cell.num_classes, list(run.pack.seeds))["success"]
        for name, a in answers.items()
    }


def found_without(noise_of, mechanism, *, jump):
    """Return the filter's success on noisy gradients as they came and less what is known of the noise, as means."""
    found = []
    for seed in range(4):
        torch.manual_seed(seed)
        noisy = noise_of(world(seed, noise=0.5, jump=jump)[1].granted("visits").received)
        for received in (noisy, torch.stack([mechanism.without_noise(epoch) for epoch in noisy])):
            y, view = world(seed, noise=0.5, jump=jump, features=1.0)
            answer = FILTER().run(view.holding(visits=replace(view.granted("visits"), received=received)))["filter"]
            found.append(success(answer, y))
    return sum(found[::2]) / 4, sum(found[1::2]) / 4


def test_without_entries_that_are_coins_more_labels_are_found():
    """Four entries of five are a number of a random sign, much larger than what the others say."""

    def noise_of(received):
        coin = 8 * (2.0 * torch.randint(2, received.shape) - 1)
        return torch.where(torch.rand(received.shape) < 0.8, coin, received)

    raw, less = found_without(noise_of, Mechanism(coin=torch.tensor(8.0)), jump=0.5)
    assert less > raw + 0.1


def test_laplace_noise_that_is_clipped_hides_less():
    noise = torch.distributions.Laplace(0.0, 4.0)
    raw, less = found_without(
        lambda received: received + noise.sample(received.shape), Mechanism(laplace=torch.tensor(4.0)), jump=1.0
    )
    assert less > raw + 0.01


@pytest.mark.parametrize("keep", [0.7, 0.9])
def test_behind_swaps_own_columns_and_gradients_say_more_than_either(keep):
    y, view = swapped(0, keep)
    found = success(FILTER().run(view)["matched_filter"], y)
    silent = replace(view.granted("visits"), received=torch.randn(view.granted("visits").received.shape))
    y, view = swapped(0, keep)
    by_columns = success(FILTER().run(view.holding(visits=silent))["filter"], y)
    assert found > max(by_columns, keep) + 0.02


def test_swapped_labels_that_nothing_shows_are_not_found():
    found = []
    for seed in range(6):
        y, view = swapped(seed, 0.7, tell=False)
        x = torch.randn(ROWS, 2, generator=torch.Generator().manual_seed(seed))
        answers = FILTER().run(view.holding(features=replace(view.features, train=x)))
        found.append([success(answer, y) for answer in answers.values()])
    means = torch.tensor(found).mean(0)
    assert ((means - 0.5).abs() < 4 * 0.02 / 6**0.5 + 0.01).all(), means


def test_label_dps_swaps_hide_few_labels_whether_they_are_known_or_not(monkeypatch):
    """Two columns of thirty: the shape of gradients says how far the model is from the label that it was taught."""
    given = "label_dp", [{"epsilon": 1.5}], range(6), "training.epochs=30", "dataset.split=0.067"
    known = sum(found_in(*trained(*given))["matched_filter"]) / 6
    monkeypatch.setattr(DEFENSES["label_dp"], "mechanism", lambda _: None)
    unknown = sum(found_in(*trained(*given))["matched_filter"]) / 6
    assert known > unknown - 0.02
    assert min(known, unknown) > 0.9


def test_noise_between_the_classes_hides_less_from_a_fit_that_trusts_gradients_little(tmp_path, monkeypatch):
    """Rare positives and columns that say little: by agreement with these the gradients seem too sure."""
    rng = np.random.default_rng(0)
    hidden, noise = rng.normal(size=(1200, 4)), rng.normal(size=(1200, 8))
    score = hidden.sum(1) + 0.5 * rng.logistic(size=1200)
    columns = [hidden[:, :2] + noise[:, :2], noise[:, 4:6], hidden[:, 2:] + 0.7 * noise[:, 2:4], noise[:, 6:]]
    table = pd.DataFrame(np.concatenate(columns, 1), columns=[f"c{place}" for place in range(8)])
    table.assign(label=score > np.quantile(score, 0.85)).to_csv(tmp_path / "table.csv", index=False)
    dataset = {"name": "csv", "path": str(tmp_path / "table.csv"), "label": "label", "split": 0.5}
    cell = cells("training.epochs=20", dataset=dataset, defense="grad_perturb", attacks=["matched_filter"])()
    task, found = Task.open(cell), []
    for mechanism in (DEFENSES["grad_perturb"].mechanism, lambda _: None):
        monkeypatch.setattr(DEFENSES["grad_perturb"], "mechanism", mechanism)
        params = [defense_params("grad_perturb", {"epsilon": 0.3}, num_classes=2)]
        found.append(found_in(task, train_pack(task, params, Pack((0, 1, 2), 1), task.watching)))
    known, unknown = (sum(of["matched_filter"]) / 3 for of in found)
    assert set(found[0]) - set(found[1]) == {"shapes"}
    assert known > unknown + 0.03


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
    visits = visits_of(received, view.granted("visits").sent, mechanism=Mechanism(parts=parts))
    return shown, view.holding(visits=visits, features=Features(x, x[:1], added=1))


@pytest.mark.parametrize("bins", [2, 3])
def test_classes_split_by_random_numbers_are_found_by_the_attackers_own_number(bins):
    y, view = split(0, bins)
    answers = FILTER().run(view)
    assert set(answers) == {*OF_TWO, "parts"}
    assert success(answers["parts"], y) > 0.97
    assert success(answers["matched_filter"], y) > 0.97
    unknown = view.holding(visits=replace(view.granted("visits"), mechanism=None))
    assert max(success(answer, y) for answer in FILTER().run(unknown).values()) < 0.9


def test_split_classes_are_found_as_well_as_by_the_rule_of_bayes():
    """Somebody who is told the parts' directions and the noise computes each row's odds; little is left to learn."""
    y, view = split(3, 2)
    visits = view.granted("visits")
    parts = visits.mechanism.parts
    numbers = view.features.train[:, -1:]
    odds = parts.batched().odds(numbers[None])[0]
    design = torch.stack([torch.ones(ROWS), value_of(y, numbers, parts, seed=3)], -1)
    slopes = torch.linalg.lstsq(design.expand(len(visits.received), -1, -1), visits.received).solution
    likelihood = []
    for k in range(2):
        of_part = []
        for m in range(2):
            middle = slopes[:, 0] + parts.values[k, m] * slopes[:, 1]
            of_part.append(-(visits.received - middle.unsqueeze(1)).square().sum((0, -1)) / 2 + odds[:, m].log())
        likelihood.append(torch.logsumexp(torch.stack(of_part), 0))
    answer = FILTER().run(view)["parts"]
    exact = torch.stack(likelihood, -1).softmax(-1)[answer.ids]
    assert success(answer, y) > success(replace(answer, scores=exact), y) - 0.01


def value_of(y, numbers, parts, *, seed):
    """Return the number taught for each row, by both parties' random numbers, of which the first one is given."""
    g = torch.Generator().manual_seed(seed)
    both = torch.randint(201, (2, len(y)), generator=g).float()
    assert torch.equal(both[0], (200 * numbers[:, 0]).round())
    return parts.values[y, (both.sum(0)[:, None] > parts.cuts).sum(-1)]


def test_parts_that_nothing_shows_are_not_found():
    found = [success(FILTER().run(view)["parts"], y) for y, view in (split(s, 2, tell=False) for s in range(6))]
    assert abs(sum(found) / 6 - 0.5) < 4 * 0.02 / 6**0.5 + 0.01


def test_a_pack_of_split_classes_equals_its_members_one_by_one():
    task, run = trained("labobf", [{"bins": 2}, {"bins": 3}], (0,), "training.epochs=6")
    attack = task.watching[0]
    together = attack.run(view_of(attack, run))["parts"].scores
    for index in range(2):
        alone = attack.run(view_of(attack, run.member(index)))["parts"].scores
        assert float(((alone - together[index]).abs() > 2e-3).float().mean()) < 0.005


def test_knowing_labobfs_parts_costs_little_where_gradients_tell_the_class_without_it(monkeypatch):
    """On this table the shape of gradients gives classes away, and its own number says little of a part."""
    given = "labobf", [{"bins": 2}, {"bins": 3}, {"bins": 4}], (0, 1, 2), "training.epochs=30", "dataset.split=0.067"
    known = sum(found_in(*trained(*given))["matched_filter"]) / 9
    monkeypatch.setattr(DEFENSES["labobf"], "mechanism", lambda _: None)
    unknown = sum(found_in(*trained(*given))["matched_filter"]) / 9
    assert known > unknown - 0.01
    assert min(known, unknown) > 0.9
