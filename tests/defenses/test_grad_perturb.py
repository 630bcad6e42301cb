"""Gradient perturbation: the gradient of a noisy label, its mean, and the privacy of two classes in one dimension."""

import math

import pytest
import torch
from torch import nn

from tests.helpers.problems import made_up_split, train
from tests.protocol.test_loop import ALONE
from tune_vfl.data.base import Split
from tune_vfl.defenses.grad_perturb import GradPerturb, GradPerturbParams
from tune_vfl.errors import UsageError
from tune_vfl.protocol.hooks import Context, Hooks
from tune_vfl.protocol.losses import loss_gradient, task_loss
from tune_vfl.protocol.members import Pack
from tune_vfl.seeds import Streams
from tune_vfl.spec import Training
from tune_vfl.testing.gradients import linear

B, D = 6, 4


def made(classes, members=None, **params):
    return GradPerturb(members or GradPerturbParams(**params), num_classes=classes, embedding_dims=[D])


def step(classes, seed=0):
    """A top model's gradient for true labels, the context of that step, and the top model."""
    torch.manual_seed(seed)
    top = nn.Sequential(nn.Linear(D, 8), nn.Tanh(), nn.Linear(8, classes)).double()
    embedding = torch.randn(B, D, dtype=torch.float64)
    y = torch.arange(B) % classes

    def gradient(targets):
        leaf = embedding.clone().requires_grad_()
        return torch.autograd.grad(task_loss(top(leaf), targets), leaf)[0]

    context = Context(
        embeddings=[embedding],
        logits=top(embedding).detach(),
        targets=y,
        ids=torch.arange(B),
        epoch=0,
        step=0,
        per_class_gradient=lambda label: gradient(torch.full_like(y, label) if isinstance(label, int) else label),
    )
    return gradient(y), y, context, gradient


@pytest.mark.parametrize(("classes", "form"), [(3, "difference"), (2, "per_class"), (10, "per_class")])
def test_it_is_the_gradient_of_a_noisy_label(classes, form):
    grad, y, context, gradient = step(classes)
    sent = made(classes, epsilon=0.5, two_classes=form).cut_gradient(grad, y=y, context=context)
    noise = Streams(0)["cut/0"].laplace(B, classes).double() * (2 / 0.5)
    label = nn.functional.one_hot(y, classes).double() + noise
    torch.testing.assert_close(sent, gradient(label))


def test_two_classes_get_one_number_along_the_difference():
    grad, y, context, gradient = step(2)
    sent = made(2, epsilon=0.5).cut_gradient(grad, y=y, context=context)
    u = Streams(0)["cut/0"].laplace(B, 1).double() / 0.5
    label = torch.cat([1 - y.unsqueeze(-1) - u, y.unsqueeze(-1) + u], dim=-1)
    torch.testing.assert_close(sent, gradient(label))


@pytest.mark.parametrize(("classes", "form"), [(2, "difference"), (2, "per_class"), (5, "difference")])
def test_the_expected_gradient_stays(classes, form):
    grad, y, context, _ = step(classes)
    per_class = [context.per_class_gradient(c) for c in range(classes)]
    context.per_class_gradient = linear(per_class)
    defense, repeats = made(classes, two_classes=form), 4000
    sent = torch.stack([defense.cut_gradient(grad, y=y, context=context) for _ in range(repeats)])
    error = (sent.mean(0) - grad).abs() / (sent.std(0) / math.sqrt(repeats))
    assert (error < 4.5).all()  # 30 entries at 4.5 standard errors: 1 in 5,000


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
def test_two_labels_are_told_apart_by_at_most_epsilon(epsilon):
    # One dimension: the difference of the classes' gradients is 1, so a release is label + Laplace(1 / epsilon).
    rows = 200_000
    context_of_class = {0: torch.zeros(rows, 1), 1: torch.ones(rows, 1)}
    counts = []
    for label, seed in ((0, 0), (1, 1)):
        y = torch.full((rows,), label)
        context = Context([], torch.zeros(rows, 2), y, y, 0, 0, linear([context_of_class[0], context_of_class[1]]))
        defense = made(2, epsilon=epsilon)
        defense.setup(y, torch.arange(rows), seed=seed)
        sent = defense.cut_gradient(context_of_class[label], y=y, context=context)
        counts.append(torch.histc(sent, bins=12, min=-1.0, max=2.0))
    ratio = (counts[0] / counts[1]).log().abs()
    # At least 900 draws a bin leave a standard error below 0.05 of the logarithm.
    assert min(c.min().item() for c in counts) > 900
    assert ratio.max().item() <= epsilon + 0.15
    assert ratio[0].item() == pytest.approx(epsilon, abs=0.15)  # and the bound is met outside of the two labels


def test_without_a_context_it_says_what_is_missing():
    grad, y, _, _ = step(3)
    with pytest.raises(UsageError, match="per_class_gradient"):
        made(3).cut_gradient(grad, y=y)


class Last(Hooks):
    """Keeps the last gradient that came and what the context said of it."""

    def __init__(self, classes):
        self.classes = classes

    def cut_gradient(self, grad, *, y, context=None, party=0):
        weights = torch.randn(*y.shape, self.classes, generator=torch.Generator().manual_seed(party))
        self.grad, self.y, self.weights = grad, y, weights
        self.of_class = [context.per_class_gradient(c) for c in range(self.classes)]
        self.at_once = context.per_class_gradient(weights)
        return grad


@pytest.mark.parametrize("scale", ["batch_mean", "per_sample"])
@pytest.mark.parametrize(("lead", "options"), [((), {}), ((2,), {}), ((), {"top": "none", "aggregation": "sum"})])
def test_in_the_loop_the_gradients_per_class_are_those_of_the_loss(lead, options, scale):
    classes = 3
    split = made_up_split(0, classes=classes)
    pack = Pack((0,), *lead) if lead else ALONE
    last = Last(classes)
    training = Training(epochs=1, batch_size=14, lr=0.01, grad_scale=scale)
    train(Split.stack([split]) if lead else split, pack, training, [last], classes=classes, **options)
    wanted = nn.functional.one_hot(last.y, classes)
    picked = sum(wanted[..., c, None] * last.of_class[c] for c in range(classes))
    torch.testing.assert_close(picked, last.grad)
    one_by_one = sum(last.weights[..., c, None] * last.of_class[c] for c in range(classes))
    torch.testing.assert_close(last.at_once, one_by_one)


@pytest.mark.parametrize(("classes", "outputs"), [(2, 1), (2, 2), (5, 5)])
def test_the_gradient_of_weighted_classes_is_the_sum_of_the_losses_own(classes, outputs):
    g = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 7, outputs, dtype=torch.float64, generator=g, requires_grad=True)
    weights = torch.randn(3, 7, classes, dtype=torch.float64, generator=g)
    passes = []
    for c in range(classes):
        loss = task_loss(logits, torch.full((3, 7), c)).sum()
        passes.append(torch.autograd.grad(loss, logits)[0])
        torch.testing.assert_close(loss_gradient(logits.detach(), c), passes[c])
    naive = sum(weights[..., c, None] * passes[c] for c in range(classes))
    torch.testing.assert_close(loss_gradient(logits.detach(), weights), naive)
