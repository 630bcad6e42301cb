"""KDk: the shape of its soft labels, and its teachers."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.teachers import train_by_hand
from tune_vfl.defenses.kdk import Kdk, KdkParams
from tune_vfl.defenses.parts import teachers
from tune_vfl.defenses.parts.teacher_labels import class_ranks, soft_labels
from tune_vfl.defenses.parts.teachers import (
    Teacher,
    TeacherMemory,
    TeacherRecipe,
    find_teachers,
    recipe_of,
    train_teacher,
)
from tune_vfl.errors import UsageError
from tune_vfl.models.layers import stack_of
from tune_vfl.seeds import Stream


def naive_row(q, y, k, epsilon, anchor):
    """One row by the book: the k likeliest; the true class replaces the least likely one where it is missing."""
    members = sorted(range(len(q)), key=lambda c: (-q[c], c))[:k]
    top = members[0]
    if anchor == "true_label":
        if y not in members:
            members[-1] = y
        top = y
    return [1 - epsilon if c == top else epsilon / (k - 1) if c in members else 0.0 for c in range(len(q))]


@given(
    classes=st.integers(2, 10),
    share=st.floats(0, 1),
    epsilon=st.floats(0.01, 0.99),
    anchor=st.sampled_from(["true_label", "teacher_argmax"]),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=60, deadline=None)
def test_soft_labels_are_the_naive_rows(classes, share, epsilon, anchor, seed):
    k = 2 + round(share * (classes - 2))
    g = torch.Generator().manual_seed(seed)
    q, y = torch.rand(6, classes, generator=g).softmax(-1), torch.randint(0, classes, (6,), generator=g)
    rows = soft_labels(class_ranks(q, y if anchor == "true_label" else None), k, epsilon)
    naive = [naive_row(p, c, k, epsilon, anchor) for p, c in zip(q.tolist(), y.tolist(), strict=True)]
    torch.testing.assert_close(rows, torch.tensor(naive), rtol=0, atol=1e-6)
    torch.testing.assert_close(rows.sum(-1), torch.ones(6))
    assert ((rows > 0).sum(-1) == k).all()
    if anchor == "true_label" and abs(epsilon - (k - 1) / k) > 1e-6:
        assert ((rows.argmax(-1) == y).all()) == (epsilon < (k - 1) / k)


def test_ranks_of_many_tables_are_those_of_each():
    g = torch.Generator().manual_seed(0)
    q, first = torch.rand(3, 6, 4, generator=g).softmax(-1), torch.randint(0, 4, (3, 6), generator=g)
    assert torch.equal(class_ranks(q), torch.stack([class_ranks(table) for table in q]))
    whole = class_ranks(q, first)
    assert torch.equal(whole, torch.stack([class_ranks(*pair) for pair in zip(q, first, strict=True)]))
    assert (whole.gather(-1, first.unsqueeze(-1)) == 0).all()


def problem(rows=300, classes=4, noise=0.4, seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(rows) % classes
    centers = torch.randn(classes, 6, generator=g)
    return centers[y] + noise * torch.randn(rows, 6, generator=g), y


def test_setup_trains_a_teacher_and_reports_its_accuracy():
    x, y = problem()
    defense = Kdk(KdkParams(teacher_lr=1e-2), num_classes=4, embedding_dims=[4])
    defense.setup(y, torch.arange(300), active_features=x, seed=0)
    assert 0.9 < defense.logged()["teacher_accuracy"][0] <= 1
    blind = Kdk(KdkParams(teacher_lr=1e-6, teacher_epochs=1), num_classes=4, embedding_dims=[4])
    blind.setup(y, torch.arange(300), active_features=torch.zeros_like(x), seed=0)
    assert blind.logged()["teacher_accuracy"][0] == pytest.approx(0.25)


def test_a_teacher_is_a_plain_network_whose_rate_falls_after_a_half_and_after_four_fifths():
    (x, y), recipe = problem(rows=50), TeacherRecipe((8,), 1e-2, 10, 16)
    twin = torch.nn.Sequential(*stack_of([6, 8, 4], torch.nn.ReLU, stream=Stream(3, "teacher/weights")))
    train_by_hand(twin, x, y, seed=3, rates=[1e-2] * 5 + [1e-3] * 3 + [1e-4] * 2)
    found = train_teacher(x, y, 3, recipe, 4)
    with torch.no_grad():
        believed = twin(x).softmax(-1)
        torch.testing.assert_close(found.probabilities, believed, rtol=0, atol=1e-5)
        other = train_teacher(x, y, 3, recipe, 4, asked=x[:5] + 1)
        torch.testing.assert_close(other.probabilities, twin(x[:5] + 1).softmax(-1), rtol=0, atol=1e-5)
    assert found.accuracy == other.accuracy == pytest.approx((believed.argmax(-1) == y).double().mean().item())


def test_the_teacher_is_trained_for_the_published_epochs_unless_somebody_says_otherwise():
    assert recipe_of(KdkParams()) == TeacherRecipe(hidden=(64, 64), lr=1e-3, epochs=20, batch_size=128)
    given = KdkParams(teacher_hidden=(5,), teacher_lr=0.1, teacher_epochs=3, teacher_batch_size=7)
    assert recipe_of(given) == TeacherRecipe(hidden=(5,), lr=0.1, epochs=3, batch_size=7)


def test_members_share_teachers_by_content(monkeypatch):
    trained = []

    def counted(x, y, seed, recipe, *rest, **asked):
        trained.append((seed, recipe))
        return train_teacher(x, y, seed, recipe, *rest, **asked)

    monkeypatch.setattr(teachers, "train_teacher", counted)
    monkeypatch.setattr(teachers, "MEMORY", TeacherMemory())
    x, y = problem(rows=40)
    short, shorter = TeacherRecipe((8,), 1e-3, 2, 16), TeacherRecipe((8,), 1e-3, 1, 16)
    args = x.expand(4, 40, 6), y.expand(4, 40), [0, 1, 0, 0], [short, short, short, shorter]
    found, own = find_teachers(*args, 4)
    assert own == [0, 1, 0, 2]
    assert trained == [(0, short), (1, short), (0, shorter)]
    again, _ = find_teachers(*args, 4)
    assert len(trained) == 3
    assert all(torch.equal(a.probabilities, b.probabilities) for a, b in zip(found, again, strict=True))
    find_teachers(x.expand(1, 40, 6) + 1, y.expand(1, 40), [0], [short], 4)
    assert len(trained) == 4  # other features, another teacher
    asked = torch.cat([x, x + 1])
    [other], _ = find_teachers(x.expand(1, 40, 6), y.expand(1, 40), [0], [short], 4, asked=asked.expand(1, 80, 6))
    assert len(trained) == 5  # the same training, asked about other rows
    torch.testing.assert_close(other.probabilities[:40], found[0].probabilities)
    assert other.accuracy == found[0].accuracy


def test_the_memory_forgets_what_was_not_used_for_longest():
    def teacher():
        return Teacher(torch.zeros(10, 10), 0.5)  # 400 bytes

    memory = TeacherMemory(limit=1000)
    memory.put("a", teacher())
    memory.put("b", teacher())
    assert memory.get("a") is not None
    memory.put("c", teacher())
    assert memory.get("b") is None
    assert memory.get("a") is not None
    assert len(memory) == 2


def test_images_are_flattened():
    x, y = problem(rows=40)
    recipe = TeacherRecipe((8,), 1e-3, 1, 16)
    flat, _ = find_teachers(x.unsqueeze(0), y.unsqueeze(0), [0], [recipe], 4)
    image, _ = find_teachers(x.view(1, 40, 1, 2, 3), y.unsqueeze(0), [0], [recipe], 4)
    assert torch.equal(flat[0].probabilities, image[0].probabilities)


def test_problems_name_the_parameter_and_the_way_out():
    assert not Kdk.problems(KdkParams(), num_classes=3, mode="split")
    assert "lower k" in Kdk.problems(KdkParams(k=3), num_classes=2, mode="split")[0]
    assert "teacher_view: full" in Kdk.problems(KdkParams(), num_classes=10, mode="label_only")[0]
    assert not Kdk.problems(KdkParams(teacher_view="full"), num_classes=10, mode="label_only")
    assert len(Kdk.problems(KdkParams(k=3), num_classes=2, mode="label_only")) == 2


def test_the_default_k_follows_the_number_of_classes() -> None:
    assert Kdk.completed({}, num_classes=2) == {"k": 2}
    assert Kdk.completed({"epsilon": 0.3}, num_classes=10) == {"k": 3, "epsilon": 0.3}
    assert Kdk.completed({"k": 5}, num_classes=2) == {"k": 5}
    assert Kdk.problems(KdkParams(k=3), num_classes=2, mode="split")


def test_notes_warn_where_the_anchor_is_the_least_likely_and_tell_what_the_teacher_saw():
    members = [KdkParams(k=5, epsilon=0.85, teacher_view="full"), KdkParams(k=5, epsilon=0.75, teacher_view="full")]
    defense = Kdk(members, num_classes=10, embedding_dims=[4])
    assert defense.wants_full_view
    low, view = defense.notes()
    assert "epsilon=0.85" in low
    assert "all parties" in view
    assert not Kdk(KdkParams(), num_classes=10, embedding_dims=[4]).notes()


def test_without_features_there_is_no_teacher():
    with pytest.raises(UsageError, match="active_features"):
        Kdk(KdkParams(k=2), num_classes=2, embedding_dims=[4]).setup(torch.tensor([0, 1]), torch.tensor([0, 1]))
