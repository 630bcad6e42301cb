"""Randomized response with a prior: its law and privacy, k*, the two stages, and what each label was made from."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tune_vfl.defenses.label_dp import LabelDp, LabelDpParams
from tune_vfl.defenses.parts import randomized_response as rr
from tune_vfl.defenses.parts.teachers import find_teachers, recipe_of
from tune_vfl.errors import UsageError
from tune_vfl.evaluation import evaluate_pack
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.spec import parse
from tune_vfl.testing.defenses import build, run
from tune_vfl.testing.gradients import CASES, MadeUpRows, make_rows

ONE_HOT = torch.tensor([0.0, 0, 1, 0, 0])
weights = st.lists(st.floats(0, 1), min_size=2, max_size=6).filter(lambda w: sum(w) > 1e-3)


def normalized(given):
    prior = torch.tensor(given, dtype=torch.float64)
    return prior / prior.sum()


def response_matrix(prior, epsilon, count=None):
    """The law of the answer, ``(K, K)``: the probability of answering j where the true class is i, at ``[i, j]``."""
    classes = prior.shape[-1]
    k = int(rr.best_count(prior, epsilon)) if count is None else count
    chosen = torch.zeros(classes, dtype=torch.bool).scatter_(-1, rr.likeliest_first(prior)[:k], True)
    kept = rr.keep_probability(epsilon, k)
    inside = torch.full((classes, classes), kept * math.exp(-epsilon), dtype=torch.float64).fill_diagonal_(kept)
    outside = torch.full_like(inside, 1 / k)
    return torch.where(chosen.unsqueeze(-1), inside, outside).masked_fill(~chosen, 0)


@given(given=weights, epsilon=st.floats(1e-3, 12))
@settings(max_examples=200, deadline=None)
def test_no_answer_is_more_than_e_to_epsilon_likelier_under_another_class(given, epsilon):
    prior = normalized(given)
    for count in (None, *range(1, len(given) + 1)):
        law = response_matrix(prior, epsilon, count)
        torch.testing.assert_close(law.sum(-1), torch.ones(len(given), dtype=torch.float64))
        assert (law[:, None] <= math.exp(epsilon) * law * (1 + 1e-12)).all(), "of each class against each other"


@given(given=weights, epsilon=st.floats(1e-3, 12))
@settings(max_examples=200, deadline=None)
def test_the_best_count_keeps_the_most_labels_of_all_counts(given, epsilon):
    prior = normalized(given)
    kept = [float((response_matrix(prior, epsilon, k).diagonal() * prior).sum()) for k in range(1, len(given) + 1)]
    assert kept[int(rr.best_count(prior, epsilon)) - 1] == pytest.approx(max(kept), rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_golden_values(epsilon):
    uniform = torch.full((10,), 0.1)
    assert int(rr.best_count(uniform, epsilon)) == 10
    assert response_matrix(uniform, epsilon)[3, 3] == pytest.approx(rr.keep_probability(epsilon, 10))
    assert int(rr.best_count(ONE_HOT, epsilon)) == 1
    law = response_matrix(ONE_HOT, epsilon)
    assert torch.equal(law, ONE_HOT.double().expand(5, 5))  # whatever the label: it says nothing


def test_the_count_is_from_one_on():
    # Two classes keep 1 / (1 + 1/e) = .731 of the labels: more than the first alone with .6, less than it with .74.
    assert int(rr.best_count(torch.tensor([0.6, 0.4]), 1.0)) == 2
    assert int(rr.best_count(torch.tensor([0.74, 0.26]), 1.0)) == 1


@pytest.mark.parametrize("prior", [[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4], [0.25] * 4, [0.0, 1.0, 0.0, 0.0]])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_draws_follow_the_law(prior, epsilon):
    prior, coins, others = torch.tensor(prior), 400, 120
    order = rr.likeliest_first(prior)
    # Every pair of a fine grid of numbers in place of random ones: shares are exact but for the grid's step.
    grid = torch.cartesian_prod((torch.arange(coins) + 0.5) / coins, (torch.arange(others) + 0.5) / others)
    for count in (1, 2, 3, 4, int(rr.best_count(prior, epsilon))):
        law = response_matrix(prior, epsilon, count)
        for label in range(4):
            place = order.argsort()[label].expand(len(grid))
            answers = order[rr.drawn_place(place, count, epsilon, (grid[:, 0], grid[:, 1]))]
            shares = answers.bincount(minlength=4) / len(grid)
            torch.testing.assert_close(shares.double(), law[label], rtol=0, atol=1 / coins)


@pytest.mark.parametrize("epsilon", [1e-20, 0.5, 3.0])
def test_shares_are_estimated_without_bias_from_exact_counts(epsilon):
    true = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)
    answered = true @ response_matrix(torch.ones(4), epsilon, 4)
    expected = true if epsilon > 1e-9 else torch.full((4,), 0.25, dtype=torch.float64)
    torch.testing.assert_close(rr.unbiased_shares(1000 * answered, epsilon), expected)
    assert torch.equal(rr.unbiased_shares(torch.tensor([1.0, 0]), 1.0), torch.tensor([1.0, 0], dtype=torch.float64))


def made(y, x=None, classes=4, seed=0, **params):
    defense = LabelDp(LabelDpParams(teacher_epochs=3, **params), num_classes=classes, embedding_dims=[4])
    defense.setup(y, torch.arange(len(y)), active_features=x, seed=seed)
    return defense, defense.labels(y, torch.arange(len(y)))


def problem(rows=4000, classes=4, spread=0.4):
    g = torch.Generator().manual_seed(0)
    y = torch.arange(rows) % classes
    return y, torch.randn(classes, 6, generator=g)[y] + spread * torch.randn(rows, 6, generator=g)


def parts(rows, share, seed=0):
    """The parts of a training set, from the stream that the defense draws them from."""
    defense = LabelDp(LabelDpParams(), num_classes=4, embedding_dims=[4])
    defense.setup(torch.zeros(rows, dtype=torch.int64), torch.arange(rows), seed=seed)
    turn = defense.streams["parts"].permutation(rows)
    return turn, turn < math.ceil(share * rows)


def test_labels_follow_the_law_of_the_prior_that_was_estimated():
    g = torch.Generator().manual_seed(1)
    true = torch.tensor([0.55, 0.25, 0.15, 0.05])
    y = torch.multinomial(true, 200_000, replacement=True, generator=g)
    defense, noisy = made(y, rule="rr_with_prior", share=0.5, epsilon=1.5)
    _, plain = made(y, rule="rr", epsilon=1.5)
    _, first = parts(len(y), 0.5)
    assert torch.equal(noisy[first], plain[first])
    law = response_matrix(true, 1.5)  # estimated from 100,000 rows: its order and k* are those of the truth
    assert defense.logged()["classes_left"] == [int(rr.best_count(true, 1.5))] == [3]
    for label in range(4):
        answers = noisy[~first & (y == label)]
        shares = answers.bincount(minlength=4) / len(answers)
        # The rarest class has about 5,000 rows: a share's standard error is below 0.0071.
        torch.testing.assert_close(shares.double(), law[label], rtol=0, atol=0.03)


def test_even_classes_leave_every_class_and_plain_response():
    y = torch.arange(40_000) % 4
    defense, noisy = made(y, rule="rr_with_prior", epsilon=2.0)
    assert defense.logged()["classes_left"] == [4]
    assert defense.logged()["labels_kept"][0] == pytest.approx(rr.keep_probability(2.0, 4), abs=0.02)
    assert (noisy == y).double().mean().item() == defense.logged()["labels_kept"][0]


def test_each_label_is_answered_for_once():
    # Another true label of a row changes that row alone where it is in the second part: nothing is learned from it.
    y, x = problem(rows=300)
    _, first = parts(300, 0.5)
    row = int((~first).nonzero()[0])
    for rule in ("rr_with_prior", "lp_2st"):
        _, before = made(y, x, rule=rule, share=0.5)
        for label in range(4):
            changed = y.clone()
            changed[row] = label
            _, after = made(changed, x, rule=rule, share=0.5)
            others = torch.arange(300) != row
            assert torch.equal(before[others], after[others])


def test_the_model_learns_from_the_answers_of_the_first_part_alone():
    y, x = problem(rows=400)
    params = LabelDpParams(rule="lp_2st", share=0.7, epsilon=1.0, temperature=0.6, teacher_epochs=3)
    defense, noisy = made(y, x, rule="lp_2st", share=0.7)
    _, plain = made(y, epsilon=1.0)
    turn, first = parts(400, 0.7)
    rows = turn.argsort()[: int(first.sum())]
    [teacher], _ = find_teachers([x[rows]], [plain[rows]], [0], [recipe_of(params)], 4, asked=x.unsqueeze(0))
    prior = (teacher.probabilities.double().log() / 0.6).softmax(-1)
    for i in range(400):
        count = int(rr.best_count(prior[i], 1.0))
        likeliest = rr.likeliest_first(prior[i])[:count].tolist()
        if not first[i]:
            assert int(noisy[i]) in likeliest
        elif int(plain[i]) in likeliest:
            assert noisy[i] == plain[i]
        else:
            assert int(noisy[i]) == likeliest[0]
    assert 0 < defense.logged()["relabeled"][0] < 0.7


def test_a_model_of_telling_features_keeps_more_labels_than_plain_response():
    y, x = problem()
    kept = {rule: made(y, x, rule=rule)[0].logged()["labels_kept"][0] for rule in ("rr", "rr_with_prior", "lp_2st")}
    assert kept["lp_2st"] > kept["rr"] + 0.2
    assert abs(kept["rr_with_prior"] - kept["rr"]) < 0.05


@pytest.mark.parametrize("rule", ["rr_with_prior", "lp_2st"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_a_pack_is_its_members(case, rule):
    seeds, alone = [0, 1, 0], make_rows(case, [0, 1, 0])
    params = [LabelDpParams(rule=rule, epsilon=e, share=s, teacher_epochs=2) for e, s in ((1, 0.5), (2, 0.6), (4, 0.8))]
    together = run(build(LabelDp, params, case, MadeUpRows.stack(alone), seeds), MadeUpRows.stack(alone))
    for member, rows in enumerate(alone):
        for name, value in run(build(LabelDp, params[member], case, rows, seeds[member]), rows).items():
            torch.testing.assert_close(together[name][member], value, rtol=0, atol=1e-6, msg=name)


def test_what_a_rule_needs():
    def problems(mode="split", **params):
        return LabelDp.problems(LabelDpParams(**params), num_classes=4, mode=mode)

    assert "rr_with_prior" in problems("label_only", rule="lp_2st")[0]
    assert not problems("label_only", rule="rr_with_prior")
    assert not problems(rule="lp_2st")
    assert not problems(forward_correct=True)
    assert "forward_correct" in problems(rule="rr_with_prior", forward_correct=True)[0]
    with pytest.raises(UsageError, match="active_features"):
        made(torch.arange(20) % 4, rule="lp_2st")


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_few_rows_are_enough(rows):
    y, x = torch.arange(rows) % 2, torch.randn(rows, 3)
    for rule in ("rr_with_prior", "lp_2st"):
        defense, noisy = made(y, x, classes=2, rule=rule)
        assert ((noisy >= 0) & (noisy < 2)).all()
        assert all(math.isfinite(v) for values in defense.logged().values() for v in values)


def test_it_is_evaluated_with_each_rule():
    for rule in ("rr_with_prior", "lp_2st"):
        given = {"name": "label_dp", "params": {"rule": rule, "epsilon": 4.0, "teacher_epochs": 5}}
        spec = {"study": "s", "dataset": "breast_cancer", "attacks": ["norm"], "defense": given}
        [outcome] = evaluate_pack(resolve(parse({**spec, "training": {"epochs": 10}, "budget": {"seeds": 2}})), [{}])
        assert outcome.outcome == "ok", outcome.reason
        assert outcome.utility.mean > 0.9
