"""Class templates beside a naive twin that goes visit by visit, and their likelihoods in closed form."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tests.helpers.visits import visits_of
from tune_vfl.attacks.parts.columns import shrunk
from tune_vfl.attacks.parts.templates import EVEN, KNOTS, MIXED, QUIET, RIDGE, RIDGE_OF_REST, SMOOTH, Templates, hats
from tune_vfl.attacks.parts.visits_by_step import VisitsByStep
from tune_vfl.metrics.leakage import leak_auc


def by_step(received: Tensor, sent: Tensor | None = None, *, batch: int = 40) -> VisitsByStep:
    """Return the visits ``(E, N, d)`` of one member."""
    sent = torch.zeros(*received.shape[:2], 1) if sent is None else sent
    visits = visits_of(received, sent, batch=batch).batched()
    return VisitsByStep.of(visits, torch.arange(received.shape[1])[None])


class Twin:
    """Least squares visit by visit, of each fold on the others, in double precision."""

    def __init__(self, visits: VisitsByStep, classes: int) -> None:
        self.classes, self.p = classes, visits.explaining
        there = visits.rows[0].lt(visits.count)
        self.step, self.fold, _ = there.nonzero(as_tuple=True)
        self.row = visits.rows[0][there]
        columns = visits.columns[0][there].double()
        self.explaining, self.gradient = columns[:, : self.p], columns[:, self.p :]
        end = float(visits.times.max() + visits.times.diff()[-1])
        self.hats = hats(visits.times, [0.0, *(k for k in KNOTS[1:] if k < 0.9 * end), end]).double()
        self.count, self.steps = visits.count, len(visits.times)
        self.noise = self.of_step(self.gradient.square().mean(-1))

    def of_step(self, values: Tensor) -> Tensor:
        """Return means of visits' values by step."""
        sums = torch.zeros(self.steps, *values.shape[1:], dtype=values.dtype).index_add(0, self.step, values)
        counts = torch.bincount(self.step, minlength=self.steps)
        return sums / counts.view(-1, *[1] * (values.dim() - 1))

    def left(self, shares: Tensor) -> Tensor:
        """Return what slopes and templates without each fold leave of each visit's gradient, ``(F, V, K, d)``."""
        c, k, knots = shares[self.row].double(), self.classes, self.hats.shape[1]
        size = self.p + k
        left, rests = [], []
        for fold in self.fold.unique():
            matrix = torch.zeros(knots, size, knots, size, dtype=torch.float64)
            right = torch.zeros(knots, size, self.gradient.shape[-1], dtype=torch.float64)
            total = 0.0
            for v in (self.fold != fold).nonzero().flatten().tolist():
                x, h = torch.cat([self.explaining[v], c[v]]), self.hats[self.step[v]]
                weight = 1 / self.noise[self.step[v]]
                product = torch.outer(x, x)
                product[self.p :, self.p :] = torch.diag(c[v])  # a row is of one class: no products of two
                matrix += weight * torch.einsum("a,b,ij->aibj", h, h, product)
                right += weight * torch.einsum("a,i,d->aid", h, x, self.gradient[v])
                total += float(weight * c[v].sum())
            typical = total / k / knots
            for a in range(knots):
                for i in range(size):
                    matrix[a, i, a, i] += typical * (RIDGE_OF_REST if i < self.p else RIDGE)
                    for b in (a - 1, a + 1):
                        if 0 <= b < knots:
                            matrix[a, i, a, i] += typical * SMOOTH
                            matrix[a, i, b, i] -= typical * SMOOTH
            solved = torch.linalg.solve(matrix.reshape(knots * size, -1), right.reshape(knots * size, -1))
            at = torch.einsum("va,aid->vid", self.hats[self.step], solved.view(knots, size, -1))
            rest = self.gradient - torch.einsum("vi,vid->vd", self.explaining, at[:, : self.p])
            rests.append(rest)
            left.append(rest[:, None] - at[:, self.p :])
        self.rest = torch.stack(rests)
        return torch.stack(left)

    def own(self, by_fold: Tensor) -> Tensor:
        """Return ``(V, ...)`` of ``(F, V, ...)``: those of the templates without a visit's own fold."""
        return by_fold[self.fold, torch.arange(len(self.fold))]

    def evidence(self, shares: Tensor) -> list[Tensor]:
        """Return log likelihoods ``(n, K)`` of the classes in each of four ways, up to a constant of the row."""
        c = shares[self.row].double()
        by_fold = self.left(shares)
        left = self.own(by_fold)
        self.noise = self.of_step(torch.einsum("vk,vkd->v", c, left.square()) / left.shape[-1]).clamp(min=QUIET)
        size = self.noise[self.step]
        alike = -by_fold.square().sum(-1) / 2 / size[:, None]
        shaped = []
        for fold, of in enumerate(by_fold):
            out = self.fold != fold
            outer = torch.einsum("vk,vkd,vke->vde", c, of, of) / size[:, None, None]
            weights = self.hats[self.step[out]]
            shape = torch.einsum("va,vde->ade", weights, outer[out]) / weights.sum(0)[:, None, None]
            inverse = torch.einsum("sa,ade->sde", self.hats, torch.linalg.inv(shrunk(shape)))[self.step]
            shaped.append(-torch.einsum("vkd,vde,vke->vk", of, inverse, of) / 2 / size[:, None])
        found = [self.total(self.own(alike)), self.total(self.own(torch.stack(shaped)))]
        if self.classes != 2:
            return found
        odds = self.own(alike[..., 1] - alike[..., 0])
        return [*found, self.total(self.curved(odds, c)), self.total(self.own_shapes(shares))]

    def curved(self, score: Tensor, c: Tensor) -> Tensor:
        """Return log densities of normal scores ``(V,)``, of the means and variances of the other folds' rows."""
        density = torch.zeros(len(c), 2, dtype=torch.float64)
        for fold in self.fold.unique():
            out, mine = self.fold != fold, self.fold == fold
            for k in range(2):
                weights = self.hats[self.step[out]] * c[out, k, None]
                mean = (weights * score[out, None]).sum(0) / weights.sum(0)
                variance = (weights * score[out, None].square()).sum(0) / weights.sum(0) - mean.square()
                m, s = (self.hats[self.step[mine]] @ x for x in (mean, variance))
                density[mine, k] = -((score[mine] - m).square() / s + s.log()) / 2
        return density

    def own_shapes(self, shares: Tensor) -> Tensor:
        """Return log densities ``(V, 2)`` by the mean and covariance of each class in the other folds' rows."""
        c = shares[self.row].double()
        density = torch.zeros(len(c), 2, dtype=torch.float64)
        for fold, rest in enumerate(self.rest / self.noise.sqrt()[self.step][:, None]):
            out, mine = self.fold != fold, self.fold == fold
            counts, means, shapes = [], [], []
            for k in range(2):
                weights = self.hats[self.step[out]] * c[out, k, None]
                counts.append(weights.sum(0))
                means.append(weights.T @ rest[out] / counts[k][:, None])
                second = torch.einsum("va,vd,ve->ade", weights, rest[out], rest[out]) / counts[k][:, None, None]
                shapes.append(second - means[k][:, :, None] * means[k][:, None])
            common = sum(n[:, None, None] * s for n, s in zip(counts, shapes, strict=True)) / sum(counts)[:, None, None]
            for k in range(2):
                shape = shrunk((1 - MIXED) * shapes[k] + MIXED * common + 1e-6 * torch.eye(rest.shape[-1]), EVEN)
                at = self.hats[self.step[mine]]
                inverse = torch.einsum("va,ade->vde", at, torch.linalg.inv(shape))
                apart = rest[mine] - at @ means[k]
                density[mine, k] = -(torch.einsum("vd,vde,ve->v", apart, inverse, apart) + at @ shape.logdet()) / 2
        return density

    def total(self, by_visit: Tensor) -> Tensor:
        return torch.zeros(self.count, self.classes, dtype=torch.float64).index_add(0, self.row, by_visit)


