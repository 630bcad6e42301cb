"""norm, direction, mean and median: what they mean, closed forms, ceilings and edges."""

import math

import numpy as np
import pytest
import torch

from tune_vfl.attacks.base import ATTACKS
from tune_vfl.attacks.parts.centers import median, nearer_positive
from tune_vfl.data.base import Split
from tune_vfl.evaluation.grants.positive_hints import PositiveHints
from tune_vfl.evaluation.run import Run
from tune_vfl.evaluation.scoring import score_answer
from tune_vfl.protocol.granted import Centers
from tune_vfl.protocol.members import Pack
from tune_vfl.protocol.view import ClassOracle, Recording, View
from tune_vfl.seeds import Streams
from tune_vfl.testing.views import make_world


def attack(name, gradients, y, *, batch=None, **params):
    """Run an attack on single-world gradients whose ids are their positions; return its answers."""
    n = len(gradients)
    batch = batch or n
    recording = Recording(torch.arange(n), gradients, tuple((s, min(s + batch, n)) for s in range(0, n, batch)))

    keys = torch.rand(n, generator=torch.Generator().manual_seed(0))
    view = View(
        attack=name,
        lead=(),
        num_classes=2,
        streams=Streams(0),
        held={"gradients": {"last": recording}, "class_oracle": ClassOracle.from_labels(y, 2, keys)},
    )
    cls = ATTACKS[name]
    return cls(cls.Params(moments=("last",), **params)).run(view)


def leak(answer, y):
    return score_answer(answer, y, y, 2, [0])["success"][0]


def test_norm_of_width_one_is_absolute_unless_signed():
    g, y = torch.tensor([[-3.0], [1.0], [2.0], [-0.5]]), torch.tensor([1, 0, 0, 0])
    # Times the rows of the batch, four or two.
    assert attack("norm", g, y)["norm"].scores.tolist() == [12.0, 4.0, 8.0, 2.0]
    assert attack("norm", g, y, d1="signed")["norm"].scores.tolist() == [-12.0, 4.0, 8.0, -2.0]
    wide = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    assert attack("norm", wide, y, d1="signed")["norm"].scores.tolist() == [10.0, 0.0]


def test_norm_is_not_misled_by_a_smaller_last_batch():
    y = torch.arange(100) % 2
    per_row = torch.where(y == 1, 2.0, 1.0).unsqueeze(-1)
    sent = torch.cat([per_row[:80] / 80, per_row[80:] / 20])  # gradients of two batches' mean losses
    assert leak(attack("norm", sent, y, batch=80)["norm"], y) == 1.0


def test_norm_ties_of_silent_rows_count_one_half():
    g = torch.zeros(10, 3)
    y = torch.tensor([0, 1] * 5)
    assert leak(attack("norm", g, y)["norm"], y) == 0.5


