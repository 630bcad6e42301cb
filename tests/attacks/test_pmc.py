"""Model completion: each part against a plain twin, the labeled rows, edges, and members that diverged."""

import math
from dataclasses import replace

import pytest
import torch
from scipy.special import betaincinv
from sklearn.linear_model import LogisticRegression
from torch import nn

from tune_vfl.attacks.base import ATTACKS
from tune_vfl.attacks.parts.conditioned import Conditioned
from tune_vfl.attacks.parts.coordinates import GROUP_WEIGHT, RowCoordinates
from tune_vfl.attacks.parts.inference_head import InferenceHead, MemberNorm
from tune_vfl.attacks.parts.logistic import choose_and_fit, fit_logistic, logits_of
from tune_vfl.attacks.parts.mixed_rows import Cycle, Fit, Pool, mixed_rows
from tune_vfl.attacks.parts.mixmatch import interleave, mixmatch, sharpen, soft_cross_entropy, supervised
from tune_vfl.attacks.parts.mixmatch_head import mixmatch_of_head
from tune_vfl.errors import SpecError
from tune_vfl.protocol.folds import folds_of
from tune_vfl.protocol.members import gather_rows
from tune_vfl.protocol.view import Auxiliary, Features
from tune_vfl.seeds import Stream, Streams
from tune_vfl.testing.views import make_world

PMC = ATTACKS["pmc"]


def run(world, **params):
    attack = PMC(PMC.Params(**params))
    return attack.run(world.view(attack))


def right(answer, world):
    said = answer.scores.argmax(-1) == world.y_train
    return (said & answer.counted).sum() / answer.counted.sum()


def test_take_equals_a_loop_over_members():
    rows, at = torch.randn(3, 9, 2, 4), torch.randint(0, 9, (3, 5))
    expected = torch.stack([rows[t][at[t]] for t in range(3)])
    assert torch.equal(gather_rows(rows, at), expected)
    assert torch.equal(gather_rows(rows[0], at[0]), expected[0])


@pytest.mark.parametrize("training", [True, False])
def test_member_norm_equals_torch_one_member_at_a_time(training):
    mine, plain = MemberNorm(4, (3,)), [nn.BatchNorm1d(4) for _ in range(3)]
    for _ in range(3):
        x = torch.randn(3, 16, 4) * 3 + 1
        expected = torch.stack([bn(part) for bn, part in zip(plain, x, strict=True)])
        torch.testing.assert_close(mine(x), expected)
    mine.train(training)
    for bn in plain:
        bn.train(training)
    torch.testing.assert_close(mine(x), torch.stack([bn(part) for bn, part in zip(plain, x, strict=True)]))


def test_the_head_starts_without_a_preference_and_normalizes_first():
    head = InferenceHead(4, 3, layers=2, stream=Stream(0, "head"), lead=())
    assert [type(m).__name__ for m in head] == ["MemberNorm", "ReLU", "Linear", "MemberNorm", "ReLU", "ClassScores"]
    assert (head[2].weight == 1).all()
    assert (head[5].weight == 1).all()
    logits = head(torch.randn(8, 4))
    assert torch.allclose(logits - head[5].bias, (logits - head[5].bias)[:, :1])


@pytest.mark.parametrize("lead", [(), (5,)])
def test_equal_weights_let_no_rounding_through_of_which_adam_would_make_whole_steps(lead):
    head = InferenceHead(7, 3, layers=1, stream=Stream(0 if lead == () else [0, 1, 2, 3, 4], "head"), lead=lead)
    loss = soft_cross_entropy(head(torch.randn(*lead, 16, 7)), torch.rand(*lead, 16, 3).softmax(-1))
    loss.sum().backward()
    norm, _, last = head
    assert not norm.weight.grad.any()
    assert not norm.bias.grad.any()
    assert last.weight.grad.any()


def test_interleave_swaps_second_halves_and_undoes_itself():
    first, second = torch.arange(5), torch.arange(10, 15)
    one, two = interleave(first, second, 0)
    assert one.tolist() == [0, 1, 12, 13, 14]
    assert two.tolist() == [10, 11, 2, 3, 4]
    back = interleave(one, two, 0)
    assert torch.equal(back[0], first)
    assert torch.equal(back[1], second)