def apart(said: Tensor) -> Tensor:
    """Return evidence less that of the first class, in which a constant of the row drops out."""
    return (said - said[..., :1]).double()


@pytest.mark.parametrize("classes", [2, 3])
def test_evidence_is_that_of_least_squares_on_the_other_folds(classes: int) -> None:
    rows, epochs, d = 60, 4, 3
    g = torch.Generator().manual_seed(classes)
    shares = (2 * torch.randn(rows, classes, generator=g)).softmax(-1)
    sent = torch.randn(epochs, rows, 2, generator=g)
    received = torch.randn(epochs, rows, d, generator=g) + sent @ torch.randn(2, d, generator=g)
    received = received + shares @ torch.randn(epochs, classes, d, generator=g)
    received = received * torch.rand(epochs, 1, 1, generator=g) * 3
    visits = by_step(received, sent, batch=25)
    templates, twin = Templates(visits, classes), Twin(visits, classes)
    for _ in range(2):  # the second fit weighs steps by the noise that the first one measured
        found, expected = templates.evidence(shares[None]), twin.evidence(shares)
        assert len(found) == (4 if classes == 2 else 2)
        for said, by_hand in zip(found, expected, strict=True):
            torch.testing.assert_close(apart(said[0]), apart(by_hand), atol=2e-3, rtol=2e-3)