def test_direction_equals_a_loop_over_rows_and_hints():
    generator = torch.Generator().manual_seed(0)
    g = torch.randn(30, 4, generator=generator)
    g[5] = 0
    hints = torch.tensor([[2, 7], [15, -1], [-1, -1]])
    answer = attack_direction(g, hints)
    for row in range(30):
        known = [h for h in hints[row // 10].tolist() if h >= 0]
        cosines = [float(g[row] @ g[h] / (g[row].norm() * g[h].norm())) if g[row].any() else 0.0 for h in known]
        assert answer.scores[row].item() == pytest.approx(max(cosines, default=0.0), abs=1e-6)
        assert bool(answer.counted[row]) == (bool(known) and row not in known)


def attack_direction(g, hints):
    return direction_answers(g, hints)["direction"]


def direction_answers(g, hints):
    n, batch = len(g), len(g) // len(hints)
    recording = Recording(torch.arange(n), g, tuple((s, s + batch) for s in range(0, n, batch)))
    view = View(
        "direction",
        (),
        2,
        Streams(0),
        {"gradients": {"last": recording}, "positive_hints": lambda _, count: hints},
    )
    cls = ATTACKS["direction"]
    return cls(cls.Params(hints=hints.shape[-1], moments=("last",))).run(view)


def test_direction_with_a_hint_of_length_zero_knows_nothing():
    g = torch.cat([torch.zeros(1, 3), torch.randn(9, 3, generator=torch.Generator().manual_seed(0))])
    answer = attack_direction(g, torch.tensor([[0]]))
    assert answer.scores.tolist() == [0.0] * 10
    assert answer.counted.tolist() == [False] + [True] * 9


def test_hints_are_rows_that_received_something():
    g = torch.tensor([[0.0], [0.0], [-1.0], [2.0], [0.0], [0.0]])
    y = torch.tensor([1, 1, 1, 0, 1, 0])
    recording = Recording(torch.arange(6), g, ((0, 4), (4, 6)))
    for seed in range(5):
        hints = PositiveHints().hand_out(ATTACKS["direction"](), run_of(y, seed))(recording, 2)
        # Row 2 is the only positive of its batch that is not silent; the other batch has none but a silent one.
        assert hints.tolist() == [[2, -1], [4, -1]]


def run_of(y, seed):
    """A training that holds labels and a seed, which is all that hints are drawn from."""
    x = torch.zeros(len(y), 1)
    rows = torch.arange(len(y))
    split = Split((x,), (x,), None, None, y, y, rows, rows)
    return Run(make_world(0)._task(), Pack((seed,), None), split, None)


def test_more_hints_help_against_noise_along_one_direction():
    generator = torch.Generator().manual_seed(3)
    y = torch.arange(2000) % 2
    # Max-Norm's weakness and disguise: one dimension, and signs that flip for a third of the rows.
    flipped = torch.rand(2000, generator=generator) < 1 / 3
    g = ((y * 2 - 1) * torch.where(flipped, -1, 1)).float().unsqueeze(-1)
    positive = (y == 1).nonzero().squeeze(-1)
    hints = positive[torch.randperm(len(positive), generator=generator)[:15]]
    answers = direction_answers(g, hints.unsqueeze(0))
    assert leak(answers["direction"], y) == pytest.approx(0.5, abs=0.01)  # every row is like one hint or another
    assert leak(answers["mean_hint"], y) == pytest.approx(2 / 3, abs=0.03)


def test_one_hint_is_its_own_mean():
    g = torch.randn(20, 3, generator=torch.Generator().manual_seed(1))
    assert set(direction_answers(g, torch.tensor([[4]]))) == {"direction"}
    several = direction_answers(g, torch.tensor([[4, -1]]))
    torch.testing.assert_close(several["mean_hint"].scores, several["direction"].scores)


def test_direction_is_perfect_where_classes_point_apart():
    y = torch.tensor([1, 0, 1, 0, 0, 1])
    g = (y * 2 - 1).unsqueeze(-1) * torch.tensor([0.3, -2.0]) * torch.linspace(0.1, 2, 6).unsqueeze(-1)
    assert leak(attack_direction(g, torch.tensor([[0]])), y) == 1.0


def test_nearer_positive_equals_comparing_distances():
    generator = torch.Generator().manual_seed(1)
    values, centers = torch.randn(3, 50, 4, generator=generator), torch.randn(3, 2, 4, generator=generator)
    scores, known = nearer_positive(values, of_everybody(centers, 50))
    to_zero, to_one = ((values.double() - centers[:, c : c + 1]).norm(dim=-1) for c in (0, 1))
    assert torch.equal(scores.bool(), to_one <= to_zero)
    assert known.all()


def test_a_tie_goes_to_the_positive_class_unless_strict():
    values, centers = torch.tensor([[0.0]]), torch.tensor([[-1.0], [1.0]])
    assert nearer_positive(values, of_everybody(centers, 1))[0].tolist() == [1.0]
    assert nearer_positive(values, of_everybody(centers, 1), strict=True)[0].tolist() == [0.0]


def of_everybody(centers, rows):
    """The same centers for all rows, which fall into one fold."""
    return Centers(torch.zeros(*centers.shape[:-2], rows, dtype=torch.long), centers.unsqueeze(-3))


@pytest.mark.parametrize("kind", ["mean", "median"])
def test_centers_leave_a_rows_own_fold_out(kind):
    generator = torch.Generator().manual_seed(6)
    labels, keys = torch.randint(0, 2, (2, 40), generator=generator), torch.rand(2, 40, generator=generator)
    values = torch.randn(2, 40, 3, generator=generator)
    ids = torch.stack([torch.randperm(40, generator=generator) for _ in range(2)])
    found = ClassOracle.from_labels(labels, 2, keys).of(values, ids, kind)
    for member in range(2):
        y = labels[member][ids[member]]
        for fold in found.folds[member].unique().tolist():
            for c in (0, 1):
                rest = values[member][(found.folds[member] != fold) & (y == c)]
                twin = rest.mean(0) if kind == "mean" else rest.quantile(0.5, dim=0)
                torch.testing.assert_close(found.without[member, fold, c], twin)
    assert [len(f.unique()) for f in found.folds] == [10, 10]


def test_of_three_positives_every_fold_holds_one():
    y = torch.tensor([1, 1, 1] + [0] * 30)
    found = ClassOracle.from_labels(y, 2, torch.rand(33)).of(torch.randn(33, 2), torch.arange(33), "mean")
    assert sorted(found.folds[:3].tolist()) == [0, 1, 2]
    assert found.folds[3:].bincount().tolist() == [10, 10, 10]


@pytest.mark.parametrize("budget", [0.25, 1.0, 4.0, 25.0])
def test_mean_attack_under_gaussian_noise_has_its_closed_form(budget):
    """Two points one apart with noise of variance s: the midpoint errs with chance Phi(-1 / (2 sqrt(s)))."""
    generator = torch.Generator().manual_seed(int(budget * 4))
    y = torch.randint(0, 2, (40_000,), generator=generator)
    g = y.unsqueeze(-1) + math.sqrt(budget) * torch.randn(40_000, 1, generator=generator)
    expected = 0.5 * (1 + math.erf(1 / (2 * math.sqrt(budget)) / math.sqrt(2)))
    assert leak(attack("mean", g, y)["mean"], y) == pytest.approx(expected, abs=0.01)


def test_mean_spaces_agree_for_width_one_and_differ_where_sums_cancel():
    y = torch.tensor([0, 1] * 20)
    narrow = y.unsqueeze(-1) - 0.3
    assert leak(attack("mean", narrow, y)["mean"], y) == leak(attack("mean", narrow, y, space="sum")["mean"], y) == 1.0
    cancelling = (y * 2 - 1).unsqueeze(-1) * torch.tensor([1.0, -1.0])
    assert leak(attack("mean", cancelling, y)["mean"], y) == 1.0
    assert leak(attack("mean", cancelling, y, space="sum")["mean"], y) == 0.5


def test_a_lonely_positive_does_not_stand_for_itself():
    generator = torch.Generator().manual_seed(2)
    g, y = torch.randn(400, 8, generator=generator), torch.tensor(([1] + [0] * 9) * 40)
    assert not attack("mean", g, y, batch=10, centers="batch")["mean"].counted.any()
    by_two = torch.tensor(([1, 1] + [0] * 8) * 40)
    answers = [attack("mean", g, by_two, batch=10, centers=c)["mean"] for c in ("batch", "epoch")]
    assert all(leak(answer, by_two) == pytest.approx(0.5, abs=0.08) for answer in answers)


def test_centers_that_a_row_moved_itself_find_labels_in_noise():
    """GAFM's released attack: centers of the batch, of summed entries, the row itself among them, and ties negative."""
    generator = torch.Generator().manual_seed(2)
    g, y = torch.randn(400, 8, generator=generator), torch.tensor(([1, 1] + [0] * 8) * 40)
    published = {"batch": 10, "centers": "batch", "space": "sum", "held_out": False}
    answer = attack("mean", g, y, **published)["mean"]
    for start in range(0, 400, 10):
        sums, of = g[start : start + 10].sum(-1), y[start : start + 10]
        nearer = (sums - sums[of == 1].mean()) ** 2 < (sums - sums[of == 0].mean()) ** 2
        assert answer.scores[start : start + 10].tolist() == nearer.float().tolist()
    assert answer.folds is None
    assert answer.counted.all()
    said = answer.scores.bool()
    expected = (said[y == 1].float().mean() + 1 - said[y == 0].float().mean()) / 2
    assert leak(answer, y) == pytest.approx(expected.item())
    assert leak(answer, y) > 0.6
    as_before = attack("mean", g, y)["mean"].scores
    assert torch.equal(attack("mean", g, y, held_out=True)["mean"].scores, as_before)
    lonely = torch.tensor(([1] + [0] * 9) * 40)
    assert attack("mean", g, lonely, **published)["mean"].scores[lonely == 1].all()  # it is its own center


def test_means_of_all_rows_are_the_classes_means():
    y, values = torch.tensor([[0, 1, 1, 0, 0]]), torch.randn(1, 5, 3, generator=torch.Generator().manual_seed(1))
    found = ClassOracle.from_labels(y, 2, torch.rand(1, 5)).means(values, torch.arange(5).unsqueeze(0))
    assert found.folds.tolist() == [[0] * 5]
    torch.testing.assert_close(found.without[0, 0], torch.stack([values[0, y[0] == c].mean(0) for c in (0, 1)]))


def test_the_sign_names_what_the_pooled_median_cannot():
    """Two fifths positive, gradients of opposite signs: half of a batch is too many, the sign is right."""
    y = torch.tensor([1, 1, 0, 0, 0] * 20)
    g = torch.where(y == 1, -1.0, 0.2).unsqueeze(-1) + 0.01 * torch.rand(100, 1)
    assert leak(attack("median", g, y, rule="sign")["sign"], y) == 1.0
    pooled = leak(attack("median", g, y, rule="pooled", batch=10)["pooled"], y)
    assert pooled == pytest.approx(1 - (0.5 - 0.4) / (1 - 0.4) / 2, abs=0.02)
    median_attack = ATTACKS["median"]
    assert not median_attack(median_attack.Params(rule="sign")).is_upper_bound("sign")


def test_batches_of_one_class_are_not_counted():
    g, y = torch.arange(8.0).unsqueeze(-1), torch.tensor([0, 0, 0, 0, 1, 1, 0, 0])
    answer = attack("mean", g, y, batch=4, centers="batch")["mean"]
    assert answer.counted.tolist() == [False] * 4 + [True] * 4
    nobody = attack("median", g, torch.zeros(8, dtype=torch.long))["class_median"]
    assert not nobody.counted.any()
    assert torch.isfinite(nobody.scores).all()


@pytest.mark.parametrize(("share", "expected"), [(0.399, 0.916), (0.5, 1.0), (0.2266, 0.8232), (0.1, 0.7778)])
def test_pooled_median_ceiling(share, expected):
    """With perfectly separated gradients the AUC is 1 - FPR/2, FPR = (1/2 - p)/(1 - p)."""
    n = 10_000
    y = (torch.arange(n) < share * n).long()[torch.randperm(n, generator=torch.Generator().manual_seed(3))]
    g = (y + 0.5 * torch.rand(n, generator=torch.Generator().manual_seed(4))).unsqueeze(-1)
    answer = attack("median", g, y, rule="pooled")["pooled"]
    assert leak(answer, y) == pytest.approx(expected, abs=1e-3)
    assert leak(attack("median", -g, y, rule="pooled")["pooled"], y) == pytest.approx(expected, abs=1e-3)
    assert leak(attack("median", g, y)["class_median"], y) == 1.0


def test_pooled_rule_compares_within_each_batch():
    g = torch.tensor([[0.0], [1.0], [10.0], [11.0]])
    answer = attack("median", g, torch.tensor([0, 1, 0, 1]), batch=2, rule="pooled")["pooled"]
    assert answer.scores.tolist() == [0.0, 1.0, 0.0, 1.0]


def test_median_of_a_batch_equals_numpy():
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(5))
    for n in (7, 8):
        assert median(x[:, :n]).squeeze(-1).numpy() == pytest.approx(np.median(x[:, :n].numpy(), axis=-1))


def test_only_rules_with_true_centers_are_upper_bounds():
    def instance(name):
        return ATTACKS[name](ATTACKS[name].Params())

    assert instance("mean").is_upper_bound("mean")
    assert instance("median").is_upper_bound("class_median")
    assert not instance("median").is_upper_bound("pooled")
    assert not instance("norm").is_upper_bound("norm")
