"""The confusional autoencoder: what its code promises, its loss by a naive twin, memory, blocks, and a training."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.problems import made_up_split, network_for
from tune_vfl.defenses.cae import BlockCode, Cae, CaeParams, blocks
from tune_vfl.defenses.parts import codec as _codec
from tune_vfl.defenses.parts.codec import Codec, CodecRecipe, Net, codec_loss, confuses, find_codec, made_up_labels
from tune_vfl.errors import SpecError
from tune_vfl.evaluation import evaluate_pack
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.members import Pack, Rows
from tune_vfl.seeds import Stream
from tune_vfl.spec import Training, parse
from tune_vfl.testing.gradients import softmax_gradient

QUICK = CodecRecipe(confusion=1.0, entropy="sum", samples=12_000, epochs=6)


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("confusion", [0.0, 2.0])
def test_every_code_names_another_class_and_is_decoded(classes, confusion):
    codec = find_codec(classes, QUICK._replace(confusion=confusion), 0)
    own = torch.arange(classes)
    torch.testing.assert_close(codec.codes.sum(-1), torch.ones(classes))
    assert (codec.codes.argmax(-1) != own).all()
    assert torch.equal(codec.decode(codec.codes).argmax(-1), own)


def test_confusion_blurs_the_code():
    def entropy(recipe):
        return float(torch.special.entr(find_codec(5, recipe, 0).codes).sum(-1).mean())

    sharp, mean, blurred = (entropy(r) for r in (QUICK._replace(confusion=0.0), QUICK._replace(entropy="mean"), QUICK))
    assert sharp < mean < blurred <= math.log(4) + 1e-3  # its own class is left out of each code
    assert blurred > 0.8 * math.log(4)


def naive_net(net, row):
    hidden = [
        max(0.0, b[0] + sum(w * v for w, v in zip(ws, row, strict=True)))
        for ws, b in zip(net.first.tolist(), net.first_bias.tolist(), strict=True)
    ]
    logits = [
        b[0] + sum(w * v for w, v in zip(ws, hidden, strict=True))
        for ws, b in zip(net.second.tolist(), net.second_bias.tolist(), strict=True)
    ]
    total = sum(math.exp(x) for x in logits)
    return [math.exp(x) / total for x in logits]


def naive_loss(encoder, decoder, rows, recipe):
    total = 0.0
    for y in rows:
        code = naive_net(encoder, y)
        decoded = naive_net(decoder, code)
        wrong = -sum(p * math.log(q) for p, q in zip(y, decoded, strict=True))
        confused = -sum(p * math.log(q) for p, q in zip(y, code, strict=True))
        entropy = -sum(q * math.log(q) for q in code) / (len(y) if recipe.entropy == "mean" else 1)
        total += 10 * wrong - min(confused, -math.log(1e-6)) - recipe.confusion * entropy
    return total / len(rows)


def small_net(seed, classes=3, hidden=4, size=1.0):
    g = torch.Generator().manual_seed(seed)
    shapes = (hidden, classes), (hidden, 1), (classes, hidden), (classes, 1)
    return Net(*(size * torch.randn(shape, generator=g) for shape in shapes))


@given(
    seed=st.integers(0, 1000),
    confusion=st.floats(0, 2),
    entropy=st.sampled_from(["sum", "mean"]),
    size=st.sampled_from([0.3, 1.0, 4.0]),
)
@settings(max_examples=25, deadline=None)
def test_the_loss_is_the_naive_one(seed, confusion, entropy, size):
    # Large weights make codes so sure of another class that the clamp is reached.
    recipe = CodecRecipe(confusion, entropy, 0, 0)
    encoder, decoder = small_net(seed, size=size), small_net(seed + 1)
    labels = made_up_labels(5, 3, Stream(seed, "labels"))
    found = codec_loss(encoder, decoder, labels, recipe).item()
    assert found == pytest.approx(naive_loss(encoder, decoder, labels.mT.tolist(), recipe), rel=1e-4, abs=1e-4)


def test_made_up_labels_are_nearly_hard_and_cover_all_classes():
    labels = made_up_labels(3000, 4, Stream(0, "labels"))
    torch.testing.assert_close(labels.sum(0), torch.ones(3000))
    assert labels.amax(0).mean() > 0.9
    share = labels.argmax(0).bincount(minlength=4) / 3000
    assert (share - 0.25).abs().max() < 0.04  # five standard errors


def test_a_code_is_used_only_if_it_names_others_and_decodes():
    swap, identity = torch.eye(2).flip(0), torch.eye(2)
    assert confuses(swap, identity)
    assert not confuses(identity, identity)
    assert not confuses(swap, swap)


def test_it_is_tried_again_from_other_draws_and_at_last_given_up(monkeypatch):
    tried = []

    def attempt(classes, recipe, streams):
        tried.append(float(streams["encoder"].normal(1)))
        codes = torch.eye(2).flip(0) if len(tried) == wanted else torch.eye(2)
        big = torch.tensor([[-9.0, 9.0], [9.0, -9.0]])
        return Codec(codes, Net(*(w.double() for w in (torch.eye(2), torch.zeros(2, 1), big, torch.zeros(2, 1)))))

    monkeypatch.setattr(_codec, "_attempt", attempt)
    wanted = 3
    assert torch.equal(find_codec(2, QUICK._replace(samples=7001), 0).codes, torch.eye(2).flip(0))
    assert len(set(tried)) == 3
    wanted = 0
    with pytest.raises(SpecError, match="10 attempts"):
        find_codec(2, QUICK._replace(samples=7002), 0)


def test_codes_are_kept_and_differ_between_seeds():
    first = find_codec(3, QUICK, 0)
    assert find_codec(3, QUICK, 0) is first
    assert not torch.equal(find_codec(3, QUICK, 1).codes, first.codes)


@given(classes=st.integers(2, 300))
def test_blocks_cover_all_classes_and_none_is_too_small(classes):
    sizes = blocks(classes)
    assert sum(sizes) == classes
    assert 2 <= min(sizes) <= max(sizes) <= 20
    assert max(sizes) - min(sizes) <= 1


def test_blocks_are_coded_each_on_its_own():
    two, three = find_codec(2, QUICK, 0), find_codec(3, QUICK, 0)
    code = BlockCode([two, three])
    own = torch.arange(5)
    assert (code.codes.argmax(-1) != own).all()
    assert not code.codes[:2, 2:].any()
    assert torch.equal(code.decode(code.codes).argmax(-1), own)
    probabilities = torch.rand(7, 5).softmax(-1)
    decoded = code.decode(probabilities)
    torch.testing.assert_close(decoded.sum(-1), torch.ones(7, dtype=torch.float64))
    torch.testing.assert_close(decoded[:, :2].sum(-1), probabilities[:, :2].sum(-1).double())
    empty = code.decode(torch.eye(5)[:1])  # nothing in the other block
    assert torch.isfinite(empty).all()


def made(classes, seed=0, **params):
    defense = Cae(CaeParams(samples=12_000, epochs=6, **params), num_classes=classes, embedding_dims=[5])
    defense.setup(torch.arange(classes), torch.arange(classes), seed=seed)
    return defense


def test_labels_are_the_codes_and_perfect_predictions_decode():
    defense, y = made(3), torch.tensor([2, 0, 1, 1])
    codes = defense.labels(y, torch.arange(4))
    assert torch.equal(codes, find_codec(3, QUICK, 0).codes[y])
    assert torch.equal(defense.decode(codes.log()).argmax(-1), y)
    assert 0 < defense.logged()["code_entropy"][0] <= math.log(3)


def test_what_the_gradient_of_a_code_gives_away():
    # The smallest entry is the code's first choice, never the label; the largest is the one class a code leaves out.
    defense, y = made(5), torch.arange(500) % 5
    logits = 0.05 * torch.randn(500, 5, generator=torch.Generator().manual_seed(0))
    codes = defense.labels(y, y)
    gradient = softmax_gradient(logits, codes)
    assert not (gradient.argmin(-1) == y).any()
    assert (gradient.argmax(-1) == y).all()
    assert not defense.notes()
    [note] = Cae(CaeParams(), num_classes=5, embedding_dims=[5], mode="nosplit").notes()
    assert "largest entry" in note


def test_the_model_learns_the_true_classes_through_the_code():
    split, pack = made_up_split(0, classes=3, rows=128), Pack((0,), None)
    network, defense = network_for(split, pack, classes=3), made(3)
    training = Training(epochs=60, batch_size=32, lr=1e-2)
    SplitTraining(network, Rows(split, pack), training, [defense], pack.lead).run()
    with torch.no_grad():
        logits = network(split.passive_train, split.active_train)
    right = (defense.decode(logits).argmax(-1) == split.y_train).double().mean()
    named = (logits.argmax(-1) == split.y_train).double().mean()
    assert right > 0.9
    assert named < 0.1  # the model itself names another class


def raw(**changes):
    spec = {"study": "s", "dataset": "breast_cancer", "defense": "cae", "attacks": ["norm"], **changes}
    return parse(spec)


def test_a_net_with_one_logit_gets_one_for_each_class():
    cell = resolve(raw(model="gafm"))
    assert cell.model.options["head"] == "classes"
    assert resolve(raw(model="gafm", defense="laplace")).model.options["head"] == "auto"
    without_top = resolve(raw(model={"name": "gafm", "top": "none"}))
    assert without_top.model.options["embedding_dim"] == 2
    with pytest.raises(SpecError, match=r"model.head.*'cae'"):
        resolve(raw(model={"name": "gafm", "head": "scalar"}))


def test_it_is_evaluated_on_a_net_that_had_one_logit():
    spec = raw(
        model="gafm",
        attacks=["norm", "direction"],
        defense={"name": "cae", "params": {"samples": 12_000, "epochs": 6}},
        training={"epochs": 30, "lr": 0.01},
        budget={"seeds": 2},
    )
    [outcome] = evaluate_pack(resolve(spec), [{"confusion": 0.5}])
    assert outcome.outcome == "ok", outcome.reason
    assert outcome.utility.mean > 0.95
