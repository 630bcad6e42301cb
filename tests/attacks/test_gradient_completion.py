"""Gradient completion: what it reads and when, how its heads are compared, and that the comparison is its own."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from torch import nn
from torch.nn.functional import one_hot

from tune_vfl import evaluate
from tune_vfl.attacks.base import ATTACKS
from tune_vfl.attacks.gradient_completion import MOMENTS
from tune_vfl.attacks.parts.blocks import WIDEST, Block, log_norms, rows_of
from tune_vfl.attacks.parts.folds import FOLDS, REPEATS, SHARPER, Labeled, root_of
from tune_vfl.attacks.parts.heads import STRENGTHS, LinearHead, NearestHead, fit_alike
from tune_vfl.attacks.parts.kmeans import unit
from tune_vfl.errors import SpecError
from tune_vfl.evaluation import measure_references
from tune_vfl.evaluation.grants.gradients import ReceivedGradients
from tune_vfl.evaluation.resolving import open_task, resolve
from tune_vfl.evaluation.training import untrained
from tune_vfl.metrics.leakage import top1
from tune_vfl.protocol.members import Pack
from tune_vfl.protocol.view import Auxiliary, Features, Recording, View
from tune_vfl.seeds import Stream, Streams
from tune_vfl.spec import parse

COMPLETION = ATTACKS["gradient_completion"]
ROWS, CLASSES, WIDTH, PER_CLASS = 600, 3, 5, 10


def noise(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def world(seed, planted=()):
    """Labels, and a view of gradients, features and embeddings: noise, but at the moments where labels are planted."""
    y = torch.arange(ROWS) % CLASSES
    y = y[torch.randperm(ROWS, generator=torch.Generator().manual_seed(seed))]
    seen = {}
    for i, moment in enumerate(MOMENTS.values()):
        ids = torch.randperm(ROWS, generator=torch.Generator().manual_seed(100 * seed + i))
        rows = noise(seed * 10 + i, ROWS, WIDTH)
        if moment in planted:
            rows = rows * 0.3 + 2 * one_hot(y, WIDTH)
        sizes = torch.tensor([256.0] * 512 + [88.0] * 88).unsqueeze(-1)
        seen[moment] = Recording(ids, rows[ids] / sizes, ((0, 256), (256, 512), (512, 600)))
    known = torch.cat([(y == c).nonzero().flatten()[:PER_CLASS] for c in range(CLASSES)])
    held = {
        "gradients": seen,
        "features": Features(noise(seed + 50, ROWS, 4), noise(seed + 60, 10, 4)),
        "bottom": nn.Identity,
        "auxiliary": Auxiliary(known, y[known]),
    }
    return y, View("gradient_completion", (), CLASSES, Streams(seed), held)


def success(answer, y):
    kept = answer.counted
    return top1(answer.scores[kept].numpy(), y[answer.ids][kept].numpy())


def labeled_rows(y, seed=0):
    return Labeled.draw(Auxiliary(torch.arange(len(y)), y), Stream(seed, "folds"), int(y.max()) + 1)


@pytest.mark.parametrize("moment", MOMENTS.values())
def test_a_signal_in_one_moment_alone_is_found_and_chosen(moment):
    for seed in range(3):
        y, view = world(seed, [moment])
        answers = COMPLETION().run(view)
        assert success(answers["gradient_completion"], y) > 0.95
        name = next(n for n, m in MOMENTS.items() if m == moment)
        assert success(answers[f"gradient@{name}"], y) > 0.95
        assert all(success(answers[f"gradient@{n}"], y) < 0.5 for n in MOMENTS if n != name)


def test_on_noise_it_stays_at_the_guess():
    found = [success(COMPLETION().run(view)["gradient_completion"], y) for y, view in map(world, range(12))]
    error = np.std(found, ddof=1) / len(found) ** 0.5
    assert abs(np.mean(found) - 1 / CLASSES) < 3 * error + 0.005


def test_the_choice_uses_labels_of_auxiliary_rows_alone_and_those():
    y, view = world(1, ["epoch0"])
    one = COMPLETION().run(view)
    assert set(view.held) == COMPLETION.capabilities.sees  # which hold no other label
    shuffled = view.auxiliary.labels.roll(PER_CLASS // 2 + 3)
    other = COMPLETION().run(view.holding(auxiliary=Auxiliary(view.auxiliary.ids, shuffled)))
    assert success(one["gradient_completion"], y) > 0.95
    assert success(other["gradient_completion"], y) < 0.6


def test_known_rows_do_not_count_and_every_other_row_does():
    _, view = world(2)
    answer = COMPLETION().run(view)["gradient_completion"]
    assert set(answer.ids[~answer.counted].tolist()) == set(view.auxiliary.ids.tolist())
    assert answer.ids.tolist() == list(range(ROWS))


def test_labels_for_every_row_are_refused():
    y, view = world(0)
    with pytest.raises(SpecError, match="aux_per_class"):
        COMPLETION().run(view.holding(auxiliary=Auxiliary(torch.arange(ROWS), y)))


def test_gradients_come_in_the_order_of_the_split_and_by_row():
    rows = noise(0, 10, 2)
    ids = torch.tensor([3, 1, 4, 0, 5, 9, 2, 6, 8, 7])
    sizes = torch.tensor([6.0] * 6 + [4.0] * 4).unsqueeze(-1)
    torch.testing.assert_close(rows_of(Recording(ids, rows[ids] / sizes, ((0, 6), (6, 10)))), rows)


def test_logs_of_lengths_bear_rows_of_any_length():
    assert log_norms(torch.zeros(4, 2)).tolist() == [[0.0]] * 4
    found = log_norms(torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, 5.0]]))
    assert torch.isfinite(found).all()
    assert float(found[0] - found[2]) == 0
    assert found.argmin() == 1


def test_every_block_counts_alike_and_a_column_that_does_not_vary_not_at_all():
    spread = []
    for width in (1, 4, 200):
        rows = noise(width, 500, width) * torch.linspace(1e-6, 1e3, width)
        at = Block(rows, widest=WIDEST).at(torch.arange(500))
        assert at.shape[-1] == min(width, WIDEST)
        spread.append(float(Block(rows).at(torch.arange(500)).var(0).sum()))
    assert spread == pytest.approx([spread[0]] * 3, rel=1e-3)
    still = torch.cat([noise(0, 50, 1), torch.full((50, 1), 0.1) + torch.tensor([[0.0], [1e-9]]).repeat(25, 1)], -1)
    assert Block(still).at(torch.arange(50))[:, 1].abs().max() == 0


@pytest.mark.parametrize("widest", [None, 3])
def test_coefficients_of_a_block_say_the_same_of_rows_as_they_lie(widest):
    block = Block(noise(1, 40, 6) * 7 + 2, widest=widest)
    weights = noise(2, widest or 6, 3)
    torch.testing.assert_close(block.logits(weights), block.at(torch.arange(40)) @ weights, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("rows", "classes"), [(20, 2), (23, 2), (30, 3), (4, 2)])
def test_folds_hold_every_row_out_once_a_repeat_in_even_shares(rows, classes):
    drawn = labeled_rows(torch.arange(rows) % classes)
    held = drawn.held_out.unflatten(0, (REPEATS, -1))
    assert held.shape[1] == min(FOLDS, rows)
    assert (held.sum(1) == 1).all()
    assert held.sum(-1).max() - held.sum(-1).min() <= 1
    for repeat, apart in zip(held, drawn.apart, strict=True):
        where = repeat.argmax(0)
        assert torch.equal(apart, where[:, None] != where[None, :])


@pytest.mark.parametrize("classes", [2, 3])
def test_the_closed_form_of_folds_is_what_least_squares_without_each_say(classes):
    y = torch.arange(23) % classes
    drawn, columns = labeled_rows(y), noise(4, 23, 6) + one_hot(y, 6)
    for penalty in (0.5, 20.0):
        said = torch.zeros(23, classes, dtype=torch.float64)
        for mask in drawn.held_out[:FOLDS].bool():
            fit = Ridge(alpha=penalty).fit(columns[~mask].double(), one_hot(y[~mask], classes).double())
            said[mask] = torch.from_numpy(fit.predict(columns[mask].double())) * classes
        losses = [nn.functional.cross_entropy(said * s, y) for s in SHARPER]
        found = drawn.ridge_loss(columns.unsqueeze(0), torch.tensor([penalty]))
        assert float(found) == pytest.approx(float(min(losses)), rel=1e-3)


def test_a_linear_head_on_fewer_columns_than_rows_and_on_more_is_a_logistic_regression():
    y = torch.arange(24) % 3
    for width in (5, 60):
        block = Block(noise(width, 200, width) + 2 * one_hot(torch.arange(200) % 3, width))
        head = LinearHead("one", [block], labeled_rows(y))
        fit_alike([head], labeled_rows(y))
        x = block.at(torch.arange(200)).double().numpy()
        # Which strength was chosen is not told: one of them it must be.
        away = []
        for strength in STRENGTHS:
            twin = LogisticRegression(C=strength, tol=1e-8, max_iter=5000).fit(x[:24], y.numpy())
            away.append(np.abs(twin.predict_proba(x) - head.scores().numpy()).max())
        assert min(away) < 0.05


def test_nearest_directions_vote():
    y = torch.arange(30) % 3
    rows = unit(noise(8, 100, 4))
    twin = KNeighborsClassifier(5, metric="cosine").fit(rows[:30].numpy(), y.numpy())
    head = NearestHead("nearest", rows, labeled_rows(y))
    torch.testing.assert_close(
        (head.scores() * 6 - 1 / 3) / 5, torch.from_numpy(twin.predict_proba(rows.numpy())).float(), atol=1e-5, rtol=0
    )


def test_what_is_shown_beside_it_is_no_answer_and_it_is_no_upper_bound():
    answer = evaluate("digits", attacks=["gradient_completion"], seeds=2, settings=["training.epochs=8"])
    found = answer["attacks"]["gradient_completion"]
    assert found["variant"] == "gradient_completion"
    assert found["mean"] == found["variants"]["gradient_completion"]["mean"]
    assert len(found["variants"]) == 24
    assert not found["upper_bound"]
    assert found["mean"] > 0.9 > 0.8 > found["r_lower"] > found["guess"]


def spec(**changes):
    raw = {"study": "s", "dataset": "digits", "defense": "none", "budget": {"trials": 1, "seeds": 2}}
    return parse({**raw, "attacks": ["gradient_completion"], **changes})


def test_noise_stands_in_for_gradients_of_a_training_that_never_was():
    task = open_task(spec())
    (attack,), rows = task.attacks, 1258
    kept = untrained(task, Pack((0, 1), 1), [attack]).kept(ReceivedGradients)
    seen = kept.recordings()
    assert set(seen) == set(attack.moments())
    for recording in seen.values():
        sizes = [stop - start for start, stop in recording.batches]
        assert (sum(sizes), max(sizes)) == (rows, task.cell.training.batch_size)
        by_row = rows_of(recording)
        assert by_row.shape == (2, rows, task.architecture.options.embedding_dim)
        assert float(by_row.mean()) == pytest.approx(0, abs=0.03)
        assert float(by_row.std()) == pytest.approx(1, abs=0.03)
    one, other = seen["epoch0"].gradients[0], seen["last"].gradients[0]
    assert float(torch.corrcoef(torch.stack([one.flatten(), other.flatten()]))[0, 1]) == pytest.approx(0, abs=0.05)
    alone = untrained(task, Pack((1,), None), [attack]).kept(ReceivedGradients).recordings()
    torch.testing.assert_close(alone["last"].gradients, seen["last"].gradients[1])
    torch.testing.assert_close(kept.member(1).recordings()["last"].gradients, alone["last"].gradients)


def test_its_floor_does_not_hang_on_the_training():
    floors = [measure_references(resolve(spec(training=t))).r_lower for t in ({}, {"batch_size": 500, "epochs": 2})]
    assert floors[0]["gradient_completion"] == pytest.approx(floors[1]["gradient_completion"], abs=0.005)


def test_a_root_is_found_where_rounding_makes_an_eigenvalue_negative():
    stream = torch.Generator().manual_seed(0)
    columns = torch.randn(2, 30, 4, generator=stream) @ torch.randn(4, 60, generator=stream)
    singular = columns[1].T @ columns[1] - 1e-4 * torch.eye(60)
    regular = columns[0].T @ columns[0] + torch.eye(60)
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.cholesky(singular)
    both = root_of(torch.stack([regular, singular]))
    assert both[0].equal(torch.linalg.cholesky(regular)), "one that has a root is not touched by its neighbor"
    assert both[1] @ both[1].T == pytest.approx(singular, abs=3e-6 * float(singular.trace()))
    with pytest.raises(torch.linalg.LinAlgError):
        root_of(-torch.eye(3))


def test_a_head_on_columns_of_few_values_is_fitted():
    levels = torch.tensor([-90.0, 0.1, 90.0])[torch.arange(200) % 3]
    block = Block(levels.unsqueeze(-1) * torch.linspace(0.5, 1.5, 60) + 1e-3 * noise(9, 200, 60).round())
    y = torch.arange(24) % 3
    head = LinearHead("one", [block], labeled_rows(y))
    fit_alike([head], labeled_rows(y))
    assert head.scores().argmax(-1).equal(torch.arange(200) % 3)
