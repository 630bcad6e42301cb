"""Distance correlation: known values, a naive twin, odd batches, and what the penalty does to a training."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import one_hot

from tests.helpers.problems import made_up_split, network_for
from tune_vfl.defenses.discorloss import Discorloss, DiscorlossParams
from tune_vfl.metrics.correlation import class_distance_correlation, distance_correlation
from tune_vfl.protocol.hooks import Hooks
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.losses import task_loss
from tune_vfl.protocol.members import Pack, Rows
from tune_vfl.spec import Training


def naive(x, y):
    """Pair by pair, in Python's doubles."""
    n = len(x)

    def centered(rows):
        d = [[math.dist(p, q) for q in rows] for p in rows]
        row = [sum(r) / n for r in d]
        mean = sum(row) / n
        return [[d[i][j] - row[i] - row[j] + mean for j in range(n)] for i in range(n)]

    def mean_product(a, b):
        return sum(a[i][j] * b[i][j] for i in range(n) for j in range(n)) / n**2

    a, b = centered(x.tolist()), centered(y.tolist())
    variances = math.sqrt(mean_product(a, a)) * math.sqrt(mean_product(b, b))
    return math.sqrt(max(mean_product(a, b), 0) / variances)


def drawn(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@given(rows=st.integers(3, 12), d=st.integers(1, 5), classes=st.integers(2, 4), seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_it_is_the_naive_correlation(rows, d, classes, seed):
    x, y = drawn(seed, rows, d).double(), one_hot(torch.arange(rows) % classes, classes).double()
    assert distance_correlation(x, y).item() == pytest.approx(naive(x, y), abs=1e-6)
    stacked = distance_correlation(torch.stack([x, 2 * x]), torch.stack([y, y]))
    torch.testing.assert_close(stacked, distance_correlation(x, y).expand(2))  # any leading axes, any scale


def test_known_values():
    x = drawn(0, 256, 10)
    y = one_hot(torch.arange(256) % 2, 2).float()
    assert distance_correlation(x, x).item() == pytest.approx(1, abs=1e-6)
    assert distance_correlation(x, 3 * x + 1).item() == pytest.approx(1, abs=1e-5)
    assert distance_correlation(y @ drawn(1, 2, 10), y).item() == pytest.approx(1, abs=1e-5)
    assert 0.1 < distance_correlation(x, y).item() < 0.2  # independent, and yet biased above 0


def both(x, y, classes):
    """Value and gradient by matrices of all distances, and by sums over classes."""
    answers = []
    for correlation in (
        lambda rows: distance_correlation(rows, one_hot(y, classes).double()),
        lambda rows: class_distance_correlation(rows, y, classes),
    ):
        rows = x.double().requires_grad_()
        value = correlation(rows)
        (gradient,) = torch.autograd.grad(value.sum(), rows)
        answers.append((value.detach(), gradient))
    return answers


@given(
    rows=st.integers(2, 40),
    d=st.integers(1, 4),
    classes=st.integers(2, 5),
    grid=st.sampled_from([0.0, 0.5, 2.0]),
    offset=st.sampled_from([0.0, 1000.0]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None)
def test_sums_over_classes_are_the_correlation_and_its_gradient(rows, d, classes, grid, offset, seed):
    """Any members beside each other, equal rows among them where a grid rounds, and absent classes."""
    x = drawn(seed, 3, rows, d)
    x = (torch.round(x / grid) * grid if grid else x) + offset
    y = torch.randint(classes, (3, rows), generator=torch.Generator().manual_seed(seed))
    (value, gradient), (fast, fast_gradient) = both(x, y, classes)
    uneven = (y != y[:, :1]).any(-1) & (x != x[:, :1]).flatten(1).any(-1)
    torch.testing.assert_close(fast[uneven], value[uneven], rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(fast_gradient[uneven], gradient[uneven], rtol=1e-6, atol=1e-7)
    (_, _), (alone, alone_gradient) = both(x[1], y[1], classes)
    torch.testing.assert_close(alone, fast[1], rtol=0, atol=1e-9)
    torch.testing.assert_close(alone_gradient, fast_gradient[1], rtol=0, atol=1e-9)
    shared = class_distance_correlation(x, y[1], classes)  # labels that all members share
    torch.testing.assert_close(shared[1], alone, rtol=0, atol=1e-9)


@pytest.mark.parametrize("d", [1, 10])
def test_a_whole_batch_of_few_positives_gives_the_correlation_of_the_matrices(d):
    y = (torch.arange(1028) % 50 == 0).long()
    (value, gradient), (fast, fast_gradient) = both(torch.sigmoid(drawn(0, 1028, d) + y[:, None]), y, 2)
    torch.testing.assert_close(fast, value, rtol=1e-9, atol=0)
    assert (fast_gradient - gradient).norm() <= 1e-9 * gradient.norm()


@pytest.mark.parametrize("d", [1, 3])
def test_equal_rows_do_not_draw_on_each_other_and_stay_together(d):
    x = drawn(0, 12, d).round()
    x[:4] = x[0]
    _, (_, gradient) = both(x, torch.arange(12) % 2, 2)
    assert gradient[0].equal(gradient[2])
    assert gradient[1].equal(gradient[3])


def made(classes=2, **params):
    return Discorloss(DiscorlossParams(**params), num_classes=classes, embedding_dims=[4, 4])


@pytest.mark.parametrize("phi", ["identity", "log"])
def test_the_loss_adds_the_correlation_of_every_party(phi):
    logits, y = drawn(0, 30, 3), torch.arange(30) % 3
    parties = [drawn(1, 30, 4), drawn(2, 30, 4)]
    change = math.log if phi == "log" else float
    expected = sum(change(naive(e, one_hot(y, 3).float())) for e in parties) * 0.5
    found = made(classes=3, weight=0.5, phi=phi).loss(logits, y, parties) - task_loss(logits, y)
    assert found.item() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("rows", [30, 600])
@pytest.mark.parametrize("width", [1, 4])
def test_hard_labels_and_the_same_as_soft_ones_have_one_loss(rows, width):
    logits, y, e = drawn(0, rows, 3), torch.arange(rows) % 3, drawn(1, rows, width)
    hard, soft = (made(classes=3, weight=1.0).loss(logits, t, [e]) for t in (y, one_hot(y, 3).float()))
    # The matrices of 30 rows are centered in float32.
    assert hard.item() == pytest.approx(soft.item(), abs=1e-6 if rows > 512 else 1e-5)


def test_many_rows_are_centered_in_float64_and_the_loss_stays_float32():
    e, y = drawn(0, 600, 2) + 1000, torch.arange(600) % 2
    loss = made(weight=1.0).loss(torch.zeros(600, 2), y, [e])
    exact = distance_correlation(e.double(), one_hot(y, 2).double()).item()
    assert loss.dtype == torch.float32
    assert loss.item() - math.log(2) == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize("phi", ["identity", "log"])
@pytest.mark.parametrize("case", ["one class", "one row", "equal rows", "some equal rows", "tiny rows", "one logit"])
def test_odd_batches_have_finite_gradients(case, phi):
    rows = 1 if case == "one row" else 12
    y = torch.zeros(rows, dtype=torch.int64) if case == "one class" else torch.arange(rows) % 2
    e = torch.ones(rows, 4) if case == "equal rows" else drawn(0, rows, 4)
    if case == "some equal rows":
        e[1:6] = e[0]
    e = (e * 1e-12 if case == "tiny rows" else e).requires_grad_()
    logits = torch.zeros(rows, 1 if case == "one logit" else 2)
    loss = made(weight=1.0, phi=phi).loss(logits, y, [e])
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(e.grad).all()
    if case in ("one class", "one row"):
        assert loss.item() == pytest.approx(math.log(2))
        assert not e.grad.any()


def trained_correlation(hook):
    """The correlation of embeddings and labels on the training rows after a short training."""
    split = made_up_split(0, rows=128)
    pack = Pack((0,), None)
    network = network_for(split, pack)
    SplitTraining(network, Rows(split, pack), Training(epochs=40, batch_size=64, lr=1e-2), [hook], pack.lead).run()
    with torch.no_grad():
        e = network.bottoms[0](split.passive_train[0])
    return distance_correlation(e, one_hot(split.y_train, 2).float()).item(), network


def test_a_strong_weight_makes_embeddings_independent_of_labels():
    free, _ = trained_correlation(Hooks())
    weak, _ = trained_correlation(made(weight=0.05))
    strong, _ = trained_correlation(made(weight=5.0))
    # 128 independent rows of width 5 give .1 to .2: the floor of this statistic.
    assert strong < 0.25 < 0.5 < free
    assert strong < weak <= free + 0.02


class OwnLoss(Hooks):
    """Puts the task's loss in the place of the task's loss, whose gradient then goes through autograd as well."""

    def loss(self, logits, targets, embeddings):
        return task_loss(logits, targets)


def test_weight_zero_is_no_defense():
    (_, plain), (_, zero) = trained_correlation(OwnLoss()), trained_correlation(made(weight=0.0))
    for a, b in zip(plain.parameters(), zero.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-6)
