"""Chains against autograd, layer by layer: the passes in torch, and the native ones where there is a compiler."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.helpers.problems import made_up_split, network_for, train
from tune_vfl.data.base import Split
from tune_vfl.kernels import chain as chains
from tune_vfl.kernels import native, passes
from tune_vfl.kernels.chain import Passes, Steps
from tune_vfl.models.layers import Dropout, FlattenRows, Linear, stack_of
from tune_vfl.protocol.hooks import Hooks
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.members import Pack
from tune_vfl.seeds import Stream
from tune_vfl.spec import Training

SEEDS = (3, 4)
MEMBERS = 4


def fresh() -> Stream:
    """Return the stream of the members' weights at its beginning."""
    return Stream(list(SEEDS) * 2, "weights")


@pytest.fixture(params=["torch", "native"])
def ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Passes:
    """The passes that chains take."""
    found = passes if request.param == "torch" else native.native_passes()
    if found is None:
        pytest.skip("no compiler on this machine")
    monkeypatch.setattr(chains, "native_passes", lambda: None if found is passes else found)
    return found


def sigmoid_net() -> list[nn.Module]:
    return [*stack_of([57, 16, 1], nn.LeakyReLU, stream=fresh()), nn.Sigmoid()]


def with_dropout() -> list[nn.Module]:
    return [FlattenRows((3,)), *stack_of([3, 18, 7, 2], nn.ReLU, stream=fresh(), dropout=0.3)]


NETS: dict[str, Callable[[], list[nn.Module]]] = {
    "one layer": lambda: stack_of([5, 3], nn.ReLU, stream=fresh()),
    "wide to narrow": lambda: stack_of([20, 64, 33, 1], nn.ReLU, stream=fresh()),
    "one column": lambda: stack_of([1, 16, 1], nn.LeakyReLU, stream=fresh()),
    "activation at the end": lambda: [*stack_of([4, 6, 5], nn.ReLU, stream=fresh()), nn.LeakyReLU(0.2, inplace=True)],
    "two activations": lambda: [*stack_of([4, 6], nn.ReLU, stream=fresh()), nn.ReLU(), nn.LeakyReLU(0.2)],
    "sigmoid": sigmoid_net,
    "dropout": with_dropout,
}


def twins(name: str) -> tuple[nn.Sequential, Steps, nn.Sequential]:
    """Return a network, its steps with the network they are of, and drawing the same masks."""
    plain = nn.Sequential(*NETS[name]())
    stepped = nn.Sequential(*NETS[name]())
    return plain, Steps(stepped), stepped


def line_gradient(of: nn.Sequential, steps: Steps) -> list[Tensor]:
    """Return the gradients of the steps' parameters, in the order of the network's own."""
    found: dict[int, Tensor] = {}
    for one in steps.chains:
        assert one.line.grad is not None
        for position, layer in enumerate(one.form.layers):
            found[id(one.replaced[2 * position])] = one.form.weight(one.line.grad, layer)
            found[id(one.replaced[2 * position + 1])] = one.form.bias(one.line.grad, layer)
    return [found[id(p)] for p in of.parameters()]


@pytest.mark.parametrize("name", list(NETS))
@pytest.mark.parametrize("rows", [1, 16, 37, 160])
@pytest.mark.parametrize("by_seed", [False, True], ids=["by member", "by seed"])
def test_a_chain_is_its_layers(ways: Passes, name: str, rows: int, by_seed: bool) -> None:
    plain, steps, stepped = twins(name)
    assert steps.chains
    assert steps.shares_rows
    g = torch.Generator().manual_seed(rows)
    width = next(m for m in plain if isinstance(m, Linear)).weight.shape[-1]
    # As in training, the rows are a part of the epoch's.
    x = torch.randn(len(SEEDS), rows + 5, width, generator=g)[:, 2 : rows + 2]
    spread = x.repeat(2, 1, 1)
    given = x if by_seed else spread.clone().requires_grad_()
    read = spread.clone().requires_grad_()
    ours, theirs = steps(given), plain(read)
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-6)
    assert ours.is_contiguous()
    # As in training, a party's gradient is a part of what reaches all embeddings.
    wanted = torch.randn(*theirs.shape[:-1], theirs.shape[-1] + 5, generator=g)[..., 2:-3] / rows
    for _ in range(2):  # the graph may be gone back through again, as a defense that asks for class gradients does
        ours.backward(wanted, retain_graph=True)
        theirs.backward(wanted, retain_graph=True)
    for found, p in zip(line_gradient(stepped, steps), plain.parameters(), strict=True):
        torch.testing.assert_close(found, p.grad, atol=1e-6, rtol=1e-5)
    if not by_seed:
        torch.testing.assert_close(given.grad, read.grad, atol=1e-6, rtol=1e-5)


