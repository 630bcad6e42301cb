"""Gradient inversion: gradients against a plain loop, closed forms, labels read off, starts, and what is guessed."""

import copy
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import vmap

from tune_vfl.attacks.parts.gradient_matching import Matched, roughness
from tune_vfl.attacks.parts.read_off import read_off
from tune_vfl.attacks.parts.single_steps import SingleStep, as_trained
from tune_vfl.attacks.parts.uploaded_labels import gradient_of_logits, labels_of_batches
from tune_vfl.attacks.wgi import Wgi, WgiParams
from tune_vfl.models.layers import Dropout, Linear, reseed, stack_of
from tune_vfl.protocol.uploaded import KnownClient, Uploads
from tune_vfl.protocol.view import View
from tune_vfl.seeds import Stream, Streams


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def uniform(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def mlp(*widths, seed=0, activation=nn.ReLU):
    layers = stack_of(list(widths), nn.ReLU, stream=Stream(seed, "net"))
    return nn.Sequential(*(activation() if isinstance(m, nn.ReLU) else m for m in layers))


def smooth_cnn(seed=0):
    """Sigmoids and strides, as the LeNet of DLG, small."""
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3, 2, 1), nn.Sigmoid(), nn.Conv2d(8, 8, 3, 1, 1), nn.Sigmoid(), nn.Flatten(), nn.Linear(128, 4)
    )
    for p in net.parameters():
        p.data = uniform(*p.shape, seed=seed + p.numel()) - 0.5
    return net


def naive(net, x, y, shared_from=0):
    """Gradients of batches ``(G, B, ...)``, by backward passes of the network itself."""
    found = []
    for rows, labels in zip(x, y, strict=True):
        loss = F.cross_entropy(net(rows), labels)
        parts = torch.autograd.grad(loss, list(net.parameters())[shared_from:])
        found.append(torch.cat([g.flatten() for g in parts]))
    return torch.stack(found)


def view_of(net, x, y, *, batch=1, classes=4, guesses=None, shared_from=0):
    """What a server sees that knows the net, of batches ``(G, B, ...)``."""
    goal = naive(copy.deepcopy(net), x, y, shared_from)
    seen = Uploads(torch.arange(x.shape[0] * batch), batch, {"first": goal, "last": goal}, tuple(x.shape[2:]))
    known = KnownClient(lambda at, name: copy.deepcopy(guesses(name) if guesses else net), shared_from)
    held = {"client_gradients": seen, "client_model": known}
    return View("wgi", (), classes, Streams(0), held)


def run(view, **params):
    found = Wgi(WgiParams(**{"moments": ("first",), "restarts": 1} | params)).run(view)
    found.pop("read_off_first", None)
    assert len(found) == 1
    return next(iter(found.values()))


