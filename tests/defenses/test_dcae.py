"""DCAE: cae and discrete_sgd one after the other, and what rounding hides."""

import pytest
import torch

from tune_vfl.defenses.cae import Cae
from tune_vfl.defenses.dcae import Dcae, DcaeParams
from tune_vfl.defenses.discrete_sgd import DiscreteSgd
from tune_vfl.defenses.parts.pipeline import Pipeline
from tune_vfl.testing.gradients import softmax_gradient

QUICK = {"samples": 12_000, "epochs": 6}
ROWS, CLASSES = 600, 5


def made(mode="split", **params):
    return Dcae(DcaeParams(**QUICK, **params), num_classes=CLASSES, embedding_dims=[CLASSES], mode=mode)


def first_step():
    y = torch.arange(ROWS) % CLASSES
    return y, 0.05 * torch.randn(ROWS, CLASSES, generator=torch.Generator().manual_seed(0))


def test_it_is_its_two_parts_one_after_the_other():
    params, (y, logits) = DcaeParams(**QUICK), first_step()
    whole, parts = made(), []
    for stage in (Cae, DiscreteSgd):
        part = stage(Pipeline.part_of(stage, params), num_classes=CLASSES, embedding_dims=[CLASSES])
        part.stream_prefix = f"{stage.name}/"
        parts.append(part)
    for defense in (whole, *parts):
        defense.setup(y, torch.arange(ROWS), seed=3)
    codes = parts[0].labels(y, torch.arange(ROWS))
    gradient = softmax_gradient(logits, codes)
    assert torch.equal(whole.labels(y, torch.arange(ROWS)), codes)
    assert torch.equal(whole.cut_gradient(gradient, y=y), parts[1].cut_gradient(gradient, y=y))
    assert torch.equal(whole.decode(logits), parts[0].decode(logits))
    assert whole.logged() == parts[0].logged()


def test_its_defaults_are_twelve_bins_and_those_of_its_parts():
    assert DcaeParams().bins == 12
    assert DcaeParams().model_dump() == {**DiscreteSgd.Params().model_dump(), **Cae.Params().model_dump()}


@pytest.mark.parametrize("bins", [6, 12, 24])
def test_what_a_rounded_code_still_gives_away(bins):
    y, logits = first_step()
    defense = made(bins=bins)
    defense.setup(y, torch.arange(ROWS))
    sent = defense.cut_gradient(softmax_gradient(logits, defense.labels(y, torch.arange(ROWS))), y=y)
    width = 2 * 0.03 / bins
    torch.testing.assert_close(sent, (sent / width).round() * width)
    assert not (sent.argmin(-1) == y).any()
    # Rounding keeps the order, so the true class stays among the largest entries, alone or not.
    assert torch.equal(sent.gather(-1, y.unsqueeze(-1)).squeeze(-1), sent.amax(-1))


def test_notes_and_needs_of_both_parts_are_its_own():
    raw_first = DcaeParams(**QUICK, mode="first_epoch")
    notes = Dcae(raw_first, num_classes=CLASSES, embedding_dims=[CLASSES], mode="nosplit").notes()
    assert ["largest entry" in n for n in notes] == [True, False]
    assert "first epoch" in notes[1]
    assert Dcae.capabilities.head == "classes"
    assert Dcae.capabilities.random == ("labels",)
    assert Dcae.capabilities.protects == ("labels", "gradients")
