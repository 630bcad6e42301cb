"""Noise on uploads: how much there is, how far it draws rows to what is usual, and what is said to be found of them."""

import copy
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import vmap

from tune_vfl.attacks.parts.gradient_matching import Matched, Matching, Prior
from tune_vfl.attacks.parts.single_steps import SingleStep, as_trained
from tune_vfl.attacks.parts.upload_noise import Noisy, Usual, noise_of
from tune_vfl.attacks.wgi import Wgi, WgiParams
from tune_vfl.protocol.uploaded import KnownClient, Uploads
from tune_vfl.protocol.view import View
from tune_vfl.seeds import Stream, Streams

CLASSES, ROWS, COLUMNS = 10, 8, 30


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def table_net(activation: type[nn.Module] = nn.Sigmoid, outputs: int = CLASSES) -> nn.Module:
    net = nn.Sequential(nn.Linear(COLUMNS, 24), activation(), nn.Linear(24, 16), activation(), nn.Linear(16, outputs))
    for p in net.parameters():
        p.data = 0.3 * normal(*p.shape, seed=p.numel())
    return net


def image_net() -> nn.Module:
    net = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.Sigmoid(), nn.Flatten(), nn.Linear(216, CLASSES))
    for p in net.parameters():
        p.data = 0.3 * normal(*p.shape, seed=p.numel())
    return net


def rows_of(image: bool) -> Tensor:
    if not image:
        return normal(ROWS, 1, COLUMNS, seed=1)
    dark = torch.linspace(-1, 1, 36).view(1, 1, 1, 6, 6)  # pixels differ in how dark they are
    return torch.sigmoid(2 * dark + normal(ROWS, 1, 1, 6, 6, seed=1) - 1)


def gradients(net: nn.Module, x: Tensor) -> Tensor:
    """Return those ``(G, n)`` of batches ``(G, B, ...)``, by plain passes."""
    found = []
    for g, rows in enumerate(x):
        labels = (torch.arange(len(rows)) + g) % CLASSES
        parts = torch.autograd.grad(F.cross_entropy(net(rows), labels), list(net.parameters()))
        found.append(torch.cat([p.flatten() for p in parts]))
    return torch.stack(found)


def with_noise(goal: Tensor, noise: float) -> Tensor:
    """Add noise as large as so many times the entries are on the whole."""
    return goal + noise * goal.square().mean().sqrt() * normal(*goal.shape, seed=7)


def step_of(net: nn.Module) -> SingleStep:
    return SingleStep(as_trained(copy.deepcopy(net)))


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("image", [False, True])
@pytest.mark.parametrize("size", [0.01, 0.3, 3.0])
def test_noise_is_what_no_matrix_of_low_rank_explains(image, batch, size):
    net = image_net() if image else table_net()
    x = rows_of(image).repeat(1, batch, *[1] * (3 if image else 1))
    plain = gradients(net, x + 0.1 * normal(*x.shape, seed=3))
    noisy = with_noise(plain, size)
    wanted = float((noisy - plain).square().mean())
    found = noise_of(step_of(net), noisy, batch)
    assert found.shape == (ROWS,)
    # The largest directions of noise pass for some of the rank, the more of them the more rows there are.
    assert float(found.mean()) == pytest.approx(wanted, rel={1: 0.2, 3: 0.3}[batch])


@pytest.mark.parametrize("activation", [nn.Sigmoid, nn.Tanh, nn.ReLU])
def test_gradients_without_noise_have_none(activation):
    net = table_net(activation)
    goal = gradients(net, rows_of(False))
    assert not noise_of(step_of(net), goal, 1).any()
    thinned = torch.where(goal.abs() > goal.abs().median(), goal, 0.0)
    assert not noise_of(step_of(net), thinned, 1).any(), "entries were left out, none is noisy"