class Normed(nn.Module):
    """A net with a batch norm."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.Linear(108, 4)
        self.norm.running_mean += 1.0

    def forward(self, x):
        return self.last(torch.tanh(self.norm(self.first(x))).flatten(1))


@pytest.mark.parametrize("shared_from", [0, 2])
@pytest.mark.parametrize("kind", ["table", "image", "norm"])
def test_gradients_equal_a_plain_loop_one_batch_at_a_time(kind, shared_from):
    net = {"table": mlp(6, 9, 4), "image": smooth_cnn(), "norm": Normed()}[kind]
    reseed(net, Stream(1, "net"))
    x = normal(5, 3, *{"table": (6,), "image": (1, 8, 8), "norm": (1, 6, 6)}[kind])
    y = torch.randint(4, (5, 3), generator=torch.Generator().manual_seed(0))
    wanted = naive(copy.deepcopy(net).train(), x, y, shared_from)
    used = as_trained(copy.deepcopy(net))
    before = copy.deepcopy(used.state_dict())
    step = SingleStep(used, shared_from)
    found = vmap(step.gradient)(x, F.one_hot(y, 4).float())
    torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-4)
    assert step.width == wanted.shape[-1]
    assert all(torch.equal(before[k], v) for k, v in used.state_dict().items())
    last = list(net.parameters())[-1]
    assert torch.equal(step.last(found), found[:, -last.numel() :].view(5, *last.shape))


def test_a_batch_norm_of_one_value_a_channel_takes_its_running_statistics():
    net = nn.Sequential(nn.BatchNorm1d(4))
    net[0].running_mean += 0.5
    x = normal(1, 4)
    wanted = (x - 0.5) / (1 + net[0].eps) ** 0.5
    torch.testing.assert_close(as_trained(net)(x), wanted)


def test_nobody_else_knows_what_dropout_drops():
    net = nn.Sequential(mlp(5, 7, 4), Dropout(0.5, stream=Stream(0, "masks")), nn.Dropout(0.5))
    x = normal(3, 5)
    wanted = net[0](x)
    torch.testing.assert_close(as_trained(net)(x), wanted)


def test_the_input_of_a_linear_softmax_layer_is_the_gradient_of_its_weight_over_that_of_its_bias():
    net, x, y = mlp(6, 4), normal(5, 1, 6, seed=1), torch.tensor([[0], [1], [2], [3], [0]])
    goal = naive(net, x, y)
    closed = goal[:, :24].view(5, 4, 6)[:, 0] / goal[:, 24:25]
    torch.testing.assert_close(closed, x[:, 0], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(
        read_off(*SingleStep(net).first_linear(goal), image=False).rows, x[:, 0], atol=1e-4, rtol=1e-4
    )
    answer = run(view_of(net, x, y), methods=("idlg",), iterations=5)
    torch.testing.assert_close(answer.rows, x[:, 0], atol=1e-4, rtol=1e-4)
    assert torch.equal(answer.labels, y[:, 0])
    assert answer.validation > 1 - 1e-6


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_the_signs_of_a_row_are_read_off_the_first_step_of_adam(noise):
    net, x, y = mlp(60, 40, 4), normal(5, 1, 60, seed=1), torch.tensor([[0], [1], [2], [3], [0]])
    view = view_of(net, x, y)
    seen = view.held["client_gradients"]
    signs = seen.gradients["first"].sign() + noise * normal(*seen.gradients["first"].shape, seed=2)
    view = replace(view, held={**view.held, "client_gradients": replace(seen, steps={"first": signs})})
    found = Wgi(WgiParams(moments=("first",), restarts=1, iterations=1, steps=1)).run(view)["signs_first"]
    assert (found.rows.sign() == x[:, 0].sign()).float().mean() > 0.97
    left = (found.rows - x[:, 0]).square().mean() / x.square().mean()
    assert float(found.validation) == pytest.approx(float(1 - left), abs=0.15)


def test_only_a_linear_first_layer_that_is_uploaded_with_its_bias_is_read_off():
    goal = torch.zeros(1, 1000)
    assert SingleStep(smooth_cnn()).first_linear(goal) is None
    assert SingleStep(mlp(6, 5, 4), 2).first_linear(goal) is None
    assert SingleStep(nn.Sequential(nn.Linear(6, 5, bias=False), nn.Linear(5, 4))).first_linear(goal) is None
    assert SingleStep(nn.Sequential(nn.Linear(6, 5, bias=False))).first_linear(goal) is None
    weight, bias = SingleStep(mlp(6, 5, 4)).first_linear(torch.arange(64.0).unsqueeze(0))
    assert torch.equal(weight, torch.arange(30.0).view(1, 5, 6))
    assert torch.equal(bias, torch.arange(30.0, 35.0).view(1, 5))


@pytest.mark.parametrize("bias", [True, False])
def test_the_label_of_a_single_row_is_read_exactly(bias):
    y = torch.arange(40).view(40, 1) % 4
    net = nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 4, bias=bias))
    reseed(net, Stream(2, "net"))
    residual = gradient_of_logits(SingleStep(net).last(naive(net, normal(40, 1, 6), y)), 4)
    assert torch.equal(labels_of_batches(residual, 1, torch.full((4,), 0.25)), y)


def test_the_label_of_a_scalar_head_is_the_sign_of_its_gradient():
    logit, y = normal(8, 1, seed=4), torch.tensor([0, 1, 1, 0, 1, 0, 0, 1])
    gradient = torch.sigmoid(logit) - y.unsqueeze(-1)
    found = labels_of_batches(gradient_of_logits(gradient, 2), 1, torch.full((2,), 0.5))
    assert torch.equal(found[:, 0], y)
    assert gradient_of_logits(torch.zeros(3, 7), 2) is None


def test_labels_of_a_batch_are_those_that_are_surely_there_and_then_the_most_frequent():
    p = torch.tensor([[0.4, 0.3, 0.2, 0.1]])
    for labels in ([0, 1, 2, 3], [1, 1, 1, 3], [3, 3, 2, 2], [0, 0, 0, 0]):
        counts = torch.bincount(torch.tensor(labels), minlength=4)
        found = labels_of_batches(p - counts / 4, 4, p[0])
        assert found[0].sort().values.tolist() == sorted(labels)
    # Where what the network says of other rows misleads, a class with a negative entry is still there.
    misled = labels_of_batches(torch.tensor([[0.2, 0.2, -0.1, -0.3]]), 2, torch.tensor([1.0, 0.0, 0.0, 0.0]))
    assert sorted(misled[0].tolist()) == [2, 3]


@pytest.mark.parametrize("method", ["dlg", "idlg"])
def test_images_come_back_through_a_smooth_net(method):
    x, y = uniform(3, 1, 1, 8, 8, seed=5), torch.tensor([[1], [3], [0]])
    answer = run(view_of(smooth_cnn(), x, y), methods=(method,), iterations=150)
    assert (answer.rows - x[:, 0]).square().mean() < 1e-3
    assert torch.equal(answer.labels, y[:, 0])
    assert answer.rows.shape == (3, 1, 8, 8)
    assert answer.ids.tolist() == [0, 1, 2]


def test_directions_lead_through_a_relu_net_within_the_pixels_range():
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(200, 4))
    reseed(net, Stream(3, "net"))
    x, y = uniform(2, 1, 1, 5, 5, seed=6), torch.tensor([[2], [0]])
    answer = run(view_of(net, x, y), methods=("cosine",), steps=120, tv=0.0)
    assert (answer.rows - x[:, 0]).square().mean() < 1e-3
    assert 0 <= answer.rows.min() <= answer.rows.max() <= 1
    smoothed = run(view_of(net, x, y), methods=("cosine",), steps=60, tv=1.0)
    assert roughness(smoothed.rows) < 0.5 * roughness(answer.rows)


def test_a_batch_comes_back_in_some_order():
    x, y = normal(1, 3, 5, seed=7), torch.tensor([[0, 2, 3]])
    answer = run(view_of(mlp(5, 32, 4, activation=nn.Sigmoid), x, y, batch=3), batch=3, methods=("idlg",), restarts=4)
    apart = torch.cdist(answer.rows, x[0])
    assert sorted(apart.argmin(0).tolist()) == [0, 1, 2]
    assert apart.min(0).values.max() < 0.05
    assert torch.equal(answer.labels[apart.argmin(0)], y[0])
    assert answer.batch == 3


def test_of_several_guesses_at_what_is_secret_the_one_that_explains_the_gradients_counts():
    net, other = mlp(5, 12, 4, activation=nn.Sigmoid), mlp(5, 12, 4, seed=9, activation=nn.Sigmoid)
    asked = []

    def guesses(name):
        asked.append(name)
        return net if name == "client/1" else other

    x, y = normal(2, 1, 5, seed=8), torch.tensor([[1], [2]])
    answer = run(view_of(net, x, y, guesses=guesses, shared_from=2), methods=("idlg",), restarts=3, iterations=80)
    assert {"client/0", "client/1"} <= set(asked)
    torch.testing.assert_close(answer.rows, x[:, 0], atol=1e-2, rtol=0)


def test_what_no_start_improves_stays_as_it_was():
    first = Matched(torch.zeros(3, 1, 2), torch.zeros(3, 1, 2), torch.tensor([0.5, 0.1, torch.nan]), torch.zeros(3))
    second = Matched(torch.ones(2, 1, 2), torch.ones(2, 1, 2), torch.tensor([0.2, 0.7]), torch.ones(2))
    both = first.with_nearer(second, torch.tensor([0, 2]))
    assert both.rows[:, 0, 0].tolist() == [1.0, 0.0, 1.0]
    assert both.mismatch.tolist() == pytest.approx([0.2, 0.1, 0.7])
    listed = Matched(
        torch.arange(6.0).view(6, 1, 1),
        torch.zeros(6, 1, 1),
        torch.tensor([3.0, 1, 2, torch.nan, 1.5, 1.2]),
        torch.zeros(6),
    )
    assert listed.nearest_of(2).rows.flatten().tolist() == [0.0, 1.0, 5.0]
    assert listed.nearest_of(3).rows.flatten().tolist() == [4.0, 1.0]


def test_roughness_equals_a_loop_over_neighbors():
    x = uniform(2, 1, 3, 4)
    down = [abs(float(i[0, r + 1, c] - i[0, r, c])) for i in x for r in range(2) for c in range(4)]
    right = [abs(float(i[0, r, c + 1] - i[0, r, c])) for i in x for r in range(3) for c in range(3)]
    assert roughness(x).item() == pytest.approx(sum(down) / len(down) + sum(right) / len(right), rel=1e-5)
    assert roughness(torch.rand(2, 1, 1, 1)).item() == 0.0


def test_linear_layers_of_the_house_are_read_as_torchs_are():
    ours = nn.Sequential(Linear(6, 4, stream=Stream(0, "net")))
    assert SingleStep(ours).first_linear(torch.zeros(1, 28)) is not None
