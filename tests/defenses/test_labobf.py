"""LabObf: published values, bins, columns and reports, decoders, a pack, and what becomes of a lie."""

from collections import Counter
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.problems import made_up_split
from tune_vfl.defenses.labobf import LARGEST, Labobf, LabobfParams, cut_points, draw_numbers, soft_values
from tune_vfl.errors import ShapeError, SpecError, UsageError
from tune_vfl.evaluation import evaluate_pack
from tune_vfl.evaluation.federations.vertical import scores_on_test_rows
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.evaluation.training import extended
from tune_vfl.metrics.utility import accuracy, auc, positive_margin
from tune_vfl.models.base import build
from tune_vfl.models.mlp import Mlp, MlpOptions
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.members import Pack, Rows
from tune_vfl.seeds import Stream, Streams
from tune_vfl.spec import Training, parse


@pytest.mark.parametrize(
    ("classes", "table", "published"),
    [
        (2, "interleave", [[0, 0.67], [0.33, 1]]),
        (2, "epsilon", [[0, 0.8], [0.2, 1]]),
        (3, "interleave_half", [[0, 1.5], [0.5, 2], [1, 2.5]]),
        (7, "interleave_half", [[0.5 * i, 0.5 * i + 3.5] for i in range(7)]),
    ],
)
def test_the_values_are_the_published_ones(classes, table, published):
    torch.testing.assert_close(soft_values(classes, 2, table), torch.tensor(published), rtol=0, atol=0.005)


@given(classes=st.integers(2, 12), bins=st.integers(2, 4))
def test_values_take_turns(classes, bins):
    order = soft_values(classes, bins).flatten().argsort() // bins
    assert order.tolist() == list(range(classes)) * bins
    assert soft_values(classes, bins).aminmax() == (0, 1)


@pytest.mark.parametrize(("parties", "bins"), [(2, 2), (2, 3), (2, 4), (3, 2), (3, 4)])
def test_bins_are_equally_likely(parties, bins):
    # By counting: pairs of parties first, so that three parties stay quick.
    pairs = Counter(a + b for a, b in product(range(LARGEST + 1), repeat=2))
    sums = pairs if parties == 2 else Counter()
    if parties == 3:
        for total, count in pairs.items():
            sums.update({total + c: count for c in range(LARGEST + 1)})
    ends = cut_points(parties, bins)
    shares = [sum(n for s, n in sums.items() if s <= end) / (LARGEST + 1) ** parties for end in ends]
    for j, (end, share) in enumerate(zip(ends, shares, strict=True), start=1):
        assert share >= j / bins > share - sums[end] / (LARGEST + 1) ** parties
    if (parties, bins) == (2, 2):
        assert ends == (LARGEST,)
        assert shares[0] == pytest.approx(0.5025, abs=5e-5)


def test_numbers_are_uniform():
    numbers = draw_numbers(Stream(0, "numbers"), 201_000)
    counts = numbers.long().bincount()
    assert torch.equal(numbers, numbers.round())
    assert len(counts) == LARGEST + 1
    assert ((counts - 1000) ** 2 / 1000).sum() < 300  # chi-squared with 200 degrees of freedom: mean 200, deviation 20


def made(classes=2, *, rows=200, seed=0, y=None, **params):
    """A defense that was set up, with the rows it extended and their labels."""
    defense = Labobf(LabobfParams(**params), num_classes=classes, embedding_dims=[4])
    g = torch.Generator().manual_seed(1)
    x = defense.extend([torch.randn(rows, 3, generator=g), torch.randn(rows, 2, generator=g)], seed=seed, part="train")
    y = torch.arange(rows) % classes if y is None else y
    defense.setup(y, torch.arange(rows), seed=seed)
    return defense, x, y


def told(x):
    return sum((part[:, -1] * LARGEST).round() for part in x)


@pytest.mark.parametrize("table", ["interleave", "interleave_half"])
@pytest.mark.parametrize(("classes", "bins"), [(2, 2), (2, 4), (3, 3), (7, 2)])
def test_labels_are_those_of_the_paper_and_decode_to_their_classes(classes, bins, table):
    defense, x, y = made(classes, bins=bins, table=table)
    targets = defense.labels(y, torch.arange(200))
    step = 0.5 if table == "interleave_half" else 1 / (bins * classes - 1)
    ends = cut_points(2, bins)
    plain = [(c + classes * sum(s > end for end in ends)) * step for c, s in zip(y.tolist(), told(x), strict=True)]
    torch.testing.assert_close(targets, torch.tensor(plain))
    aware = made(classes, bins=bins, table=table, decode="bin_aware")[0]
    for scores in (defense.decode(targets.unsqueeze(-1)), aware.decode_rows(targets.unsqueeze(-1), x)):
        assert torch.equal(scores.argmax(-1), y)


