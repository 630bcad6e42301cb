"""LADistill: its anchor is the teacher's first choice, and it stands beside KDk."""

import pytest
import torch

from tune_vfl.defenses.kdk import Kdk, KdkParams
from tune_vfl.defenses.ladistill import Ladistill, LadistillParams


def problem(rows=300, classes=4, noise=2.0, seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(rows) % classes
    return torch.randn(classes, 6, generator=g)[y] + noise * torch.randn(rows, 6, generator=g), y


def labels_of(cls, params):
    x, y = problem()
    defense = cls(params, num_classes=4, embedding_dims=[4])
    defense.setup(y, torch.arange(300), active_features=x, seed=0)
    return defense, defense.labels(y, torch.arange(300)), y


def test_its_labels_are_as_right_as_its_teacher():
    defense, labels, y = labels_of(Ladistill, LadistillParams(epsilon=0.3))
    right = (labels.argmax(-1) == y).double().mean().item()
    assert right == pytest.approx(defense.logged()["teacher_accuracy"][0])
    assert 0.3 < right < 1  # the rows overlap: the teacher is better than a guess, and wrong now and then
    assert ((labels > 0).sum(-1) == 3).all()


def test_with_the_same_anchor_and_teacher_it_is_kdk():
    given = {"k": 3, "epsilon": 0.45, "teacher_hidden": (16,), "anchor": "true_label", "teacher_epochs": 3}
    _, ours, _ = labels_of(Ladistill, LadistillParams(**given))
    _, theirs, _ = labels_of(Kdk, KdkParams(**given))
    assert torch.equal(ours, theirs)
    _, by_teacher, _ = labels_of(Ladistill, LadistillParams(**{**given, "anchor": "teacher_argmax"}))
    assert not torch.equal(by_teacher, theirs)


def test_its_teacher_is_lighter_than_kdks():
    assert [2 * width for width in LadistillParams().teacher_hidden] == list(KdkParams().teacher_hidden) == [64, 64]
    assert (LadistillParams().anchor, KdkParams().anchor) == ("teacher_argmax", "true_label")


def test_problems_carry_its_name():
    assert Ladistill.problems(LadistillParams(k=5), num_classes=2, mode="split")[0].startswith("ladistill: k")
    assert "teacher_view: full" in Ladistill.problems(LadistillParams(), num_classes=10, mode="label_only")[0]
    assert Ladistill.completed({}, num_classes=2) == {"k": 2}