def test_a_step_in_which_nearly_nothing_is_sent_says_nothing() -> None:
    g = torch.Generator().manual_seed(0)
    y = torch.arange(80) % 2
    received = torch.randn(6, 80, 3, generator=g) + 0.5 * one_hot(y, 2).float() @ torch.randn(2, 3, generator=g)
    quiet = received.clone()
    quiet[3:] = 1e-5 * torch.randn(3, 80, 3, generator=g)
    silent = received.clone()
    silent[3:] = 0
    templates = Templates(by_step(quiet), 2), Templates(by_step(silent), 2)
    for _ in range(2):
        one, other = (apart(of.evidence(one_hot(y, 2).float()[None])[0][0]) for of in templates)
    torch.testing.assert_close(one, other, atol=0.02, rtol=0)


def test_of_known_rows_alone_templates_are_theirs() -> None:
    """The evidence of rows that count is the same whatever the others' gradients; the noise is as it was at first."""
    rows = 50
    g = torch.Generator().manual_seed(1)
    received = torch.randn(3, rows, 2, generator=g)
    shares = one_hot(torch.arange(rows) % 2, 2).float()
    known = (torch.arange(rows) < 20).float()
    visits = by_step(received, batch=25)
    twin = Twin(visits, 2)
    kept = (twin.row < 20).nonzero().flatten()
    scored = Twin(visits, 2)
    for name in ("step", "row", "fold", "explaining", "gradient"):
        setattr(twin, name, getattr(twin, name)[kept])
    twin.noise = scored.noise
    left = twin.own(twin.left(shares))
    expected = torch.zeros(rows, 2, dtype=torch.float64)
    expected.index_add_(0, twin.row, -left.square().sum(-1) / 2 / twin.noise[twin.step][:, None])
    shares = shares * known[:, None]
    (found,) = Templates(visits, 2).evidence(shares[None], known[None])
    torch.testing.assert_close(apart(found[0])[:20], apart(expected)[:20], atol=2e-3, rtol=2e-3)
    assert apart(found[0])[20:].abs().max() > 0, "the others get evidence of these templates too"


def drawn(rows: int, mean: Tensor, seed: int = 0) -> tuple[Tensor, Tensor, torch.Generator]:
    """Return labels and the middle of each row's gradient: the mean, or its opposite, of two classes of one size."""
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(rows) % 2
    return y, (2 * y - 1)[:, None] * mean, g


def slope(said: Tensor, gradient: Tensor) -> Tensor:
    """Return the least-squares slope of the log odds of the second class over gradients ``(n, d)``."""
    odds = (said[:, 1] - said[:, 0]).double()
    design = torch.cat([gradient, torch.ones(len(gradient), 1)], -1).double()
    return torch.linalg.lstsq(design, odds).solution[:-1]