def test_a_last_layer_of_one_output_leaves_it_to_the_one_before_and_too_small_nets_say_nothing():
    net = table_net(outputs=1)
    step, n = step_of(net), sum(p.numel() for p in net.parameters())
    assert float(noise_of(step, 0.5 * normal(40, n), 1).mean()) == pytest.approx(0.25, rel=0.2)
    tiny = nn.Linear(5, 4)
    assert not noise_of(SingleStep(tiny), normal(3, 24), 1).any()
    assert not noise_of(step, torch.zeros(2, n), 1).any()


def attacked(image: bool, noise: float, method: str = "idlg") -> tuple[float, float]:
    """Return the share of the squares around the mean row that ``wgi`` finds, and its own estimate of that."""
    net, x = (image_net() if image else table_net()), rows_of(image)
    goal = with_noise(gradients(net, x), noise)
    seen = Uploads(torch.arange(ROWS), 1, {"first": goal}, tuple(x.shape[2:]))
    held = {"client_gradients": seen, "client_model": KnownClient(lambda _at, _name: copy.deepcopy(net), 0)}
    attack = Wgi(WgiParams(rows=ROWS, moments=("first",), methods=(method,), iterations=60, steps=150))
    found = attack.run(View("wgi", (), CLASSES, Streams(0), held))[f"{method}_first"]
    true = x[:, 0]
    mean = true.mean(0) if image else torch.zeros_like(true[0])
    return float(1 - (found.rows - true).square().mean() / (true - mean).square().mean()), float(found.validation)


@pytest.mark.parametrize("method", ["idlg", "cosine"])
@pytest.mark.parametrize("noise", [0.3, 1.0, 3.0])
def test_columns_are_drawn_to_their_mean_by_the_noise_and_what_is_found_is_known(noise, method):
    success, estimate = attacked(False, noise, method)
    assert success > {0.3: 0.9, 1.0: 0.5, 3.0: 0.05}[noise]
    assert estimate == pytest.approx(success, abs=0.15)


@pytest.mark.parametrize("noise", [30.0, 1000.0])
def test_where_there_is_only_noise_columns_are_about_their_mean(noise):
    success, estimate = attacked(False, noise)
    assert success == pytest.approx(0.0, abs=0.1)
    assert estimate < 0.05


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_images_are_found_through_noise(noise):
    success, estimate = attacked(True, noise)
    assert success > (0.7 if noise else 0.8)
    assert estimate > 0.7


def test_what_is_usual_of_images_is_learned_pixel_by_pixel_as_far_as_they_agree():
    usual = Usual.of((1, 2, 2))
    assert (usual.center.unique().tolist(), usual.variance) == ([0.5], 0.25)
    pixels = torch.tensor([0.1, 0.3, 0.5, 0.9]).view(1, 1, 2, 2)
    agreed = usual.learned(pixels.repeat(5, 1, 1, 1))
    torch.testing.assert_close(agreed.center, pixels[0])
    one = usual.learned(pixels)
    torch.testing.assert_close(one.center, pixels[0])
    noise = usual.learned(torch.rand(6, 1, 40, 40, generator=torch.Generator().manual_seed(0)))
    assert float(noise.center.std()) < 0.05, "pixels differ by chance alone"
    assert noise.variance == pytest.approx(1 / 12, rel=0.1)


def test_the_pull_is_that_of_the_most_probable_row():
    """With one unknown number and a gradient that is linear in it, the posterior's mean is a weighted mean."""
    goal, noise, numbers = normal(2, 50), torch.tensor([0.5, 0.0]), 3
    noisy = Noisy(goal, noise, numbers)
    assert noisy.there
    prior = noisy.prior(Prior(l2=0.25), Usual.of((numbers,)), of_directions=False)
    square = goal.square().sum(-1)
    # |J x - goal|^2 / (2 noise) + |x|^2 / 2, times 2 noise over the squares of the goal; a mean over three numbers.
    torch.testing.assert_close(prior.l2, noise / square * numbers + 0.25)
    assert torch.equal(prior.center, torch.zeros(numbers))
    center = torch.ones(numbers)
    assert noisy.prior(Prior(center=center), Usual.of((numbers,)), of_directions=True).center is center
    assert not replace(noisy, noise=torch.zeros(2)).there