def test_the_gradient_of_shared_rows_is_a_sum_over_members(ways: Passes) -> None:
    plain, steps, _ = twins("wide to narrow")
    shared = torch.randn(2, 9, 20, generator=torch.Generator().manual_seed(0)).requires_grad_()
    twin = shared.detach().clone().requires_grad_()
    steps(shared).sum().backward()
    plain(twin.repeat(2, 1, 1)).sum().backward()
    torch.testing.assert_close(shared.grad, twin.grad, atol=1e-6, rtol=1e-5)


def test_what_is_not_finite_stays_so_and_with_its_member(ways: Passes) -> None:
    plain, steps, _ = twins("wide to narrow")
    x = torch.randn(MEMBERS, 20, 20, generator=torch.Generator().manual_seed(0))
    x[1, 3, 2], x[2, 4] = float("nan"), float("inf")
    ours, theirs = steps(x), plain(x)
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5, equal_nan=True)
    ours.sum().backward()
    (line,) = (c.line for c in steps.chains)
    assert line.grad is not None
    for layer in steps.chains[0].form.layers:
        finite = steps.chains[0].form.weight(line.grad, layer).isfinite().flatten(1).all(1)
        assert finite[[0, 3]].all()
        assert not finite[1]


def test_parameters_stay_the_networks_own(ways: Passes) -> None:
    _, steps, stepped = twins("sigmoid")
    with torch.no_grad():
        steps.chains[0].line.mul_(2)
        before = steps(torch.ones(MEMBERS, 2, 57))
        torch.testing.assert_close(stepped(torch.ones(MEMBERS, 2, 57)), before)
        next(iter(stepped.parameters())).zero_()
        assert not torch.allclose(steps(torch.ones(MEMBERS, 2, 57)), before)
    apart = copy.deepcopy(stepped)
    with torch.no_grad():
        steps.chains[0].line.zero_()
    assert all(bool(p.any()) for p in list(apart.parameters())[1:])


class Own(nn.Sequential):
    """A model of somebody's own."""


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(Linear(3, 2, stream=Stream(0, "alone")), nn.ReLU()),
        nn.Sequential(nn.Linear(3, 2)),
        Own(*stack_of([3, 2], nn.ReLU, stream=fresh())),
        nn.Sequential(*stack_of([3, 2], nn.ReLU, stream=fresh())).requires_grad_(False),
        nn.Sequential(*stack_of([3, 2], nn.ReLU, stream=fresh())).double(),
        nn.Identity(),
    ],
    ids=["alone", "torch's layer", "own class", "frozen", "double", "no layers"],
)
def test_what_is_no_chain_is_run_as_it_is(model: nn.Module) -> None:
    steps = Steps(model)
    assert steps.chains == []
    assert not steps.shares_rows
    x = torch.ones(MEMBERS, 5, 3, dtype=next(model.parameters(), torch.ones(1)).dtype)
    assert torch.equal(steps(x), model(x))


def test_dropout_parts_two_chains() -> None:
    steps = Steps(nn.Sequential(*with_dropout()))
    assert [c.form.widths for c in steps.chains] == [(3, 18), (18, 7), (7, 2)]
    assert sum(isinstance(p, Dropout) for p in steps._parts) == 2


class Looks(Hooks):
    """Has the gradients cut, and keeps them."""

    def __init__(self) -> None:
        self.sent: list[Tensor] = []
        self.received: list[Tensor] = []

    def send_embedding(self, embedding: Tensor, *, party: int) -> Tensor:
        self.sent.append(embedding.detach().clone())
        return embedding

    def screen(self, gradients: list[Tensor]) -> list[Tensor]:
        self.received += [g.clone() for g in gradients]
        return gradients