def test_at_the_right_probabilities_templates_and_noise_are_the_right_ones() -> None:
    """EM's fixed point: classes at -1 and 1 in unit noise, probabilities as these gradients give them: odds are 2 g.

    Templates of a plain regression on probabilities would be another number, and those of hard labels too.
    """
    y, middle, g = drawn(40_000, torch.tensor([1.0]))
    gradient = middle + torch.randn(len(y), 1, generator=g)
    shares = torch.cat([-gradient, gradient], -1).softmax(-1)
    said = Templates(by_step(gradient[None], batch=len(y)), 2).evidence(shares[None])[0][0]
    torch.testing.assert_close(slope(said, gradient), torch.tensor([2.0], dtype=torch.float64), atol=0.05, rtol=0)


def test_each_steps_noise_is_its_own() -> None:
    """Odds are 2 g over the variance of the step: 1 in one of them, 16 in the other."""
    y, middle, g = drawn(20_000, torch.tensor([1.0]))
    half = len(y) // 2
    visits = by_step(middle[None], batch=half)
    quiet = visits.rows[0, 0][visits.rows[0, 0] < len(y)]
    noise = torch.full((len(y), 1), 4.0)
    noise[quiet] = 1.0
    gradient = middle + noise * torch.randn(len(y), 1, generator=g)
    templates = Templates(by_step(gradient[None], batch=half), 2)
    for _ in range(3):
        said = templates.evidence(one_hot(y, 2).float()[None])[0][0]
    loud = visits.rows[0, 1][visits.rows[0, 1] < len(y)]
    assert float(slope(said[quiet], gradient[quiet])) == pytest.approx(2.0, abs=0.1)
    assert float(slope(said[loud], gradient[loud])) == pytest.approx(2 / 16, abs=0.02)


