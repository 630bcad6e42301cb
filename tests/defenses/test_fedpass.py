"""Passports: their law, the layers around them by hand, the ways a weight learns, packs, and what the others know."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.helpers.problems import made_up_split, network_for
from tune_vfl.data.base import Split
from tune_vfl.defenses.fedpass import Fedpass, FedpassParams
from tune_vfl.defenses.parts.passports import PassportConv, PassportLayer, PassportLinear
from tune_vfl.errors import SpecError
from tune_vfl.evaluation import evaluate_pack
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.evaluation.training import wrap
from tune_vfl.models.layers import Linear, select_member, stack_of
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.members import Pack, Rows
from tune_vfl.seeds import Stream
from tune_vfl.spec import Training, parse


def made(members=None, *, seed=0, **params):
    members = members or FedpassParams(**params)
    defense = Fedpass(members, num_classes=2, embedding_dims=[5])
    lead = () if isinstance(members, FedpassParams) else (len(members),)
    y = torch.zeros(*lead, 4, dtype=torch.int64)
    defense.setup(y, torch.arange(4).expand(y.shape), seed=seed)
    return defense


def rows(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_entries_lie_normally_around_a_mean_of_each_channel():
    means = made(mean_range=50.0, variance=0.0).wrap_top(nn.Linear(4000, 3)).passports
    entries = made(mean_range=50.0, variance=9.0).wrap_top(nn.Linear(4000, 3)).passports
    assert ((means > -50) & (means <= 0)).all()
    assert len(means.unique()) > 7990  # a mean of its own for every channel, for scale and for shift
    assert means.mean().item() == pytest.approx(-25, abs=1)
    assert means.std().item() == pytest.approx(50 / math.sqrt(12), abs=0.5)
    assert (entries - means).var().item() == pytest.approx(9, rel=0.1)
    assert (entries - means).mean().item() == pytest.approx(0, abs=0.15)


def test_places_of_a_channel_share_its_mean():
    bottom = made(mean_range=50.0, variance=4.0, where="bottom").wrap_bottom(nn.Conv2d(30, 3, 3))
    assert bottom.passports is None
    bottom(rows(2, 30, 20, 20))
    by_channel = bottom.passports.flatten(2)
    assert by_channel.shape == (2, 30, 400)
    assert by_channel.var(-1).mean().item() == pytest.approx(4, rel=0.05)
    assert by_channel.mean(-1).std().item() == pytest.approx(50 / math.sqrt(12), rel=0.25)


def by_hand(layer, averaged):
    """Scale and shift, from the answers ``(2, width)`` to the two passports."""
    codes = []
    for answer in averaged:
        hidden = layer.encode @ answer
        codes.append(layer.decode @ torch.where(hidden > 0, hidden, 0.01 * hidden))
    return codes


@pytest.mark.parametrize("make", [lambda: nn.Linear(6, 9), lambda: Linear(6, 2, stream=Stream(0, "w"))])
def test_a_linear_layer_is_scaled_and_shifted(make):
    inner = make()
    layer = made(mean_range=3.0).wrap_top(nn.Sequential(inner))[0]
    assert isinstance(layer, PassportLinear)
    width = len(inner.bias)
    assert layer.encode.shape == (max(1, width // 4), width)
    scale, shift = by_hand(layer, [inner.weight @ s + inner.bias for s in layer.passports])
    x = rows(5, 6)
    expected = torch.stack([scale.tanh() * (inner.weight @ row + inner.bias) + shift.tanh() for row in x])
    torch.testing.assert_close(layer(x), expected)


def test_a_convolution_is_normalized_scaled_shifted_and_cut():
    inner = nn.Conv2d(2, 8, 3, padding=1)
    bottom = made(mean_range=3.0, where="bottom").wrap_bottom(nn.Sequential(inner, nn.ReLU(), nn.Flatten()))
    layer, x = bottom[0], rows(7, 2, 5, 4)
    assert isinstance(layer, PassportConv)
    out = layer(x)
    scale, shift = by_hand(layer, inner(layer.passports).mean((-2, -1)))
    y = inner(x)
    mean, variance = y.mean((0, 2, 3)), y.var((0, 2, 3), unbiased=False)
    for c in range(8):
        normal = (y[:, c] - mean[c]) / (variance[c] + 1e-5).sqrt()
        torch.testing.assert_close(out[:, c], (scale[c] * normal + shift[c]).clamp_min(0), rtol=1e-4, atol=1e-5)
    assert torch.equal(bottom(x), out.flatten(1))  # the ReLU behind it changes nothing


def test_weights_learn_through_the_rows_and_through_both_passports():
    layer = made(mean_range=2.0).wrap_top(nn.Linear(6, 8))
    weight, bias, x, towards = layer.layer.weight, layer.layer.bias, rows(5, 6), rows(5, 8, seed=1)

    def output(through_x, through_scale, through_shift):
        answers = torch.stack([w @ s + bias for w, s in zip((through_scale, through_shift), layer.passports)])  # noqa: B905
        scale, shift = layer.scale_and_shift(answers)
        return scale.tanh() * functional.linear(x, through_x, bias) + shift.tanh()

    (whole,) = torch.autograd.grad((layer(x) * towards).sum(), weight)
    parts = []
    for path in range(3):
        ways = [weight if path == k else weight.detach() for k in range(3)]
        (part,) = torch.autograd.grad((output(*ways) * towards).sum(), weight)
        assert part.abs().max() > 1e-4
        parts.append(part)
    torch.testing.assert_close(whole, sum(parts))


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 6, 3),
        nn.BatchNorm2d(6),
        nn.Flatten(),
        nn.Linear(24, 5),
    )


def test_the_last_convolution_and_the_first_linear_layer_get_passports():
    defense = made(where="both")
    bottom, top = lenet(), nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))
    last, first = bottom[3], top[0]
    assert defense.wrap_bottom(bottom) is bottom
    assert defense.wrap_top(top) is top
    assert isinstance(bottom[3], PassportConv)
    assert bottom[3].layer is last
    assert isinstance(top[0], PassportLinear)
    assert top[0].layer is first
    assert sum(isinstance(m, PassportLayer) for m in [*bottom.modules(), *top.modules()]) == 2
    # The norm behind it would undo scale and shift: it has moved in between.
    assert isinstance(bottom[4], nn.Identity)
    assert isinstance(bottom[3].norm, nn.BatchNorm2d)
    assert not bottom[3].norm.affine
    assert isinstance(bottom[1], nn.BatchNorm2d)
    assert top(bottom(rows(3, 1, 6, 6))).shape == (3, 3)
    without = nn.Sequential(*stack_of([4, 6, 5], nn.ReLU, stream=Stream(0, "w")))
    assert isinstance(defense.wrap_bottom(without)[2], PassportLinear)
    with pytest.raises(SpecError, match="top model"):
        defense.wrap_top(nn.Sequential(nn.ReLU()))


@pytest.mark.parametrize("where", ["top", "bottom"])
def test_the_other_side_stays_as_it_is(where):
    defense = made(where=where)
    net = lenet() if where == "top" else nn.Linear(5, 2)
    before = [type(m) for m in net.modules()]
    assert (defense.wrap_bottom(net) if where == "top" else defense.wrap_top(net)) is net
    assert [type(m) for m in net.modules()] == before


def test_parties_have_their_own_passports_and_a_seed_decides_them():
    def passports(seed):
        defense = made(where="bottom", seed=seed)
        return [defense.wrap_bottom(nn.Linear(6, 4)).passports for _ in range(2)]

    (first, second), again, others = passports(0), passports(0), passports(1)
    assert torch.equal(first, again[0])
    assert torch.equal(second, again[1])
    assert not torch.equal(first, second)
    assert not torch.equal(first, others[0])
    assert not torch.equal(first[0], first[1])


def trained(members, pack, seeds):
    splits = [made_up_split(s, parties=2) for s in seeds]
    split = splits[0] if pack.trials is None else Split.stack(splits)
    defense = Fedpass(members, num_classes=2, embedding_dims=[5, 5])
    y = pack.spread(split.y_train)
    defense.setup(y, torch.arange(y.shape[-1]).expand(y.shape), seed=pack.member_seeds)
    network = network_for(splits[0], pack)
    wrap(network, defense)
    before = [m.passports.clone() for m in network.modules() if isinstance(m, PassportLayer)]
    SplitTraining(network, Rows(split, pack), Training(epochs=10, batch_size=14, lr=0.01), [defense], pack.lead).run()
    after = [m.passports for m in network.modules() if isinstance(m, PassportLayer)]
    assert len(after) == 3
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    return network, defense


def test_a_pack_trains_what_its_members_train_alone():
    laws = [FedpassParams(mean_range=2.0, variance=0.0, where="both"), FedpassParams(variance=20.0, where="both")]
    together, defense = trained([law for law in laws for _ in range(2)], Pack((0, 1), 2), [0, 1])
    for member in range(4):
        alone, own = trained(laws[member // 2], Pack((member % 2,), None), [member % 2])
        picked = select_member(together, member)
        for a, b in zip(picked.state_dict().values(), alone.state_dict().values(), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-4)
        x = rows(3, 4)
        guessed = [d.disguised(n.bottoms[0], stream=Stream(9, "guess")) for d, n in ((defense, picked), (own, alone))]
        assert torch.equal(guessed[0][-1].passports, guessed[1][-1].passports)
        # Passports of a hundred multiply what is left of rounding in the weights.
        torch.testing.assert_close(guessed[0](x), guessed[1](x), rtol=1e-2, atol=2e-3)


def test_the_label_party_guesses_the_passports():
    defense = made(where="bottom", mean_range=7.0, variance=0.0)
    for bottom, x in ((nn.Linear(6, 4), rows(3, 6)), (nn.Conv2d(2, 4, 3), rows(3, 2, 5, 5))):
        known = defense.wrap_bottom(bottom).eval()
        fresh = defense.disguised(known, stream=Stream(1, "guess"))  # before any row has shown the size of an input
        known(x)
        own = known.passports.clone()
        for guess in (fresh, defense.disguised(known, stream=Stream(1, "guess"))):
            guess(x)
            assert guess.passports.shape == own.shape
            assert not torch.equal(guess.passports, own)
            assert ((guess.passports > -7) & (guess.passports <= 0)).all()
            assert all(torch.equal(a, b) for a, b in zip(guess.parameters(), known.parameters(), strict=True))
        assert torch.equal(known.passports, own)


def test_without_passports_there_is_nothing_to_guess():
    bottom = nn.Linear(6, 4)
    known = made(where="top").disguised(bottom, stream=Stream(1, "guess"))
    assert known is not bottom
    assert torch.equal(known.weight, bottom.weight)


def test_a_saved_model_brings_its_passports_along():
    x = rows(3, 1, 6, 6)
    bottom = made(where="bottom").wrap_bottom(lenet())
    bottom(x)
    other = made(where="bottom", seed=1).wrap_bottom(lenet())
    other.load_state_dict(bottom.state_dict())
    assert torch.equal(other.eval()(x), bottom.eval()(x))


def cell(**changes):
    raw = {"study": "s", "dataset": "digits", "defense": "fedpass", "attacks": ["grad_cluster"], **changes}
    return resolve(parse(raw))


def test_a_top_model_that_is_not_there_gets_none():
    with pytest.raises(SpecError, match=r"where=top.*model.top=none.*direct attack"):
        cell(model={"top": "none"}, attacks=["direct"])
    with pytest.raises(SpecError, match="attack 'direct' is defined for nosplit"):
        cell(attacks=["direct"])
    bottom_only = {"name": "fedpass", "params": {"where": "bottom"}}
    assert cell(model={"top": "none"}, attacks=["direct"], defense=bottom_only).mode == "nosplit"


@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_it_is_evaluated_on_real_data(model):
    spec = cell(
        model={"name": model}, attacks=["grad_cluster"], training={"epochs": 8}, budget={"seeds": 1, "trials": 1}
    )
    outcomes = evaluate_pack(spec, [{"where": "top"}, {"where": "both", "mean_range": 2.0}])
    assert [o.outcome for o in outcomes] == ["ok", "ok"]
    assert all(o.utility.mean > 0.7 for o in outcomes)


def test_an_attacker_with_passports_completes_its_model():
    spec = cell(attacks=[{"name": "pmc", "steps": 50}], training={"epochs": 8}, budget={"seeds": 1, "trials": 1})
    plain, passported = evaluate_pack(spec, [{"where": "top"}, {"where": "both"}])
    assert set(passported.attacks["pmc"].variants) == set(plain.attacks["pmc"].variants)
    assert passported.attacks["pmc"].mean > 0.6