CASES: list[dict[str, Any]] = [
    {"classes": 2, "parties": 1, "own": True},
    {"classes": 3, "parties": 3, "own": True, "aggregation": "mean"},
    {"classes": 3, "parties": 2, "own": False},
    {"classes": 2, "parties": 1, "own": True, "head": "scalar"},
    {"classes": 4, "parties": 1, "own": True, "aggregation": "sum", "top": "none"},
]
RECIPES = [
    Training(epochs=2, batch_size=16, lr=0.01, weight_decay=0.01, lr_schedule="inverse_sqrt"),
    Training(
        epochs=2, batch_size=33, lr=0.05, optimizer="sgd", momentum=0.9, weight_decay=0.01, grad_scale="per_sample"
    ),
    Training(epochs=2, batch_size=70, lr=0.01, protect_own_bottom=True),
]


@pytest.mark.parametrize("case", CASES, ids=["split", "mean", "label_only", "one logit", "no top"])
@pytest.mark.parametrize("recipe", RECIPES, ids=["adam", "sgd", "protected"])
def test_a_pack_is_trained_as_by_autograd(
    ways: Passes, monkeypatch: pytest.MonkeyPatch, case: dict[str, Any], recipe: Training
) -> None:
    """Parameters, what was sent and what was received, after up to ten steps."""
    options = dict(case)
    classes, parties, own = options.pop("classes"), options.pop("parties"), options.pop("own")
    split = Split.stack([made_up_split(s, classes=classes, parties=parties, own=own) for s in SEEDS])
    pack = Pack(SEEDS, 2)

    def trained() -> tuple[SplitTraining, Looks]:
        looks = Looks()
        return train(split, pack, recipe, [looks], classes=classes, **options), looks

    ours, seen = trained()
    monkeypatch.setattr(SplitTraining, "_stepping", lambda self, model, taken: model)
    theirs, twin = trained()
    assert len(ours._optimizers[0].param_groups[0]["params"]) < len(theirs._optimizers[0].param_groups[0]["params"])
    for a, b in zip(ours.network.parameters(), theirs.network.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)
    for a, b in zip([*seen.sent, *seen.received], [*twin.sent, *twin.received], strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)
    assert torch.equal(ours.diverged, theirs.diverged)


def test_a_bottom_with_an_optimizer_of_its_own_keeps_its_parameters() -> None:
    class Apart(Hooks):
        def local_optimizer(self, bottom: nn.Module, *, party: int) -> torch.optim.Optimizer | None:
            return torch.optim.SGD(bottom.parameters(), lr=0.1) if party == 0 else None

    split = Split.stack([made_up_split(s) for s in SEEDS])
    pack = Pack(SEEDS, 2)
    network = network_for(split, pack)
    before = [p.clone() for p in network.bottoms[0].parameters()]
    loop = train(split, pack, Training(epochs=1, batch_size=35), [Apart()])
    assert isinstance(loop._bottoms[0], nn.Sequential)
    assert isinstance(loop._top, Steps)
    assert all(not torch.equal(a, b) for a, b in zip(before, loop.network.bottoms[0].parameters(), strict=True))


@pytest.mark.parametrize(("lanes", "fits"), [(4, 128), (8, 256), (16, 784)])
def test_large_layers_on_narrow_registers_are_left_to_torch(
    monkeypatch: pytest.MonkeyPatch, lanes: int, fits: int
) -> None:
    """Where torch is faster, see benchmarks.kernels; 64 columns go out."""
    found = native.native_passes()
    if found is None:
        pytest.skip("no compiler on this machine")
    monkeypatch.setattr(found, "_lanes", lanes)
    monkeypatch.setattr(chains, "native_passes", lambda: found)
    for width in (64, 128, 256, 784):
        (chain,) = Steps(nn.Sequential(Linear(width, 64, stream=fresh()))).chains
        assert (chain.passes is found) == (width <= fits), width