def test_sharpening_keeps_order_and_moves_towards_certainty():
    p = torch.tensor([[0.5, 0.3, 0.2]])
    sharp = sharpen(p, 0.8)
    assert sharp.sum().item() == pytest.approx(1)
    assert sharp[0, 0] > 0.5
    assert sharp.argsort().tolist() == p.argsort().tolist()
    torch.testing.assert_close(sharpen(p, 1.0), p)


def test_cycles_see_every_row_once_and_drop_the_last_batch():
    cycle = Cycle(10, 3, Stream([0, 1], "order"))
    passes = [torch.cat([cycle.next() for _ in range(3)], -1) for _ in range(2)]
    for seen in passes:
        assert all(len(set(member.tolist())) == 9 for member in seen)
    assert not torch.equal(passes[0], passes[1])


def plain_mixmatch(x, at, y, rest, fit, streams, classes):
    """The step recipe in its plainest form, one member, torch's own layers."""
    model = nn.Sequential(nn.BatchNorm1d(x.shape[1]), nn.ReLU(), nn.Linear(x.shape[1], classes))
    nn.init.ones_(model[2].weight)
    start = InferenceHead(x.shape[1], classes, layers=1, stream=streams["head"], lead=())
    model[2].bias.data = start[2].bias.data.clone()
    model.double()
    average = {k: v.clone() for k, v in model.state_dict().items() if v.is_floating_point()}
    adam = torch.optim.Adam(model.parameters(), lr=fit.lr)
    labeled = Cycle(len(at), fit.batch_size, streams["labelled"])
    unlabeled = Cycle(len(rest), fit.batch_size, streams["unlabelled"])
    shares, orders = streams["mix"].uniform(256), streams["pairs"].uniform(256, 2 * fit.batch_size).argsort(-1)
    b, half = fit.batch_size, fit.batch_size // 2
    for step in range(fit.steps):
        i, j = labeled.next(), unlabeled.next()
        with torch.no_grad():
            q = model(x[rest[j]]).softmax(-1) ** (1 / fit.temperature)
            q = q / q.sum(-1, keepdim=True)
        inputs = torch.cat([x[at[i]], x[rest[j]]])
        targets = torch.cat([torch.eye(classes).double()[y[i]], q])
        lam = float(betaincinv(fit.alpha, fit.alpha, shares[step].double()))
        lam = float(torch.tensor(max(lam, 1 - lam), dtype=torch.float32))
        inputs = lam * inputs + (1 - lam) * inputs[orders[step]]
        targets = lam * targets + (1 - lam) * targets[orders[step]]
        one = model(torch.cat([inputs[:half], inputs[b + half :]]))
        two = model(torch.cat([inputs[b : b + half], inputs[half:b]]))
        seen, unseen = torch.cat([one[:half], two[half:]]), torch.cat([two[:half], one[half:]])
        supervised_part = -(targets[:b] * seen.log_softmax(-1)).sum(-1).mean()
        squared = ((unseen.softmax(-1) - targets[b:]) ** 2).mean()
        adam.zero_grad()
        (supervised_part + 50 * step / fit.steps * squared).backward()
        adam.step()
        for k, kept in average.items():
            kept.mul_(fit.ema_decay).add_(model.state_dict()[k], alpha=1 - fit.ema_decay)
        for p in model.parameters():
            p.data.mul_(1 - 0.02 * fit.lr)
    model.load_state_dict(average, strict=False)
    return model.eval()


@pytest.mark.parametrize("written_out", [True, False])
def test_mixmatch_equals_its_plain_twin_member_by_member(written_out):
    """In double precision: weights of one make the twin's first gradients zero but for rounding, which Adam would blow
    up to whole steps in single precision.
    """
    fit, classes, seeds = Fit(steps=25, lr=2e-3, batch_size=6, ema_decay=0.9), 3, [4, 5]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 40, 5, generator=generator).double()
    at = torch.stack([torch.randperm(40, generator=generator)[:9] for _ in seeds])
    rest = torch.stack([torch.tensor([r for r in range(40) if r not in a.tolist()]) for a in at])
    y = torch.arange(9).remainder(3).expand(2, 9)
    streams = Streams(seeds)
    head = InferenceHead(5, classes, layers=1, stream=streams["head"], lead=(2,)).double()
    targets = torch.eye(classes).double()[y]
    train = mixmatch_of_head if written_out else mixmatch
    train(head, Pool(x, at, targets, rest), fit, streams=lambda name: streams[name])
    for t, seed in enumerate(seeds):
        plain = plain_mixmatch(x[t], at[t], y[t], rest[t], fit, Streams(seed), classes)
        torch.testing.assert_close(head(x)[t].softmax(-1), plain(x[t]).softmax(-1), atol=1e-6, rtol=1e-6)