def test_columns_are_the_parties_own_and_stay_with_their_rows():
    defense, x, _ = made(rows=5000)
    assert [part.shape[-1] for part in x] == [4, 3]
    passive, own = (part[:, -1] for part in x)
    assert torch.corrcoef(torch.stack([passive, own]))[0, 1].abs() < 0.07  # five standard errors
    again = defense.extend([x[0][:, :3], x[1][:, :2]], seed=0, part="train")
    assert all(torch.equal(a, b) for a, b in zip(again, x, strict=True))
    test = defense.extend([x[0][:, :3], x[1][:, :2]], seed=0, part="test")
    assert not torch.equal(test[0][:, -1], passive)
    y, ids = torch.zeros(9, dtype=torch.int64), torch.arange(9).flip(0) * 7
    torch.testing.assert_close(defense.labels(y, ids), (told(x)[ids] > LARGEST) * 2 / 3)


def test_test_rows_leave_the_reports_of_the_training_rows_alone():
    defense, _, y = made()
    before = defense.labels(y, torch.arange(200))
    defense.extend([torch.zeros(200, 3), torch.zeros(200, 2)], seed=0, part="test")
    defense.setup(y, torch.arange(200), seed=0)
    assert torch.equal(defense.labels(y, torch.arange(200)), before)


@given(z=st.floats(-2, 3, width=32), classes=st.integers(2, 5), bins=st.integers(2, 4))
@settings(max_examples=50)
def test_the_decoder_finds_the_nearest_value(z, classes, bins):
    table = soft_values(classes, bins)
    defense = Labobf(LabobfParams(bins=bins), num_classes=classes, embedding_dims=[4])
    [scores] = defense.decode(torch.tensor([[z]]))
    distances = [[abs(z - v) for v in row] for row in table.tolist()]
    assert scores.tolist() == pytest.approx([-min(row) for row in distances], abs=1e-6)


def test_binary_scores_rank_as_they_decide():
    defense, _, _ = made()
    z, y = torch.tensor([[0.05], [0.3], [0.6], [0.95]]), torch.tensor([0, 1, 0, 1])
    scores = defense.decode(z).double().numpy()
    assert accuracy(scores, y.numpy()) == 1
    assert auc(positive_margin(scores), y.numpy()) == 1
    assert ((positive_margin(scores) > 0) == (scores.argmax(-1) == 1)).all()


def test_knowing_the_bin_settles_what_the_nearest_value_leaves_open():
    # Between the values 1/3 (class 1, bin 0) and 2/3 (class 0, bin 1) only the bin tells the class.
    defense, x, _ = made(decode="bin_aware")
    z = torch.full((200, 1), 0.5)
    nearest, aware = made()[0].decode_rows(z + 0.01, x), defense.decode_rows(z + 0.01, x)
    assert (nearest.argmax(-1) == 0).all()
    assert torch.equal(aware.argmax(-1), (told(x) <= LARGEST).long())


def test_lying_at_inference_only_changes_nothing_for_the_nearest_value():
    z = torch.rand(200, 1)
    for decode, same in (("nearest", True), ("bin_aware", False)):
        defense, x, _ = made(decode=decode)
        lie = [torch.cat([x[0][:, :-1], x[0][:, -1:].flip(0)], -1), x[1]]
        assert torch.equal(defense.decode_rows(z, lie), defense.decode_rows(z, x)) == same


def test_the_loss_is_the_squared_error_of_each_member():
    defense = made()[0]
    logits, targets = torch.randn(3, 8, 1), torch.rand(3, 8)
    expected = torch.stack([torch.nn.functional.mse_loss(z[:, 0], t) for z, t in zip(logits, targets, strict=True)])
    torch.testing.assert_close(defense.loss(logits, targets, []), expected)


def test_members_with_other_bins_and_seeds_share_a_pack():
    params = [LabobfParams(bins=m, decode="bin_aware") for m in (2, 2, 4, 4)]
    seeds, y = [0, 1, 0, 1], (torch.arange(40) % 3).expand(4, 40)
    pack = Labobf(params, num_classes=3, embedding_dims=[4])
    rows = [torch.randn(2, 40, 3), torch.randn(2, 40, 2)]  # a block for each seed, which both trials share
    x = [part.repeat(2, 1, 1) for part in pack.extend(rows, seed=[0, 1], part="train")]
    ids, z = torch.arange(40).expand(4, 40), torch.rand(4, 40, 1)
    pack.setup(y, ids, seed=seeds)
    for member, (own, seed) in enumerate(zip(params, seeds, strict=True)):
        alone = Labobf(own, num_classes=3, embedding_dims=[4])
        part = alone.extend([r[seed] for r in rows], seed=seed, part="train")
        alone.setup(y[member], ids[member], seed=seed)
        assert all(torch.equal(a[member], b) for a, b in zip(x, part, strict=True))
        assert torch.equal(pack.labels(y, ids)[member], alone.labels(y[member], ids[member]))
        assert torch.equal(pack.decode(z)[member], alone.decode(z[member]))
        assert torch.equal(pack.decode_rows(z, x)[member], alone.decode_rows(z[member], part))


