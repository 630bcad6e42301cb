"""Which network a teacher is: by the papers, by the spec, and as the parties have it."""

from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from tests.helpers.teachers import train_by_hand
from tune_vfl.data.base import Split
from tune_vfl.defenses.kdk import Kdk, KdkParams
from tune_vfl.defenses.ladistill import Ladistill, LadistillParams
from tune_vfl.defenses.ladsg import Ladsg
from tune_vfl.defenses.parts.teacher_nets import TeacherNet, teacher_network
from tune_vfl.defenses.parts.teachers import TeacherRecipe, find_teachers, recipe_of, train_teacher
from tune_vfl.errors import SpecError, UsageError
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.evaluation.teacher_rows import label_party_rows
from tune_vfl.models.base import MODELS
from tune_vfl.seeds import Stream
from tune_vfl.spec import Named, parse

MLP = {"name": "mlp", "bottom_hidden": (8,), "embedding_dim": 3}


def images(rows=48, classes=2, seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(rows) % classes
    return torch.rand(rows, 1, 8, 4, generator=g) * 0.2 + 0.6 * (y / classes).view(-1, 1, 1, 1), y


def texts(rows=60, classes=2, seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(rows) % classes
    return torch.randint(1, 10, (rows, 6), generator=g) + 10 * y.unsqueeze(-1), y


def recipe(net, epochs=6, lr=3e-3):
    return TeacherRecipe((16,), lr, epochs, 16, TeacherNet.model_validate(net))


@pytest.mark.parametrize(
    ("net", "rows"),
    [
        ("resnet20", images),
        ({"model": "bert", "layers": 1, "hidden": 16}, texts),
        ({"model": "distilbert", "layers": 1, "hidden": 16}, texts),
        ({"model": "same", "name": "lenet"}, images),
        ({"model": "same", **MLP}, images),
    ],
    ids=["resnet20", "bert", "distilbert", "same-lenet", "same-mlp"],
)
def test_a_teacher_of_any_kind_learns_its_rows(net, rows):
    x, y = rows()
    taught = train_teacher(x, y, 0, recipe(net, epochs=12), 2)
    assert taught.probabilities.shape == (len(y), 2)
    torch.testing.assert_close(taught.probabilities.sum(-1), torch.ones(len(y)))
    assert taught.accuracy > 0.75, taught.accuracy  # the classes are far apart; a guess is .5


def test_a_teacher_is_the_net_of_that_name_and_one_linear_layer_asked_in_evaluation_mode():
    (x, y), asked = images(rows=40), recipe("resnet20", epochs=2)
    twin = MODELS["resnet20"](MODELS["resnet20"].Options()).bottom((1, 8, 4), 2, Stream(3, "teacher/weights")).train()
    *_, last = twin.modules()
    assert tuple(last.weight.shape) == (2, 64)
    # One epoch at the full rate; the other is past a half and past four fifths.
    train_by_hand(twin, x, y, seed=3, rates=(3e-3, 3e-5))
    found = train_teacher(x, y, 3, asked, 2)
    with torch.no_grad():
        torch.testing.assert_close(found.probabilities, twin.eval()(x).softmax(-1), rtol=0, atol=1e-4)
        other = train_teacher(x, y, 3, asked, 2, asked=x[:5] + 0.1)
        torch.testing.assert_close(other.probabilities, twin(x[:5] + 0.1).softmax(-1), rtol=0, atol=1e-4)


@pytest.mark.parametrize(("net", "parameters"), [("resnet20", 269_722), ("resnet50", 23_520_842)])
def test_the_nets_for_images_are_those_of_table_3(net, parameters):
    made = teacher_network(TeacherNet.model_validate(net), torch.zeros(1, 3, 32, 32), 10, Stream(0, "t"))
    assert sum(p.numel() for p in made.parameters()) == parameters


def test_the_parties_own_net_gets_a_linear_layer_behind_its_embedding():
    net = teacher_network(TeacherNet.model_validate({"model": "same", **MLP}), torch.zeros(5, 6), 4, Stream(0, "t"))
    assert [tuple(p.shape) for p in net.parameters() if p.dim() == 2] == [(8, 6), (3, 8), (4, 3)]
    cut = TeacherNet.model_validate({"model": "same", "name": "lenet", "cut": 1, "embedding_dim": 5})
    assert teacher_network(cut, torch.zeros(3, 1, 8, 4), 4, Stream(0, "t"))(torch.zeros(3, 1, 8, 4)).shape == (3, 4)


def test_a_net_for_texts_has_as_many_tokens_and_places_as_the_rows_need():
    tokens = torch.full((3, 90), 9000)
    net = teacher_network(TeacherNet.model_validate("distilbert"), tokens, 2, Stream(0, "t"))
    assert net(tokens).shape == (3, 2)


def test_an_mlp_is_the_teacher_of_those_who_say_nothing():
    (x, y), plain = images(), KdkParams(teacher_epochs=2)
    assert recipe_of(plain, plain.teacher).net is None
    for given in ("mlp", {"model": "mlp"}):
        asked = KdkParams.model_validate({"teacher": given, "teacher_epochs": 2})
        assert recipe_of(asked, asked.teacher) == recipe_of(plain)
    flat, _ = find_teachers([x.flatten(1)], [y], [0], [recipe_of(plain)], 2)
    whole, _ = find_teachers([x], [y], [0], [recipe_of(plain)], 2)
    assert torch.equal(flat[0].probabilities, whole[0].probabilities)


@pytest.mark.parametrize(
    ("cls", "model", "modality", "expected"),
    [
        (Kdk, "resnet18", "image", "resnet50"),
        (Ladistill, "resnet20", "image", "resnet20"),
        (Ladsg, "resnet50", "image", "resnet20"),
        (Kdk, "bert", "text", "bert"),
        (Ladistill, "distilbert", "text", "distilbert"),
        (Kdk, "mlp", "table", None),
        (Ladsg, "mlp", "image", None),
        (Kdk, "lenet", "image", None),
    ],
)
def test_the_papers_teachers_stand_beside_the_papers_nets_and_nowhere_else(cls, model, modality, expected):
    found = cls.fitted_to({"epsilon": 0.3}, model=Named(name=model), modality=modality)
    assert found == {"epsilon": 0.3, **({"teacher": {"model": expected}} if expected else {})}
    kept = cls.fitted_to({"teacher": "mlp"}, model=Named(name=model), modality=modality)
    assert kept == {"teacher": {"model": "mlp"}}
    assert cls.Params.model_validate({"k": 2, **kept}).teacher == TeacherNet(model="mlp")


def spec(model, teacher=None, **dataset):
    params = {} if teacher is None else {"teacher": teacher}
    return parse(
        {
            "study": "t",
            "dataset": {"name": "digits", **dataset},
            "model": model,
            "defense": {"name": "kdk", "params": params},
            "attacks": ["pmc"],
        }
    )


def test_a_cell_says_which_net_the_teacher_is():
    assert resolve(spec({"name": "mlp"})).fixed == {}
    assert resolve(spec({"name": "resnet20"})).fixed == {"teacher": {"model": "resnet50"}}
    same = resolve(spec({"name": "cnn", "channels": [4, 6]}, "same")).fixed["teacher"]
    assert (same["model"], same["name"], tuple(same["channels"])) == ("same", "cnn", (4, 6))
    net = TeacherNet.model_validate(same)
    x = torch.rand(7, 1, 8, 4)
    assert teacher_network(net, x, 10, Stream(0, "t"))(x).shape == (7, 10)
    assert TeacherNet.model_validate(net.model_dump(mode="json")).architecture().options == net.architecture().options


@pytest.mark.parametrize(
    ("teacher", "says"),
    [
        ("resnet5", "resnet20"),
        ({"model": "resnet20", "colour": 1}, "colour"),
        ({"model": "resnet50", "top": "none"}, "one linear layer; leave out top"),
        ({"model": "mlp", "bottom_hidden": [3]}, "teacher_hidden"),
        ("bert", "bert reads text data, not images"),
    ],
)
def test_a_spec_with_a_wrong_teacher_is_refused(teacher, says):
    with pytest.raises(SpecError, match=says):
        resolve(spec({"name": "mlp"}, teacher))


def test_a_teacher_that_cannot_read_its_rows_says_so():
    x, y = texts()
    with pytest.raises(UsageError, match="resnet20' reads image data, got rows of shape"):
        train_teacher(x, y, 0, recipe("resnet20"), 2)
    with pytest.raises(UsageError, match="same"):
        train_teacher(x, y, 0, recipe("same"), 2)
    with pytest.raises(SpecError, match="cannot be read"):
        train_teacher(*images(), 0, recipe({"model": "resnet50", "weights": "/nowhere.pt"}), 2)
    with pytest.raises(ValidationError):
        KdkParams.model_validate({"teacher": 3})


def test_members_of_a_pack_share_a_net_and_those_with_another_net_train_apart():
    assert Kdk.structure(KdkParams(epsilon=0.2)) == Kdk.structure(KdkParams(epsilon=0.3))
    nets = [KdkParams.model_validate({"teacher": t}) for t in (None, "resnet20", {"model": "same", **MLP})]
    assert len({hash(Kdk.structure(p)) for p in nets}) == 3


def test_in_a_pack_every_member_has_the_labels_that_it_has_alone():
    x, y = images(rows=24)
    given = {"k": 2, "teacher": {"model": "same", "name": "cnn"}, "teacher_epochs": 1, "anchor": "teacher_argmax"}
    both = [LadistillParams.model_validate({**given, "epsilon": epsilon}) for epsilon in (0.2, 0.4)]
    pack = Ladistill(both, num_classes=2, embedding_dims=[4])
    ids = torch.arange(24)
    pack.setup(y.expand(2, 24), ids.expand(2, 24), active_features=x.expand(2, *x.shape), seed=[5, 6])
    for member, params in enumerate(both):
        alone = Ladistill(params, num_classes=2, embedding_dims=[4])
        alone.setup(y, ids, active_features=x, seed=5 + member)
        assert torch.equal(pack.labels(y.expand(2, 24), ids.expand(2, 24))[member], alone.labels(y, ids))


def split_of(*passive, active=None):
    y = torch.zeros(3, dtype=torch.long)
    return Split(passive, passive, active, active, y, y, y, y)


def test_the_teacher_reads_images_and_tokens_as_they_are_and_those_of_all_parties_side_by_side():
    left, right = torch.rand(3, 1, 4, 2), torch.rand(3, 1, 4, 3)
    assert label_party_rows(split_of(left, active=right), full_view=False) is right
    assert label_party_rows(split_of(left), full_view=False) is None
    joined = label_party_rows(split_of(left, active=right), full_view=True)
    assert torch.equal(joined, torch.cat([left, right], -1))
    odd = torch.rand(3, 7)
    assert torch.equal(label_party_rows(split_of(left, odd), full_view=True), torch.cat([left.flatten(1), odd], -1))
    tokens = torch.randint(1, 9, (3, 5))
    assert label_party_rows(split_of(tokens, active=tokens), full_view=True).shape == (3, 10)


def test_a_teacher_starts_from_a_file_of_weights(tmp_path: Path):
    net = MODELS["resnet50"](MODELS["resnet50"].Options()).trunk((1, 8, 4))
    torch.save(net.state_dict(), tmp_path / "w.pt")
    given = TeacherNet.model_validate({"model": "resnet50", "weights": str(tmp_path / "w.pt")})
    built = teacher_network(given, torch.rand(2, 1, 8, 4), 2, Stream(0, "t"))
    deep = next(n for n, p in net.named_parameters() if p.dim() == 4 and n.startswith("layer4"))
    assert any(torch.equal(p, dict(net.named_parameters())[deep]) for p in built.parameters())