def test_supervised_training_fits_the_labeled_rows():
    streams = Streams([0, 1])
    x = torch.randn(2, 12, 6, generator=torch.Generator().manual_seed(0))
    y = torch.arange(12).remainder(3).expand(2, 12)
    head = InferenceHead(6, 3, layers=1, stream=streams["head"], lead=(2,))
    fit = Fit(steps=300, lr=2e-2, batch_size=12)
    supervised(head, x, torch.eye(3)[y], fit, streams=lambda name: streams[name])
    assert (head(x).argmax(-1) == y).float().mean() > 0.9


def test_folds_share_rows_and_classes_evenly():
    y = torch.tensor([[0] * 10 + [1] * 5, [1] * 10 + [0] * 5])
    folds = folds_of(y, torch.rand(2, 15), 5)
    for member, labels in zip(folds, y, strict=True):
        for c in (0, 1):
            counts = member[labels == c].bincount(minlength=5)
            assert (counts == (labels == c).sum() // 5).all()


@pytest.mark.parametrize(("rows", "classes"), [(60, 2), (60, 4), (12, 3)])
def test_logistic_regression_equals_scikit_learn(rows, classes):
    generator = torch.Generator().manual_seed(rows + classes)
    y = torch.arange(rows).remainder(classes)
    x = torch.randn(rows, 6, generator=generator) + torch.eye(6)[y]
    x = (x - x.mean(0)) / x.std(0)
    weights = torch.ones(2, rows)
    weights[1, ::3] = 0
    strengths = (0.01, 0.1, 1.0)
    fitted = fit_logistic(x, y, weights, torch.tensor(strengths), num_classes=classes)
    for s, c in enumerate(strengths):
        for f, weight in enumerate(weights):
            # Two classes share one vector w = w1 - w0 there, whose penalty is twice that of w1 and w0 together.
            theirs = LogisticRegression(C=c if classes > 2 else 2 * c, max_iter=1000, tol=1e-8)
            theirs.fit(x.numpy(), y.numpy(), sample_weight=weight.numpy())
            mine = logits_of(x, fitted[s, f]).softmax(-1).numpy()
            assert mine == pytest.approx(theirs.predict_proba(x.numpy()), abs=0.005)


def test_the_smallest_of_equally_good_strengths_is_chosen():
    y = torch.tensor([0, 1] * 10)
    x = (y.float() * 2 - 1).unsqueeze(-1)
    folds = folds_of(y, torch.rand(20), 5)
    coefficients, accuracy = choose_and_fit(x, y, folds, 5, torch.tensor([0.01, 1.0]), num_classes=2)
    only_small, _ = choose_and_fit(x, y, folds, 5, torch.tensor([0.01]), num_classes=2)
    assert accuracy.item() == 1.0
    torch.testing.assert_close(coefficients, only_small)


def test_labeled_rows_are_not_counted_and_all_rows_are_answered():
    world = make_world([0, 1], num_classes=3, width=3)
    for answer in run(world, steps=2, epochs=1).values():
        assert answer.scores.shape == (2, 600, 3)
        assert answer.test.shape == (2, 200, 3)
        for t in range(2):
            assert set((~answer.counted[t]).nonzero().flatten().tolist()) == set(world.auxiliary.ids[t].tolist())


def test_every_variant_reads_labels_off_good_embeddings():
    """Classes in equal shares: with few, balanced labels MixMatch shifts its threshold where classes are not."""
    world = make_world(0, num_classes=3, width=3, aux_per_class=20)
    variants = ["logreg", "logreg_all", "head_only", "mixmatch_frozen", "mixmatch_unfrozen", "supervised"]
    for variant, answer in run(world, variants=variants).items():
        assert right(answer, world) > 0.8, variant


@pytest.mark.parametrize("wide", [False, True])
def test_row_coordinates_keep_every_inner_product_with_a_labeled_row(wide):
    """So a ridge-penalized linear model of the labeled rows is the same on them as on all the columns side by side."""
    width = 60 if wide else 5
    x, at = torch.randn(300, width) * 3 + 1, torch.randperm(300)[:40]
    bottom = nn.Sequential(nn.Linear(width, 7), nn.ReLU(), nn.Linear(7, 2)).eval()
    with torch.no_grad():
        groups = [x, bottom[:2](x), bottom(x)]
    spread = [torch.where(g.std(0) > 0, g.std(0), torch.inf) for g in groups]
    plain = [(g - g.mean(0)) / s * (GROUP_WEIGHT / g.shape[1]) ** 0.5 for g, s in zip(groups, spread, strict=True)]
    expected = torch.cat(plain, -1)
    held = RowCoordinates(bottom, x, at)(x)
    assert held.shape[-1] == (40 if wide else 5 + 7 + 2)
    torch.testing.assert_close(held @ held[at].T, expected @ expected[at].T, rtol=1e-3, atol=2e-3)
    alone = RowCoordinates(bottom, x, at)(x[:3])
    torch.testing.assert_close(alone, held[:3], rtol=1e-4, atol=1e-4)


def test_what_the_embedding_lost_is_read_off_the_features():
    world = make_world(0, num_classes=3, width=3, aux_per_class=20)
    with torch.no_grad():
        for p in world.bottom.parameters():
            p.zero_()
    answers = run(world, variants=["logreg", "logreg_all"])
    assert right(answers["logreg"], world) < 0.5
    assert right(answers["logreg_all"], world) > 0.8


def test_variants_do_not_move_each_other():
    world = make_world([0, 1], num_classes=3, width=3)
    alone = run(world, variants="mixmatch_frozen", steps=10)["mixmatch_frozen"]
    among = run(world, variants=["logreg", "head_only", "mixmatch_frozen"], steps=10)["mixmatch_frozen"]
    assert torch.equal(alone.scores, among.scores)


def test_validation_is_the_accuracy_on_held_out_labels():
    world = make_world([0, 1], num_classes=3, width=3, aux_per_class=40)
    answers = run(world, variants=["logreg", "head_only"], steps=150, validate_folds=3)
    for t in range(2):
        member = world.member(t)
        for variant, answer in answers.items():
            truth = right(answer_of(answer, t), member)
            assert answer.validation[t].item() == pytest.approx(truth.item(), abs=0.12), variant
    assert run(world, variants="head_only", steps=1)["head_only"].validation is None


def answer_of(answer, t):
    return type(answer)(answer.scores[t], answer.ids[t], counted=answer.counted[t])


def test_a_diverged_member_disturbs_no_other():
    world = make_world([0, 1], num_classes=3, width=3)
    before = run(world, steps=5)
    with torch.no_grad():
        for p in world.bottom.parameters():
            p[1] = math.nan
    after = run(world, steps=5)
    for variant, answer in after.items():
        torch.testing.assert_close(answer.scores[0], before[variant].scores[0])


def test_fewer_labels_than_classes_are_refused():
    view = make_world(0, num_classes=3, width=3).view("pmc")
    two = Auxiliary(torch.tensor([0, 1]), torch.tensor([0, 1]))
    with pytest.raises(SpecError, match="labeled"):
        PMC().run(view.holding(auxiliary=two))


def test_labels_for_all_rows_are_refused():
    world = make_world(0, num_classes=3, width=3, rows=30, aux_per_class=5)
    everything = Auxiliary(torch.arange(30), world.y_train)
    with pytest.raises(SpecError, match="all 30"):
        PMC().run(world.view("pmc").holding(auxiliary=everything))


def test_small_label_sets_shrink_the_batch_and_narrow_embeddings_work(caplog):
    world = make_world(0, num_classes=2, width=2, aux_per_class=2)
    world = type(world)(**{**vars(world), "bottom": nn.Linear(2, 1)})
    with caplog.at_level("INFO"):
        answers = run(world, steps=3)
    assert "reduced to 4" in caplog.text
    assert all(torch.isfinite(a.scores).all() for a in answers.values())


def test_it_asks_for_labels_as_its_parameters_say():
    request = PMC(PMC.Params(aux="random", aux_total=50)).auxiliary_request()
    assert (request.how, request.total, request.per_class) == ("random", 50, None)


def hidden_behind_a_column(seeds):
    """A world whose bottom passes on ``(r, +-margin)``: the sign of what gives the class away is that of r - 1/2."""
    world = make_world(seeds, num_classes=2, width=2, aux_per_class=100)

    def rows(y, seed):
        g = torch.Generator().manual_seed(seed)
        r, noise = torch.rand(y.shape, generator=g), 0.3 * torch.randn(y.shape, generator=g)
        return torch.stack([(2 * y - 1) * torch.where(r > 0.5, 1, -1) + noise, r], -1)

    features = Features(rows(world.y_train, 1), rows(world.y_test, 2), added=1)
    return replace(world, features=features, bottom=nn.Identity())


def test_conditioning_on_an_added_column_sees_what_embeddings_alone_hide():
    world = hidden_behind_a_column([0, 1])
    answers = run(world, variants=["logreg", "conditioned"])
    for t in range(2):
        member = world.member(t)
        assert right(answer_of(answers["logreg"], t), member) < 0.7
        assert right(answer_of(answers["conditioned"], t), member) > 0.9
        alone = run(member, variants=["conditioned"])["conditioned"]
        torch.testing.assert_close(alone.scores, answers["conditioned"].scores[t], atol=2e-3, rtol=0)
        assert answers["conditioned"].validation[t] > 0.85


def test_without_added_columns_nothing_is_conditioned_on():
    world = make_world(0, num_classes=3, width=3)
    assert "conditioned" not in run(world, steps=2, epochs=1)
    [(name, answer)] = run(world, variants=["conditioned"]).items()
    assert name == "logreg_all"
    assert torch.equal(answer.scores, run(world, variants=["logreg_all"])["logreg_all"].scores)


@pytest.mark.parametrize("added", [1, 2])
def test_what_added_columns_explain_is_taken_off_embeddings(added):
    g = torch.Generator().manual_seed(0)
    x, other = torch.rand(2, 4000, 3, generator=g), torch.randn(2, 4000, 2, generator=g)
    bent = torch.stack([(x[..., -1] - 0.5).abs() * 9, x[..., -1] ** 2], -1) + (x[..., -2:-1] if added == 2 else 0)
    held = Conditioned(x, bent + other, added)(x, bent + other)
    assert held.shape == (2, 4000, 3 + 2 + 2 * added)
    for member, truth in zip(held, other, strict=True):
        rest = member[:, 3:5]
        for k in range(2):
            assert torch.corrcoef(torch.stack([rest[:, k], truth[:, k]]))[0, 1] > 0.99
        torch.testing.assert_close(rest.std(0), torch.ones(2))


def test_a_constant_added_column_is_no_division_by_zero():
    x, e = torch.randn(50, 3), torch.randn(50, 2)
    x[:, -1] = 0.5
    assert torch.isfinite(Conditioned(x, e, 1)(x, e)).all()


def test_rows_that_members_share_are_mixed_as_their_copies_are():
    rows = torch.randn(1, 40, 3, generator=torch.Generator().manual_seed(0)).expand(4, -1, -1)
    at = torch.arange(8).expand(4, -1)
    targets = torch.nn.functional.one_hot(at % 2, 2).float()
    rest = torch.arange(8, 40).expand(4, -1)

    def drawn(x):
        streams = {}
        pool = Pool(x, at.contiguous(), targets.contiguous(), rest.contiguous())
        return list(
            mixed_rows(
                pool, Fit(steps=6, lr=0.1, batch_size=4), lambda s: streams.setdefault(s, Stream((1, 2, 3, 4), s))
            )
        )

    for shared, copied in zip(drawn(rows), drawn(rows.contiguous()), strict=True):
        assert torch.equal(shared.guessed, copied.guessed)
        assert torch.equal(shared.mixed, copied.mixed)
