"""Model completion with labels that were read off gradients: KDk's section 4.3."""

from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError

from tests.helpers.cells import cells
from tune_vfl import evaluate
from tune_vfl.attacks.active import Active, ActiveParams
from tune_vfl.attacks.embedding_extension import EmbeddingExtension
from tune_vfl.attacks.parts.completion import PmcParams
from tune_vfl.attacks.parts.signs import labels_read_off
from tune_vfl.attacks.pmc import Pmc
from tune_vfl.errors import SpecError
from tune_vfl.models.joined import JoinedBottoms, SideBySide
from tune_vfl.protocol.granted import Features, Recording
from tune_vfl.protocol.view import View
from tune_vfl.seeds import Streams
from tune_vfl.testing.attacks import AttackContract, world_for

DIRECT = {"aux": "direct", "variants": ["logreg", "head_only"], "epochs": 5}
cell_of = cells("training.epochs=3")


class Reading(Pmc):
    """Model completion that knows no label, for the contract of every attack."""

    name = "pmc"
    capabilities = Pmc.capabilities.__class__(
        modes=frozenset({"nosplit"}), sees=frozenset({"features", "bottom", "gradients"}), parties="joined"
    )
    quick = {**DIRECT, "aux_total": 60}  # noqa: RUF012 - a constant


class TestContract(AttackContract):
    @pytest.fixture
    def attack_class(self):
        return Reading


def view_of(gradients, ids=None):
    ids = torch.arange(len(gradients)) if ids is None else ids
    return View("pmc", (), gradients.shape[-1], Streams(0)), Recording(ids, gradients, ((0, len(gradients)),))


def test_labels_are_those_of_the_rule_at_the_rows_that_were_received():
    y = torch.arange(40) % 4
    g = torch.rand(40, 4, generator=torch.Generator().manual_seed(0)) + 0.1
    g = g.scatter(-1, y.unsqueeze(-1), -1.0)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(1))
    found = labels_read_off(*view_of(g[order], order), "argmin", 12)
    assert torch.equal(found.labels, y[found.ids])
    assert len(set(found.ids.tolist())) == 12
    assert not torch.equal(labels_read_off(*view_of(g[order], order), "argmax", 12).labels, y[found.ids])


def test_rows_that_say_nothing_come_last_and_are_guessed():
    g = torch.full((30, 3), 0.5)
    g[:10, 1] = -1.0
    found = labels_read_off(*view_of(g), "first_negative", 10)
    assert set(found.ids.tolist()) == set(range(10))
    assert (found.labels == 1).all()
    every = labels_read_off(*view_of(g), "first_negative", 99)
    assert len(every.ids) == 30
    assert set(every.labels.tolist()) <= {0, 1, 2}
    assert len(set(every.labels[10:].tolist())) > 1


def test_gradients_of_another_width_are_refused():
    view, seen = view_of(torch.rand(5, 3))
    wide = Recording(seen.ids, torch.rand(5, 7), seen.batches)
    with pytest.raises(SpecError, match="top: none"):
        labels_read_off(view, wide, "argmin", 2)


def test_it_reads_gradients_in_the_place_of_labels_and_at_the_moment_that_it_names():
    usual, reading = Pmc(), Pmc(PmcParams(aux="direct", direct_scope="first_batch"))
    assert usual.sees() == {"features", "bottom", "auxiliary"}
    assert not usual.moments()
    assert reading.sees() == {"features", "bottom", "gradients"}
    assert reading.moments() == ("first_batch",)
    assert reading.auxiliary_request() is None


def test_where_there_is_a_top_model_it_is_refused():
    asked = {"num_classes": 3, "mode": "split"}
    assert "model.top: none" in Pmc.problems(PmcParams(aux="direct"), **asked)[0]
    assert not Pmc.problems(PmcParams(), **asked)
    assert not Pmc.problems(PmcParams(aux="direct"), num_classes=3, mode="nosplit")
    assert Active.problems(ActiveParams(aux="direct"), **asked)
    assert EmbeddingExtension.problems(EmbeddingExtension.Params(aux="direct"), **asked)
    with pytest.raises(SpecError, match="aux: direct"):
        cell_of({"name": "pmc", **DIRECT})
    with pytest.raises(ValidationError, match="rows a class"):
        PmcParams(aux="direct", aux_per_class=[1, 4])


def test_parties_that_join_average_what_they_received():
    """Two parties whose noise differs: what is read off both is what is read off the mean of theirs."""
    world, attack = world_for(Reading, 3, rows=400), Reading(PmcParams(**Reading.quick))
    view = world.view(attack)
    seen, parts = view.recording("epoch0"), [view.bottom(), view.bottom()]
    noise = 3 * torch.randn(seen.gradients.shape, generator=torch.Generator().manual_seed(0))
    both = replace(seen, gradients=torch.cat([seen.gradients + noise, seen.gradients - noise], -1))
    shape = tuple(world.features.train.shape[1:])
    joined = view.holding(
        gradients={"epoch0": both},
        bottom=lambda: JoinedBottoms(parts, SideBySide((shape, shape), (0, 0))),
        features=Features(*(torch.cat([x, x], -1) for x in (world.features.train, world.features.test))),
    )
    lone, together = (attack.run(replace(v, streams=v.streams.restarted())) for v in (view, joined))
    counted = [answer["logreg"].counted for answer in (lone, together)]
    assert torch.equal(*counted)
    y = world.y_train[counted[0]]
    right = [(answer["logreg"].scores.argmax(-1)[counted[0]] == y).float().mean() for answer in (lone, together)]
    assert right[1] == pytest.approx(float(right[0]), abs=0.02)
    assert right[1] > 0.8


@pytest.mark.parametrize("dataset", ["digits", "breast_cancer"])
def test_labels_of_other_rows_are_found_although_none_was_known(dataset):
    answer = evaluate(
        dataset,
        attacks=[{"name": "pmc", **DIRECT}, "direct"],
        seeds=2,
        settings=["model.top=none", "training.epochs=10"],
    )
    assert answer["outcome"] == "ok", answer["reason"]
    pmc = answer["attacks"]["pmc"]
    assert pmc["mean"] > 0.7
    assert pmc["extra"]["test"] > 0.6  # no gradient ever came for these
    assert pmc["r_lower"] < 0.6  # without a federation nothing is read off


def test_a_rule_that_a_defense_defeats_finds_less():
    settings = ["model.top=none", "training.epochs=3"]
    found = {}
    for rule in ("first_negative", "argmin"):
        attack = {"name": "pmc", **DIRECT, "direct_rule": rule}
        answer = evaluate(
            "digits", defense="laplace", params={"scale": 0.02}, attacks=[attack], seeds=1, settings=settings
        )
        found[rule] = answer["attacks"]["pmc"]["extra"]["test"]
    assert found["argmin"] > found["first_negative"] + 0.1, found
