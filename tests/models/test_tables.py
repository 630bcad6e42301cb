"""Nets for tables with categories: what is one category, closed forms and naive twins, packs, whole evaluations."""

import csv
import random
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tune_vfl import evaluate
from tune_vfl.data import load
from tune_vfl.models.base import MODELS, build
from tune_vfl.models.dcn import Cross, Dcn, DcnOptions
from tune_vfl.models.deepfm import DeepFm, DeepFmOptions
from tune_vfl.models.fields import FieldVectors
from tune_vfl.models.layers import Linear, select_member
from tune_vfl.models.wide_deep import WideDeep, WideDeepOptions
from tune_vfl.seeds import Stream, Streams
from tune_vfl.spec import Named

NETS = ("wide_deep", "dcn", "deepfm")
FIELDS = (1, 3, 1, 1, 2)  # a number, a category of 3 values, two numbers, a category of 2


def bottom(name: str, fields: tuple[int, ...], seed: int | list[int] = 0, d_out: int = 4) -> nn.Module:
    architecture = MODELS[name](MODELS[name].Options())
    return architecture.bottom_of((sum(fields),), fields, d_out, Stream(seed, "init"))


def rows(n: int, lead: tuple[int, ...] = ()) -> Tensor:
    """Rows of FIELDS: categories as 0/1 columns."""
    x = torch.randn(*lead, n, sum(FIELDS))
    for start, k in ((1, 3), (6, 2)):
        x[..., start : start + k] = nn.functional.one_hot(torch.randint(0, k, (*lead, n)), k).float()
    return x


def widths(net: nn.Module) -> list[tuple[int, ...]]:
    return [tuple(m.weight.shape[-2:]) for m in net.modules() if isinstance(m, Linear)]


@pytest.mark.parametrize("numbers", [False, True])
def test_a_category_is_the_vector_of_its_value_and_fields_keep_their_order(numbers: bool) -> None:
    made, x = FieldVectors(FIELDS, 5, stream=Stream(0, "v"), numbers=numbers), rows(9)
    assert made.vectors is not None
    said = made(x)
    assert said.shape == (9, made.width)
    for r in range(9):
        expected: list[Tensor] = []
        column = vector = 0
        for k in FIELDS:
            if k == 1 and not numbers:
                expected.append(x[r, column : column + 1])
            elif k == 1:
                expected.append(x[r, column] * made.vectors[vector])
                vector += 1
            else:
                value = int(x[r, column : column + k].argmax())
                expected.append(made.vectors[vector + value])
                vector += k
            column += k
        torch.testing.assert_close(said[r], torch.cat(expected))
    assert made.vectors.shape == (8 if numbers else 5, 5)


def test_numbers_alone_need_no_vectors() -> None:
    made, x = FieldVectors((1,) * 4, 5, stream=Stream(0, "v")), torch.randn(3, 4)
    assert made.vectors is None
    assert torch.equal(made(x), x)


def test_the_products_of_pairs_are_those_of_two_loops() -> None:
    net = bottom("deepfm", FIELDS)
    said = net.vectors(rows(6))  # type: ignore[operator]
    v = said.view(6, len(FIELDS), -1)
    pairs = [v[:, i] * v[:, j] for i in range(len(FIELDS)) for j in range(i + 1, len(FIELDS))]
    torch.testing.assert_close(net.pairs(said), torch.stack(pairs).sum(0), rtol=1e-5, atol=1e-5)  # type: ignore[operator]


def test_deepfm_is_the_published_sum() -> None:
    net = DeepFm(DeepFmOptions()).bottom_of_fields(FIELDS, 1, Stream(0, "init"))
    x = rows(6)
    with torch.no_grad():
        net.out.weight[:, :10] = 1  # type: ignore[index, union-attr]  # the paper adds up the 10 numbers of the products
        said = net.vectors(x)  # type: ignore[operator]
        deep = net.deep(said) @ net.out.weight[:, 10:].T  # type: ignore[index, operator, union-attr]
        total = net.first(x) + net.pairs(said).sum(-1, keepdim=True) + deep + net.out.bias  # type: ignore[operator, union-attr]
        torch.testing.assert_close(net(x), total)


def test_a_cross_layer_is_the_published_one() -> None:
    cross, x0, x = Cross(5, stream=Stream(0, "c")), torch.randn(3, 5), torch.randn(3, 5)
    for r in range(3):
        expected = torch.outer(x0[r], x[r]) @ cross.weight[:, 0] + cross.bias[0] + x[r]
        torch.testing.assert_close(cross(x0, x)[r], expected)


def test_nets_have_the_published_layers() -> None:
    wide_deep = WideDeep(WideDeepOptions(embedding_dim=1))
    net, top = wide_deep.bottom_of_fields((40,) * 20, 1, Stream(0, "a")), wide_deep.top(1, 1, Stream(0, "b"))
    # 20 categories in vectors of 16, an MLP 16x16; the generator's shape on top.
    assert widths(net) == [(1, 800), (16, 320), (16, 16), (1, 16)]
    assert widths(top) == [(16, 1), (1, 16)]
    dcn = Dcn(DcnOptions())
    net, top = dcn.bottom_of_fields((40,) * 20, 10, Stream(0, "a")), dcn.top(20, 2, Stream(0, "b"))
    assert widths(net) == [(64, 320), (32, 64), (10, 320 + 32)]  # 3 linear layers below, 1 above
    assert widths(top) == [(2, 20)]