def test_what_cannot_be_is_refused_with_the_reason():
    defense = Labobf(LabobfParams(), num_classes=2, embedding_dims=[4])
    with pytest.raises(UsageError, match="extend"):
        defense.setup(torch.zeros(4, dtype=torch.int64), torch.arange(4))
    with pytest.raises(UsageError, match="label party"):
        defense.extend([torch.zeros(4, 2)], seed=0, part="train")
    defense.extend([torch.zeros(4, 2), torch.zeros(4, 2)], seed=0, part="train")
    with pytest.raises(ShapeError, match="4 rows were extended and 3"):
        defense.setup(torch.zeros(3, dtype=torch.int64), torch.arange(3))
    [problem] = Labobf.problems(LabobfParams(table="epsilon"), num_classes=3, mode="split")
    assert "two classes" in problem
    [problem] = Labobf.problems(LabobfParams(honest=False, decode="bin_aware"), num_classes=2, mode="split")
    assert "honest" in problem


def trained(epochs=100, **params):
    """Accuracy on test rows of a small training through the real loop, and its network."""
    pack = Pack((0,), None)
    defense = Labobf(LabobfParams(**params), num_classes=2, embedding_dims=[5])
    split = extended(made_up_split(0, rows=600, held_out=1000), defense, pack)
    net = build(
        Mlp(MlpOptions(bottom_hidden=(16,), embedding_dim=5, top_hidden=(16,), head="scalar")),
        passive_shapes=[(5,)],
        own_shape=(4,),
        num_classes=2,
        streams=Streams(0),
    )
    defense.setup(split.y_train, torch.arange(600), seed=0)
    training = Training(epochs=epochs, batch_size=50, lr=1e-2)
    loop = SplitTraining(net, Rows(split, pack), training, [defense], pack.lead).run()
    scores = scores_on_test_rows(loop, defense, split, pack)
    return accuracy(scores.numpy(), split.y_test.numpy())


def test_a_model_learns_the_classes_and_not_from_a_party_that_lies():
    assert trained() > 0.85
    assert trained(decode="bin_aware") > 0.85
    # The rows of a lying party carry nothing about their bin, without which a value says little about the class.
    assert trained(honest=False) < 0.6
    assert Labobf(LabobfParams(honest=False), num_classes=2, embedding_dims=[5]).notes()


def raw(**changes):
    return parse({"study": "s", "dataset": "breast_cancer", "defense": "labobf", "attacks": ["pmc"], **changes})


def test_it_is_evaluated_with_the_attack_that_knows_its_column():
    cell = resolve(
        raw(
            attacks=[{"name": "pmc", "steps": 20}],
            training={"epochs": 60, "lr": 0.01},
            budget={"trials": 1, "seeds": 1},
        )
    )
    assert cell.model.options["head"] == "scalar"
    [outcome] = evaluate_pack(cell, [{}])
    assert outcome.outcome == "ok", outcome.reason
    assert outcome.utility.mean > 0.85
    assert "conditioned" in outcome.attacks["pmc"].variants
    assert outcome.attacks["pmc"].r_lower > 0.5
    [plain] = evaluate_pack(
        resolve(raw(defense="none", attacks=[{"name": "pmc", "steps": 2}], training={"epochs": 2})), [{}]
    )
    assert "conditioned" not in plain.attacks["pmc"].variants


def test_it_needs_features_at_the_label_party_and_a_top_model(tmp_path):
    with pytest.raises(SpecError, match="nosplit"):
        resolve(raw(model={"name": "mlp", "top": "none"}))
    labels_alone = tmp_path / "labels_alone.csv"
    labels_alone.write_text("x,label\n" + "".join(f"{k},{k % 2}\n" for k in range(40)))
    with pytest.raises(SpecError, match="label_only"):
        resolve(
            raw(dataset={"name": "csv", "path": str(labels_alone), "label": "label", "parties": {"passive": ["x"]}})
        )
    with pytest.raises(SpecError, match="direct"):
        resolve(raw(attacks=["direct"]))
