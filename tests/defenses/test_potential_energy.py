"""The potential energy: a naive twin, closed forms of value and force, odd rows, and what it does to a training."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.problems import made_up_split, network_for
from tune_vfl.data.base import Split
from tune_vfl.defenses.potential_energy import (
    NEAREST,
    OnSphere,
    PotentialEnergy,
    PotentialEnergyParams,
    potential_energy,
)
from tune_vfl.errors import SpecError
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.evaluation.training import wrap
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.losses import task_loss
from tune_vfl.protocol.members import Pack, Rows
from tune_vfl.spec import Training, parse


def drawn(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def naive(rows, labels):
    """Pair by pair, in Python's doubles, as the formula is printed, then the mean."""
    found = []
    for i, h in enumerate(rows):
        for j, other in enumerate(rows):
            if i != j and labels[i] == labels[j]:
                lengths = math.sqrt(sum(a * a for a in h)) * math.sqrt(sum(b * b for b in other))
                found.append(1 / math.acos(sum(a * b for a, b in zip(h, other, strict=True)) / lengths))
    return sum(found) / len(found) if found else 0.0


@given(rows=st.integers(1, 12), d=st.integers(3, 6), classes=st.integers(1, 4), seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_it_is_the_naive_mean_over_pairs(rows, d, classes, seed):
    x, y = drawn(seed, rows, d), torch.arange(rows) % classes
    expected = naive(x.double().tolist(), y.tolist())
    assert potential_energy(x, y).item() == pytest.approx(expected, rel=1e-9)
    stacked = potential_energy(torch.stack([x, 7 * x]), torch.stack([y, y]))  # any leading axes, any lengths
    assert stacked.tolist() == pytest.approx([expected] * 2, rel=1e-6)


@pytest.mark.parametrize("angle", [0.1, 1.0, math.pi / 2, 3.0])
def test_two_rows_push_each_other_apart_by_one_over_the_square_of_their_angle(angle):
    x = torch.tensor([[1.0, 0.0], [math.cos(angle), math.sin(angle)]], dtype=torch.float64, requires_grad=True)
    energy = potential_energy(x, torch.zeros(2, dtype=torch.int64))
    energy.backward()
    assert energy.item() == pytest.approx(1 / angle)
    # Along the circle and away from the other row: towards larger angles the second one, the first to smaller ones.
    force = -x.grad
    assert (force[1] @ torch.tensor([-math.sin(angle), math.cos(angle)], dtype=torch.float64)).item() == pytest.approx(
        1 / angle**2
    )
    assert force[0].tolist() == pytest.approx([0, -1 / angle**2], abs=1e-9)
    assert (force[1] @ x[1].detach()).item() == pytest.approx(0, abs=1e-9)  # a row's length does not matter


def test_a_regular_simplex_is_where_nothing_moves():
    corners = torch.eye(4, dtype=torch.float64) - 0.25
    x = corners.clone().requires_grad_()
    energy = potential_energy(x, torch.ones(4, dtype=torch.int64))
    energy.backward()
    assert energy.item() == pytest.approx(1 / math.acos(-1 / 3))
    assert x.grad.abs().max().item() == pytest.approx(0, abs=1e-9)


def test_rows_of_other_classes_equal_rows_and_rows_without_a_direction_draw_on_nothing():
    y = torch.tensor([0, 0, 1, 2, 2])
    x = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.1], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    x.requires_grad_()
    energy = potential_energy(x, y)
    energy.backward()
    assert energy.item() == pytest.approx(1 / NEAREST, rel=1e-6)  # the pair of equal rows, and no other
    assert torch.equal(x.grad, torch.zeros_like(x))


def test_the_bottom_model_sends_rows_of_mean_0_and_length_sqrt_d():
    sent = OnSphere(torch.nn.Identity())(drawn(0, 2, 50, 8) * 3 + 1)
    torch.testing.assert_close(sent.mean(-1), torch.zeros(2, 50), atol=1e-6, rtol=0)
    torch.testing.assert_close(sent.norm(dim=-1), torch.full((2, 50), math.sqrt(8)), atol=1e-3, rtol=0)


def test_the_loss_is_the_task_s_plus_every_party_s_energy():
    made = PotentialEnergy(PotentialEnergyParams(weight=0.5), num_classes=2, embedding_dims=[4, 3])
    logits, y, mine, theirs = drawn(0, 6, 2), torch.arange(6) % 2, drawn(1, 6, 4), drawn(2, 6, 3)
    energy = naive(mine.tolist(), y.tolist()) + naive(theirs.tolist(), y.tolist())
    torch.testing.assert_close(made.loss(logits, y, [mine, theirs]), task_loss(logits, y).double() + 0.5 * energy)


def trained(members, pack, seeds, epochs=30):
    splits = [made_up_split(s, rows=128) for s in seeds]
    split = splits[0] if pack.trials is None else Split.stack(splits)
    defense = PotentialEnergy(members, num_classes=2, embedding_dims=[5])
    network = network_for(splits[0], pack)
    wrap(network, defense)
    SplitTraining(
        network, Rows(split, pack), Training(epochs=epochs, batch_size=32, lr=1e-2), [defense], pack.lead
    ).run()
    return network, split


def test_a_pack_trains_what_its_members_train_alone():
    members = [PotentialEnergyParams(weight=w) for w in (0.25, 4.0) for _ in range(2)]
    together, _ = trained(members, Pack((0, 1), 2), [0, 1], epochs=4)
    for member, params in enumerate(members):
        alone, _ = trained(params, Pack((member % 2,), None), [member % 2], epochs=4)
        for a, b in zip(together.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(a[member], b, rtol=0, atol=1e-4)


def after_training(weight):
    """Return the training accuracy, and the mean energies of pairs of one class and of pairs of any class."""
    network, split = trained(PotentialEnergyParams(weight=weight), Pack((0,), None), [0])
    with torch.no_grad():
        right = (network(split.passive_train, split.active_train).argmax(-1) == split.y_train).double().mean()
        sent = network.bottoms[0](split.passive_train[0])
    of_any = potential_energy(sent, torch.zeros_like(split.y_train))
    return right.item(), potential_energy(sent, split.y_train).item(), of_any.item()


def test_what_repels_spreads_until_a_class_is_no_nearer_to_itself_than_to_others():
    right, free, free_of_any = after_training(0.0)
    still_right, spread, of_any = after_training(1.0)
    assert free > 1.1 * free_of_any  # learned, rows of one class are near each other
    assert spread < 1.06 * of_any
    assert spread < free / 2
    assert min(right, still_right) > 0.9


@pytest.mark.parametrize("width", [1, 2, 3])
def test_embeddings_without_room_on_a_sphere_are_refused(width):
    raw = {"study": "s", "dataset": "breast_cancer", "defense": "potential_energy", "attacks": ["norm"]}
    spec = parse({**raw, "model": {"name": "mlp", "embedding_dim": width}})
    if width < 3:
        with pytest.raises(SpecError, match=f"embedding_dim 3 or more, got {width}"):
            resolve(spec)
    else:
        assert resolve(spec).defense == "potential_energy"