def test_the_shape_of_the_noise_is_that_of_the_residuals() -> None:
    y, middle, g = drawn(20_000, torch.tensor([1.0, 0.0]))
    covariance = torch.tensor([[1.0, 0.9], [0.9, 1.0]])
    gradient = middle + torch.randn(len(y), 2, generator=g) @ torch.linalg.cholesky(covariance).mT
    alike, shaped, *_ = Templates(by_step(gradient[None], batch=len(y) // 4), 2).evidence(one_hot(y, 2).float()[None])
    expected = 2 * torch.linalg.inv(shrunk(covariance).double())[0]
    torch.testing.assert_close(slope(shaped[0], gradient), expected, atol=0.2, rtol=0.1)
    torch.testing.assert_close(
        slope(alike[0], gradient), torch.tensor([2.0, 0.0], dtype=torch.float64), atol=0.05, rtol=0
    )


def test_of_two_classes_each_has_a_variance_of_its_own_alone_or_with_a_part_of_both() -> None:
    y, middle, g = drawn(20_000, torch.tensor([1.0]))
    deviation = torch.tensor([2.0, 0.5])[y][:, None]
    gradient = middle + deviation * torch.randn(len(y), 1, generator=g)
    *_, curved, shaped = Templates(by_step(gradient[None], batch=len(y)), 2).evidence(one_hot(y, 2).float()[None])
    near = gradient[:, 0].abs() < 3
    for said, mixed in ((curved[0], 0.0), (shaped[0], MIXED)):
        variances = [(1 - mixed) * own + mixed * (4.0 + 0.25) / 2 for own in (4.0, 0.25)]
        laws = [torch.distributions.Normal(m, v**0.5) for m, v in zip((-1.0, 1.0), variances, strict=True)]
        normal = [law.log_prob(gradient[:, 0]) for law in laws]
        torch.testing.assert_close((said[:, 1] - said[:, 0])[near], (normal[1] - normal[0])[near], atol=0.4, rtol=0.1)


def test_classes_whose_noise_lies_along_other_directions_are_told_apart_without_a_difference_of_means() -> None:
    g = torch.Generator().manual_seed(0)
    y = torch.randint(2, (400,), generator=g)
    along = torch.tensor([[2.0, 1.0, 1.0], [1.0, 2.0, 1.0]])[y]  # as marvell's noise, whose covariance differs by class
    received = along * torch.randn(20, 400, 3, generator=g)
    found = Templates(by_step(received, batch=100), 2).evidence(one_hot(y, 2).float()[None])
    plain, shaped, _, own = (leak_auc(said[0].numpy(), y.numpy(), flip=False) for said in found)
    assert max(plain, shaped) < 0.6
    assert own > 0.99


def test_labels_of_no_meaning_are_not_found_again() -> None:
    """Templates of a few rows with wide gradients fit any labels; those of the other folds say nothing of a row."""
    g = torch.Generator().manual_seed(0)
    found = []
    for _ in range(30):
        y = torch.randint(2, (60,), generator=g)
        said = Templates(by_step(torch.randn(4, 60, 16, generator=g), batch=30), 2).evidence(
            one_hot(y, 2).float()[None]
        )
        found.append([leak_auc(of[0].numpy(), y.numpy(), flip=False) for of in said])
    assert (torch.tensor(found).mean(0) - 0.5).abs().max() < 0.06


@pytest.mark.parametrize(("epochs", "batch"), [(1, 60), (1, 30), (2, 60), (6, 60)])
def test_evidence_of_few_steps_is_a_number(epochs: int, batch: int) -> None:
    """Also where no step lies at the last of the epochs between which templates are linear."""
    g = torch.Generator().manual_seed(0)
    y = torch.arange(60) % 2
    gradient = (2.0 * y - 1)[:, None] + 0.1 * torch.randn(epochs, 60, 2, generator=g)
    for said in Templates(by_step(gradient, batch=batch), 2).evidence(one_hot(y, 2).float()[None]):
        assert said.isfinite().all()
        assert leak_auc(said[0].numpy(), y.numpy(), flip=False) > 0.99


def test_templates_that_move_are_followed_and_those_that_stay_are_averaged() -> None:
    """Where a template turns into its opposite, one for the whole training would be nothing."""
    rows, epochs = 400, 40
    g = torch.Generator().manual_seed(2)
    y = torch.arange(rows) % 2
    turning = torch.linspace(1, -1, epochs)[:, None, None] * (2.0 * y - 1)[None, :, None]
    gradient = turning + torch.randn(epochs, rows, 1, generator=g)
    said = Templates(by_step(gradient, batch=100), 2).evidence(one_hot(y, 2).float()[None])[0][0]
    exact = (2 * torch.linspace(1, -1, epochs)[:, None] * gradient[..., 0]).sum(0)
    assert float(torch.corrcoef(torch.stack([said[:, 1] - said[:, 0], exact]))[0, 1]) > 0.95


def test_rows_that_do_not_count_have_no_share_in_templates() -> None:
    """Probabilities of 0 of all classes leave a row out: as if the others alone had been trained on."""
    rows = 40
    g = torch.Generator().manual_seed(4)
    gradient = torch.randn(2, rows, 2, generator=g)
    y = one_hot(torch.arange(rows) % 2, 2).float()
    known = (torch.arange(rows) < 30).float()
    wild = gradient.clone()
    wild[:, 30:] = wild[:, 30:].flip(0)  # other gradients of the same size, so that units and noise are the same
    found = [
        Templates(by_step(of, batch=rows), 2).evidence((y * known[:, None])[None], known[None])[0][0, :30]
        for of in (gradient, wild)
    ]
    torch.testing.assert_close(apart(found[0]), apart(found[1]), atol=0.02, rtol=0.02)


def test_hats_are_weights_that_give_lines_back() -> None:
    knots = torch.tensor([0.0, 0.5, 1.25, 4.0])
    times = torch.tensor([-1.0, 0.0, 0.3, 0.5, 2.0, 4.0, 9.0])
    weights = hats(times, knots)
    torch.testing.assert_close(weights.sum(-1), torch.ones(7))
    torch.testing.assert_close(weights @ (3 * knots - 1), 3 * times.clamp(0, 4) - 1)
    assert ((weights > 0).sum(-1) <= 2).all()


def test_where_a_class_sends_nothing_for_a_while_shapes_say_nothing() -> None:
    g = torch.Generator().manual_seed(0)
    y = torch.arange(80) % 2
    received = torch.randn(6, 80, 3, generator=g)
    received[2:] = 0
    *_, shaped = Templates(by_step(received), 2).evidence(one_hot(y, 2).float()[None])
    assert torch.equal(shaped, torch.zeros_like(shaped))