@pytest.mark.parametrize("name", NETS)
def test_a_pack_equals_its_members(name: str) -> None:
    seeds, x = [3, 5, 3], rows(11, (3,))
    stacked = bottom(name, FIELDS, seeds)
    together = stacked(x)
    assert together.shape == (3, 11, 4)
    for member in range(3):
        alone = bottom(name, FIELDS, seeds[member])
        torch.testing.assert_close(together[member], alone(x[member]), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(together[member], select_member(stacked, member)(x[member]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NETS)
def test_every_parameter_learns_and_every_column_counts(name: str) -> None:
    net, x = bottom(name, FIELDS), rows(64).requires_grad_()
    net(x).square().sum().backward()
    assert x.grad is not None
    assert (x.grad.abs().sum(0) > 0).all()
    for key, parameter in net.named_parameters():
        assert parameter.grad is not None, key
        assert bool((parameter.grad != 0).any()), key


@pytest.mark.parametrize("name", NETS)
def test_where_nothing_is_known_each_column_is_a_number(name: str) -> None:
    architecture = MODELS[name](MODELS[name].Options())
    unknown = architecture.bottom_of((5,), (), 4, Stream(0, "init"))
    numbers = architecture.bottom_of((5,), (1,) * 5, 4, Stream(0, "init"))
    for a, b in zip(unknown.parameters(), numbers.parameters(), strict=True):
        assert torch.equal(a, b)


def test_fields_reach_their_party_and_added_columns_are_numbers() -> None:
    net = build(
        WideDeep(WideDeepOptions()),
        passive_shapes=[(3,), (5,)],
        own_shape=(4,),
        num_classes=2,
        streams=Streams(0),
        fields=[(3,), (1, 3), (2, 2)],
    )
    assert net.own_bottom is not None
    made = [b.vectors.width for b in (*net.bottoms, net.own_bottom)]  # type: ignore[union-attr]
    assert made == [16, 1 + 16 + 1, 32]


@pytest.fixture
def table(tmp_path: Path) -> dict[str, object]:
    """Two parties, a number and a category each: the label is whether income is high, the other way round in shop a."""
    draw = random.Random(0)  # noqa: S311 - no secret
    with (tmp_path / "t.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["income", "shop", "visits", "device", "label"])
        for _ in range(240):
            shop, device, income = draw.choice("abc"), draw.choice("xyz"), draw.gauss(0, 1)
            label = int((income > 0) == (shop == "a"))
            out.writerow([round(income, 3), shop, draw.choice(["", 1, 2, 3]), device, label])
    parties = {"one": ["income", "shop"], "active": ["visits", "device"]}
    return {"name": "csv", "path": str(tmp_path / "t.csv"), "label": "label", "parties": parties}


def test_a_table_of_ones_own_says_which_columns_are_one_category(table: dict[str, object]) -> None:
    data = load(Named.model_validate(table))
    assert [c.fields for c in data.parties] == [(1, 3), (1, 1, 3)]  # a missing number's mark is a number
    codes = load(Named.model_validate({**table, "codes": "ordinal"}))
    assert [c.fields for c in codes.parties] == [(1, 1), (1, 1, 1)]
    assert [c.fields for c in load(Named(name="wine")).parties] == [(), ()]


@pytest.mark.parametrize("name", NETS)
def test_a_whole_evaluation(name: str, table: dict[str, object]) -> None:
    settings = [f"model.name={name}", "training.epochs=40", "training.batch_size=32", "training.lr=0.01"]
    attacks = [{"name": "pmc", "variants": ["logreg", "logreg_all", "mixmatch_unfrozen"], "steps": 20}, "norm"]
    answer = evaluate(table, attacks=attacks, seeds=2, settings=settings)
    assert answer["outcome"] == "ok", answer
    # Neither column says anything alone, and no linear map of both does.
    assert answer["utility"]["mean"] > 0.85
    assert set(answer["attacks"]["pmc"]["variants"]) == {"logreg", "logreg_all", "mixmatch_unfrozen"}


@pytest.mark.parametrize("defense", ["labobf", "fedpass", "gafm", "marvell"])
def test_defenses_that_change_columns_layers_or_logits_take_it(defense: str, table: dict[str, object]) -> None:
    if defense == "gafm":  # for a label party without features
        table = {**table, "parties": {"one": ["income", "shop", "visits", "device"]}}
    answer = evaluate(
        table, defense=defense, attacks=["norm"], seeds=2, settings=["model.name=wide_deep", "training.epochs=2"]
    )
    assert answer["outcome"] == "ok", answer


def test_a_wide_part_may_start_from_unit_normal_weights_alone_or_in_a_pack() -> None:
    fields = (40,) * 50
    usual, net = (WideDeep(WideDeepOptions(wide_start=start)) for start in (None, "normal"))
    pack, alone = (net.bottom_of((2000,), fields, 3, Stream(seed, "init")) for seed in ([4, 5], 5))
    as_torch = usual.bottom_of((2000,), fields, 3, Stream(5, "init"))
    wide = alone.wide.weight
    # 6,000 draws: their mean square is off by 1.8% in one deviation.
    assert wide.square().mean().item() == pytest.approx(1, abs=0.09)
    assert torch.equal(pack.wide.weight[1], wide)
    assert not torch.equal(pack.wide.weight[0], wide)
    for name, value in alone.named_parameters():
        assert torch.equal(value, dict(as_torch.named_parameters())[name]) == (name != "wide.weight")
