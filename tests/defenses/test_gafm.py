"""GAFM: its two directions in closed form, the critic and the whole step against naive twins, and its orientation."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.helpers.problems import made_up_split
from tune_vfl.config import Measured, export_config
from tune_vfl.data.base import Split
from tune_vfl.defenses.gafm import Gafm, GafmParams, normalized, response_gradient, responses
from tune_vfl.defenses.gafm_marvell import GafmMarvell, GafmMarvellParams
from tune_vfl.defenses.marvell import Marvell, MarvellParams
from tune_vfl.defenses.parts.critic import Critic, LastPass, positives_rank_low
from tune_vfl.errors import SpecError, UsageError
from tune_vfl.evaluation import evaluate_pack
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.evaluation.training import wrap
from tune_vfl.metrics.leakage import leak_auc
from tune_vfl.models.base import build
from tune_vfl.models.gafm import GafmNet, GafmOptions
from tune_vfl.models.mlp import Mlp, MlpOptions
from tune_vfl.protocol.hooks import Context, Hooks
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.members import Pack, Rows
from tune_vfl.seeds import Stream, Streams
from tune_vfl.spec import Training, parse
from tune_vfl.spec.cell import Cell

LABEL_ONLY = {"name": "breast_cancer", "split": 1.0}


def uniform(*shape, seed=0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def made(params=None, *, seed=0, rows=40, dims=(1,), cls=Gafm):
    defense = cls(params or cls.Params(), num_classes=2, embedding_dims=list(dims), mode="label_only")
    lead = (len(params),) if isinstance(params, list) else ()
    y = (torch.arange(rows) % 2).expand(*lead, rows)
    defense.setup(y, torch.arange(rows).expand(y.shape), seed=seed)
    return defense


@pytest.mark.parametrize("delta", [0.0, 0.05, 0.5])
def test_responses_lie_on_the_label_s_side_of_one_half(delta):
    u, y = uniform(500, 1), torch.arange(500) % 2
    found = responses(u, y, delta).squeeze(-1)
    assert (found[y == 1] >= 0.5).all()
    assert (found[y == 1] <= 0.5 + delta).all()
    assert (found[y == 0] <= 0.5).all()
    assert (found[y == 0] >= 0.5 - delta).all()
    torch.testing.assert_close((found - 0.5).abs(), delta * u.squeeze(-1), rtol=0, atol=1e-7)


@pytest.mark.parametrize("probability", [True, False])
def test_the_response_s_direction_is_autograd_s_of_the_cross_entropy(probability):
    d = 1 if probability else 3
    b = (uniform(9, d) * 0.9 + 0.05).double().requires_grad_()
    told = uniform(9, 1, seed=1).double()
    s = b if probability else torch.sigmoid(b.sum(-1, keepdim=True))
    (-(told * s.log() + (1 - told) * (1 - s).log())).sum().backward()
    torch.testing.assert_close(response_gradient(b.detach(), told, probability=probability), b.grad)


@pytest.mark.parametrize("ends", [0.0, 1.0])
def test_a_saturated_embedding_has_a_finite_direction(ends):
    found = response_gradient(torch.full((4, 1), ends), torch.full((4, 1), 0.5), probability=True)
    assert torch.isfinite(found).all()


def sent(params, grad, b, y):
    defense = made(params)
    defense.loss(torch.zeros(len(y), 1), y, [b])
    return defense.cut_gradient(grad, y=y)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 20.0])
def test_both_parts_have_the_length_that_was_asked_for(gamma):
    y, b, grad = torch.arange(40) % 2, uniform(40, 2), uniform(40, 2, seed=1) * 1e-4
    told = sent(GafmParams(gamma=0.0), grad, b, y)
    from_critic = sent(GafmParams(gamma=gamma), grad, b, y) - told
    assert torch.linalg.matrix_norm(told).item() == pytest.approx(1, rel=1e-5)
    assert torch.linalg.matrix_norm(from_critic).item() == pytest.approx(gamma, rel=1e-5)
    torch.testing.assert_close(from_critic, gamma * grad / torch.linalg.matrix_norm(grad), rtol=1e-4, atol=1e-5)


def test_without_gamma_the_critic_is_not_heard():
    y, b = torch.arange(40) % 2, uniform(40, 1)
    one, other = (sent(GafmParams(gamma=0.0), uniform(40, 1, seed=s), b, y) for s in (1, 2))
    assert torch.equal(one, other)


def test_without_responses_the_critic_alone_is_heard_and_no_label_reaches_what_is_sent():
    y, b, grad = torch.arange(40) % 2, uniform(40, 1), uniform(40, 1, seed=1)
    alone = GafmParams(responses=False, gamma=3.0)
    torch.testing.assert_close(sent(alone, grad, b, y), 3.0 * normalized(grad))
    assert torch.equal(sent(alone, grad, b, y), made(alone).cut_gradient(grad, y=1 - y))
    assert not torch.allclose(sent(GafmParams(gamma=3.0), grad, b, y), 3.0 * normalized(grad))
    assert GafmMarvellParams(responses=False).responses is False
    assert Gafm.structure(alone) != Gafm.structure(GafmParams(gamma=3.0))
    with pytest.raises(ValueError, match="nothing is sent"):
        GafmParams(responses=False, gamma=0.0)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e-15])
def test_what_has_no_direction_is_left_out(bad):
    grad = torch.full((2, 6, 3), 0.5)
    grad[0] = bad
    found = normalized(grad)
    assert torch.equal(found[0], torch.zeros(6, 3))
    assert torch.linalg.matrix_norm(found[1]).item() == pytest.approx(1)


def test_without_delta_nothing_that_is_sent_depends_on_the_labels():
    grad, b, y = uniform(40, 1, seed=1), uniform(40, 1), torch.arange(40) % 2
    assert torch.equal(*(sent(GafmParams(delta=0.0), grad, b, labels) for labels in (y, 1 - y)))
    assert not torch.equal(*(sent(GafmParams(delta=0.1), grad, b, labels) for labels in (y, 1 - y)))


def naive_critic(critic):
    twin = nn.Sequential(nn.Linear(1, 5), nn.LeakyReLU(), nn.Linear(5, 1), nn.LeakyReLU())
    with torch.no_grad():
        for mine, theirs in zip(twin.parameters(), critic.parameters(), strict=True):
            mine.copy_(theirs)
    return twin


def test_the_critic_is_a_plain_one_with_its_weights_clipped():
    critic = Critic(5, lr=1e-2, stream=Stream(0, "critic"), device=torch.device("cpu"))
    twin = naive_critic(critic)
    optimizer = torch.optim.Adam(twin.parameters(), lr=1e-2)
    for step in range(20):
        real, seen = uniform(30, seed=step).round(), uniform(30, seed=100 + step)
        critic.step(real, seen, lambda dims: 0.1)
        optimizer.zero_grad()
        (-twin(real.unsqueeze(-1)).mean() + twin(seen.unsqueeze(-1)).mean()).backward()
        optimizer.step()
        for weight in twin.parameters():
            weight.data.clamp_(-0.1, 0.1)
        for mine, theirs in zip(twin.parameters(), critic.parameters(), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-6)
            assert theirs.abs().max() <= 0.1
    seen = uniform(30).requires_grad_()
    critic(seen.unsqueeze(-1)).sum().backward()
    assert seen.grad is not None
    assert all(not weight.requires_grad for weight in critic.parameters())


@pytest.mark.parametrize("sigma", [0.0, 0.01, 2.0])
def test_the_critic_is_shown_labels_with_noise_of_the_asked_deviation(sigma):
    y, logits = torch.arange(40) % 2, uniform(40, 1) * 4 - 2
    defense, noise = made(GafmParams(sigma=sigma, lr=1e-2), seed=5), Stream(5, "critic/noise")
    twin = Critic(16, lr=1e-2, stream=Stream(5, "critic/init"), device=torch.device("cpu"))
    for _ in range(3):
        defense.loss(logits, y, [uniform(40, 1)])
        twin.step(y + sigma * noise.normal(40), torch.sigmoid(logits.squeeze(-1)), lambda dims: 0.1)
    for mine, theirs in zip(defense._critic.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-6)


def test_a_loss_that_nobody_learns_from_leaves_the_critic_alone():
    defense, y = made(), torch.arange(40) % 2
    before = copy.deepcopy(defense._critic.state_dict())
    with torch.no_grad():
        value = defense.loss(torch.zeros(40, 1), y, [uniform(40, 1)])
    assert torch.isfinite(value)
    assert all(torch.equal(before[name], weight) for name, weight in defense._critic.state_dict().items())
    assert defense.logged() == {}
    defense.loss(torch.zeros(40, 1), y, [uniform(40, 1)])
    assert any(not torch.equal(before[name], weight) for name, weight in defense._critic.state_dict().items())


@given(
    scores=st.lists(st.integers(0, 5), min_size=2, max_size=30),
    labels=st.lists(st.integers(0, 1), min_size=30, max_size=30),
)
@settings(max_examples=60, deadline=None)
def test_which_end_is_positive_is_the_auc_s_answer(scores, labels):
    y = torch.tensor(labels[: len(scores)])
    values = torch.tensor(scores, dtype=torch.float32)
    auc = leak_auc(values.double().numpy(), y.numpy(), flip=False)
    assert bool(positives_rank_low(values, y)) == (auc < 0.5 - 1e-9)  # NaN, of one class alone, is not below
    pair = positives_rank_low(torch.stack([values, -values]), torch.stack([y, y]))
    assert pair.tolist() == [auc < 0.5 - 1e-9, auc > 0.5 + 1e-9]


def test_only_the_last_pass_counts():
    kept = LastPass(10)
    assert kept.inverted is None
    y = torch.arange(5) % 2
    for _ in range(4):
        kept.add(-y.float(), y)
    assert bool(kept.inverted)
    kept.add(y.float(), y)
    assert not bool(kept.inverted)  # one batch each way: a tie
    kept.add(y.float(), y)
    assert not bool(kept.inverted)
    assert kept._held == 10


def test_a_pass_is_as_long_for_each_member_of_a_pack_as_alone():
    y, sizes = torch.arange(5) % 2, (5, 3, 2, 4, 4, 1, 5)
    together, alone = LastPass(10), [LastPass(10), LastPass(10)]
    for step, size in enumerate(sizes):
        scores = torch.stack([uniform(size, seed=step), uniform(size, seed=step + 50)]) + (step % 3 - 1) * y[:size]
        together.add(scores, y[:size].expand(2, size))
        for member, kept in enumerate(alone):
            kept.add(scores[member], y[:size])
        assert together.inverted.tolist() == [bool(kept.inverted) for kept in alone]
        held = list(sizes[: step + 1])
        while sum(held) - held[0] >= 10:  # a step leaves once those after it are a whole pass
            held.pop(0)
        assert together._held == alone[0]._held == sum(held)
        assert sum(part.shape[-1] for part, _ in together._steps) == sum(held)


def test_predictions_are_turned_round_for_those_members_that_need_it():
    defense = made([GafmParams(), GafmParams(delta=0.1)], seed=[0, 0])
    y = (torch.arange(40) % 2).expand(2, 40)
    logits = torch.stack([y[0].float(), -y[1].float()]).unsqueeze(-1)
    plain = made().decode(logits)
    defense.loss(logits, y, [uniform(2, 40, 1)])
    assert defense.logged() == {"inverted": [0.0, 1.0]}
    torch.testing.assert_close(defense.decode(logits)[0], plain[0])
    torch.testing.assert_close(defense.decode(logits)[1], plain[1].flip(-1))


def test_where_the_probability_is_taken_from():
    sigmoid = GafmNet(GafmOptions()).bottom((3,), 1, Stream(0, "b"))
    linear = Mlp(MlpOptions()).bottom((3,), 1, Stream(0, "b"))
    y, b, grad = torch.arange(40) % 2, uniform(40, 1), torch.zeros(40, 1)
    for bottom, probability in ((sigmoid, True), (linear, False)):
        defense = made()
        assert defense.wrap_bottom(bottom) is bottom
        defense.loss(torch.zeros(40, 1), y, [b])
        u = Stream(0, "cut/0").uniform(40, 1)
        told = response_gradient(b, responses(u, y, 0.05), probability=probability)
        torch.testing.assert_close(defense.cut_gradient(grad, y=y), normalized(told))


def known_of(embeddings, joined=None, step=0):
    rows = embeddings[0].shape[-2]
    y = torch.arange(rows) % 2
    return Context(embeddings, torch.zeros(rows, 1), y, y, 0, step, lambda label: embeddings[0], joined=joined)


@pytest.mark.parametrize(("kind", "probability"), [(GafmNet, True), (Mlp, False)])
@pytest.mark.parametrize("total", ["sum", "mean"])
def test_parties_that_are_added_up_share_the_directions_of_the_joined_embedding(kind, probability, total):
    """Algorithm 1 and equation 17: both losses at f(x), one response a row, a third of it to each of three."""
    y, parts, grad = torch.arange(40) % 2, [uniform(40, 1, seed=s) for s in range(3)], uniform(40, 1, seed=9)
    joined = sum(parts) if total == "sum" else sum(parts) / 3
    defense = made(GafmParams(gamma=2.0, delta=0.3), dims=(1, 1, 1))
    for _ in parts:
        defense.wrap_bottom(kind(kind.Options()).bottom((3,), 1, Stream(0, "b")))
    draws = Stream(0, "cut/0")
    for step in range(2):
        told = [defense.cut_gradient(grad, y=y, context=known_of(parts, joined, step), party=p) for p in range(3)]
        response = responses(draws.uniform(40, 1), y, 0.3)
        f = (sum(parts) / 3 if probability else joined).double().requires_grad_()
        s = f if probability else torch.sigmoid(f)
        (-(response * s.log() + (1 - response) * (1 - s).log())).sum().backward()
        whole = 2 * grad / grad.norm() + f.grad / f.grad.norm()
        for part in told:
            torch.testing.assert_close(part.double(), whole / 3, rtol=1e-4, atol=1e-6)


def test_parties_side_by_side_get_the_direction_of_their_own_embedding():
    y, parts, grad = torch.arange(40) % 2, [uniform(40, 1, seed=s) for s in range(2)], uniform(40, 1, seed=9)
    defense = made(dims=(1, 1))
    for party, own in enumerate(parts):
        response = responses(Stream(0, f"cut/{party}").uniform(40, 1), y, 0.05)
        expected = normalized(grad) + normalized(response_gradient(own, response, probability=False))
        assert torch.equal(defense.cut_gradient(grad, y=y, context=known_of(parts), party=party), expected)


def test_one_party_is_told_the_same_however_it_would_be_joined():
    y, b, grad = torch.arange(40) % 2, uniform(40, 2), uniform(40, 2, seed=1)
    expected = normalized(grad) + normalized(
        response_gradient(b, responses(Stream(0, "cut/0").uniform(40, 1), y, 0.05), probability=False)
    )
    assert torch.equal(made(dims=(2,)).cut_gradient(grad, y=y, context=known_of([b])), expected)
    for aggregation in ("concat", "sum", "mean"):
        networks = [trained(GafmParams(), Pack((3,), None), [3], aggregation=a)[0] for a in ("mean", aggregation)]
        for mine, other in zip(*(n.parameters() for n in networks), strict=True):
            assert torch.equal(mine, other)


class Sent(Hooks):
    """Keeps what each party receives."""

    def __init__(self):
        self.of: dict[int, list[torch.Tensor]] = {}

    def gradient_received(self, grad, *, party, ids, epoch, step):
        self.of.setdefault(party, []).append(grad.clone())


@pytest.mark.parametrize(("aggregation", "alike"), [("mean", True), ("sum", True), ("concat", False)])
def test_in_training_parties_that_are_added_up_receive_the_same(aggregation, alike):
    sent = Sent()
    trained(GafmParams(), Pack((3,), None), [3], parties=3, aggregation=aggregation, also=[sent])
    for first, second, third in zip(*(sent.of[p] for p in range(3)), strict=True):
        assert (torch.equal(first, second) and torch.equal(first, third)) is alike


def test_it_says_what_it_misses():
    unready = Gafm(GafmParams(), num_classes=2, embedding_dims=[1], mode="label_only")
    with pytest.raises(UsageError, match="setup"):
        unready.loss(torch.zeros(4, 1), torch.arange(4) % 2, [])
    with pytest.raises(UsageError, match="loss"):
        made().cut_gradient(torch.zeros(40, 1), y=torch.arange(40) % 2)
    assert "embeddings" in made().notes()[0]
    several = made(dims=(1, 1))
    several.loss(torch.zeros(40, 1), torch.arange(40) % 2, [uniform(40, 1), uniform(40, 1)])
    with pytest.raises(UsageError, match="how the embeddings of several parties are joined"):
        several.cut_gradient(uniform(40, 1), y=torch.arange(40) % 2)


TRAINING = Training(epochs=6, batch_size=32, lr=1e-2)


def network_of(split, pack, aggregation="mean"):
    return build(
        GafmNet(GafmOptions(head="scalar", aggregation=aggregation)),
        passive_shapes=[(p.shape[-1],) for p in split.passive_train],
        own_shape=None,
        num_classes=2,
        streams=Streams(pack.member_seeds),
    )


def trained(members, pack, seeds, parties=1, cls=Gafm, aggregation="mean", also=()):
    splits = [made_up_split(s, own=False, parties=parties) for s in seeds]
    split = splits[0] if pack.trials is None else Split.stack(splits)
    defense = cls(members, num_classes=2, embedding_dims=[1] * parties, mode="label_only")
    y = pack.spread(split.y_train)
    defense.setup(y, torch.arange(y.shape[-1]).expand(y.shape), seed=pack.member_seeds)
    network = network_of(splits[0], pack, aggregation)
    wrap(network, defense)
    SplitTraining(network, Rows(split, pack), TRAINING, [defense, *also], pack.lead).run()
    return network, defense, split


def exported(defense, params, **spec):
    raw = {"study": "s", "dataset": LABEL_ONLY, "defense": defense, "attacks": ["norm"], **spec}
    cell: Cell = resolve(parse(raw))
    empty = Measured(metric="auc", utility=0.9, utility_std=0.0, leakage=0.1, leakage_std=0.0, attacks={})
    return export_config(cell, study="s", trial=0, select="knee", params=params, measured=empty)


@pytest.mark.parametrize("name", ["gafm", "gafm_marvell"])
def test_a_loop_of_one_s_own_trains_the_same_network(name):
    cls = {"gafm": Gafm, "gafm_marvell": GafmMarvell}[name]
    pack = Pack((3,), None)
    network, theirs, split = trained(cls.Params(gamma=2.0), pack, [3], parties=2, cls=cls)
    twin = network_of(split, pack)
    defense = exported(name, {"gamma": 2.0}).build_defense(num_classes=2, embedding_dims=[1, 1])
    defense.setup(split.y_train, torch.arange(len(split.y_train)), seed=3)
    bottoms, top = [defense.wrap_bottom(b) for b in twin.bottoms], defense.wrap_top(twin.top)
    optimizer, rows = torch.optim.Adam(twin.parameters(), lr=1e-2, fused=True), Rows(split, pack)
    for batch in (batch for _ in range(TRAINING.epochs) for batch in rows.batches(TRAINING.batch_size)):
        embedded = [bottom(x) for bottom, x in zip(bottoms, batch.passive, strict=True)]
        arrived = [e.detach().requires_grad_() for e in embedded]
        logits = top((arrived[0] + arrived[1]) / 2)
        defense.loss(logits, defense.labels(batch.y, batch.ids), arrived).backward()
        known = known_of([e.detach() for e in arrived], (arrived[0] + arrived[1]).detach() / 2)
        told = [defense.cut_gradient(e.grad, y=batch.y, context=known, party=k) for k, e in enumerate(arrived)]
        torch.autograd.backward(embedded, told)
        optimizer.step()
        optimizer.zero_grad()
    for mine, their in zip(twin.parameters(), network.parameters(), strict=True):
        torch.testing.assert_close(mine, their, rtol=0, atol=1e-6)
    assert defense.logged()["inverted"] == theirs.logged()["inverted"]


@pytest.mark.parametrize("parties", [1, 2])
def test_a_pack_trains_what_its_members_train_alone(parties):
    settings_of = [GafmParams(), GafmParams(delta=0.3, gamma=5.0, sigma=0.5, clip=0.02)]
    together, defense, _ = trained([p for p in settings_of for _ in range(2)], Pack((0, 1), 2), [0, 1], parties)
    for member, params in enumerate(p for p in settings_of for _ in range(2)):
        alone, single, _ = trained(params, Pack((member % 2,), None), [member % 2], parties)
        for a, b in zip(together.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(a[member], b, rtol=0, atol=1e-4)
        assert defense.logged()["inverted"][member] == single.logged()["inverted"][0]


def test_members_of_a_pack_share_the_critic_s_shape():
    assert Gafm.structure(GafmParams()) == Gafm.structure(GafmParams(delta=0.3, gamma=2.0, sigma=0.5, clip=0.2))
    assert Gafm.structure(GafmParams()) != Gafm.structure(GafmParams(hidden=8))
    assert GafmMarvell.structure(GafmMarvellParams()) != GafmMarvell.structure(GafmMarvellParams(lr=1e-3))


def test_gafm_marvell_is_gafm_and_then_marvell():
    y, b, grad = torch.arange(40) % 2, uniform(40, 1), uniform(40, 1, seed=1)
    whole, parts = made(GafmMarvellParams(budget=2.0), cls=GafmMarvell), []
    for part in (
        Gafm(GafmParams(), num_classes=2, embedding_dims=[1], mode="label_only"),
        Marvell(MarvellParams(budget=2.0), num_classes=2, embedding_dims=[1], mode="label_only"),
    ):
        part.stream_prefix = f"{part.name}/"
        part.setup(y, torch.arange(40), seed=0)
        parts.append(part)
    for defense in (whole, parts[0]):
        defense.loss(torch.zeros(40, 1), y, [b])
    mixed = parts[0].cut_gradient(grad, y=y)
    assert torch.equal(whole.cut_gradient(grad, y=y), parts[1].cut_gradient(mixed, y=y))
    assert {*whole.logged()} == {"inverted", "sum_kl"}
    assert whole.notes() == parts[0].notes()


def raw(**changes):
    base = {"study": "s", "dataset": LABEL_ONLY, "defense": "gafm", "attacks": ["norm"]}
    return parse({**base, **changes})


def test_the_generator_has_one_output_and_the_label_party_labels_alone():
    assert resolve(raw()).model.options["head"] == "scalar"
    with pytest.raises(SpecError, match=r"'gafm'.*label_only"):
        resolve(raw(dataset="breast_cancer"))
    with pytest.raises(SpecError, match="two classes"):
        resolve(raw(dataset={"name": "wine", "split": 1.0}))


@pytest.mark.parametrize("defense", ["gafm", "gafm_marvell"])
def test_it_is_evaluated_on_real_data(defense):
    training = {"epochs": 60, "lr": 1e-3}  # one learning rate for all: the critic has to keep up
    spec = raw(defense=defense, model="gafm", attacks=["norm", "spectral"], training=training, budget={"seeds": 3})
    [found] = evaluate_pack(resolve(spec), [{"lr": 1e-3}])
    assert found.outcome == "ok"
    assert found.utility.mean > 0.9  # turned the right way round, for every seed
    assert 0 <= found.logged["inverted"] <= 1
    assert found.attacks["spectral"].mean > 0.9  # what it does not protect
    assert any("gradients only" in note for note in found.notes)