def test_finds_are_weighted_by_how_likely_they_are_and_what_they_differ_by_is_not_found():
    goal, rows = torch.ones(4, 50), torch.tensor([1.0, 1.0, -1.0, -1.0]).view(4, 1, 1)
    labels, share = torch.eye(2)[[0, 0, 1, 1]].unsqueeze(1), torch.full((4,), 0.9)
    # The first batch's finds are as near, of the second's one is nearer by 2 ln 3 variances of the noise.
    mismatch = torch.tensor([0.5, 0.5, 0.5, 0.5 + 2 * float(torch.tensor(3.0).log()) / 50])
    noisy = Noisy(goal, torch.ones(4), 1)
    found = noisy.blended(Matched(rows, labels, mismatch, share), Usual(torch.zeros(1), 4.0), 2)
    torch.testing.assert_close(found.rows.flatten(), torch.tensor([0.0, 0.5]))
    torch.testing.assert_close(found.labels[:, 0], torch.tensor([[0.5, 0.5], [0.75, 0.25]]))
    torch.testing.assert_close(found.share, torch.tensor([0.9 - 1 / 4, 0.9 - 0.75 / 4]))


def test_a_label_that_noise_hides_leaves_a_row_between_both():
    """The rows of two labels are each other's mirror images to a layer whose bias says too little."""
    net = table_net(nn.Tanh, outputs=2)
    x = rows_of(False)
    parts = [
        torch.autograd.grad(F.cross_entropy(net(r), torch.tensor([g % 2])), list(net.parameters()))
        for g, r in enumerate(x)
    ]
    goal = torch.stack([torch.cat([p.flatten() for p in of]) for of in parts])
    goal = goal + 0.5 * goal.square().mean(-1, keepdim=True).sqrt() * normal(*goal.shape, seed=7)
    seen = Uploads(torch.arange(ROWS), 1, {"first": goal}, (COLUMNS,))
    held = {"client_gradients": seen, "client_model": KnownClient(lambda _at, _name: copy.deepcopy(net), 0)}
    attack = Wgi(WgiParams(rows=ROWS, moments=("first",), methods=("idlg",), iterations=60))
    found = attack.run(View("wgi", (), 2, Streams(0), held))["idlg_first"]
    by_row = (found.rows - x[:, 0]).square().mean(-1) / x[:, 0].square().mean(-1)
    assert by_row.max() < 1.3, "no row is the mirror image of itself"
    assert by_row.mean() < 0.5


def test_slopes_are_those_of_the_gradient():
    net, x = table_net(), rows_of(False)[:2]
    step, targets = step_of(net), F.one_hot(torch.tensor([[0], [3]]), CLASSES).float()
    probe = normal(step.width)
    shift = 1e-2 * normal(*x.shape, seed=5)
    found = step.slopes(x, targets, probe)
    moved = [vmap(step.gradient)(x + sign * shift, targets) @ probe for sign in (1, -1)]
    torch.testing.assert_close((found * shift).flatten(1).sum(-1), (moved[0] - moved[1]) / 2, atol=1e-4, rtol=1e-2)


@pytest.mark.parametrize("labels", [None, torch.tensor([[1], [2]])])
def test_a_search_goes_on_from_where_another_ended(labels):
    net = table_net()
    goal = gradients(net, rows_of(False)[:2])
    matching = Matching(step_of(net), goal, (COLUMNS,), 1, labels=labels, num_classes=CLASSES)
    begin = matching.starts(Stream(0, "s"), 1, 2)[0]
    found: Matched = matching.by_lbfgs(begin, 3)
    again = matching.by_lbfgs(matching.again(found), 0)
    torch.testing.assert_close(again.rows, found.rows)
    torch.testing.assert_close(again.labels, found.labels)
    torch.testing.assert_close(again.mismatch, found.mismatch)
