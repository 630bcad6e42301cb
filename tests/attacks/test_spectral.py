"""The spectral attack: a plain twin by singular value decomposition, edges, sources, and its floor."""

import numpy as np
import pytest
import torch

from tune_vfl.attacks.base import ATTACKS
from tune_vfl.attacks.spectral import coordinates
from tune_vfl.errors import NotGrantedError
from tune_vfl.evaluation import measure_references
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.metrics.leakage import leak_auc
from tune_vfl.protocol.granted import WHOLE_TRAINING
from tune_vfl.protocol.view import Recording, View
from tune_vfl.seeds import Streams
from tune_vfl.spec import parse
from tune_vfl.testing.views import make_world

SPECTRAL = ATTACKS["spectral"]


def of_gradients(gradients, batches=None, **params):
    n = len(gradients)
    recording = Recording(torch.arange(n), gradients, batches or ((0, n),))
    view = View("spectral", (), 2, Streams(0), {"gradients": {"last": recording}})
    return SPECTRAL(SPECTRAL.Params(source="gradient", moments=("last",), **params)).run(view)["spectral"]


def test_coordinates_equal_a_singular_value_decomposition_member_by_member():
    rows = torch.randn(3, 50, 4, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 3.0, 0.5, 2.0])
    for member, found in zip(rows.double().numpy(), coordinates(rows), strict=True):
        centered = member - member.mean(0)
        expected = centered @ np.linalg.svd(centered)[2][0]
        expected *= np.sign(expected @ found.numpy())
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)
    # The sign is the same one by one: two equal and opposite entries leave it to no rounding.
    line = torch.tensor([[1.0, -1.0], [-1.0, 1.0], [2.0, -2.0]])
    torch.testing.assert_close(coordinates(line), coordinates(line.expand(2, 3, 2))[1])


def test_width_one_is_the_centered_number_itself():
    assert coordinates(torch.tensor([[1.0], [2.0], [6.0]])).tolist() == [-2.0, -1.0, 3.0]


@pytest.mark.parametrize("rows", [torch.ones(6, 3), torch.randn(1, 3)])
def test_rows_that_do_not_vary_give_nothing_away(rows):
    assert coordinates(rows).tolist() == pytest.approx([0.0] * len(rows), abs=1e-6)


def test_a_member_that_diverged_disturbs_nobody():
    rows = torch.randn(2, 20, 3, generator=torch.Generator().manual_seed(1))
    alone = coordinates(rows[1])
    rows[0, 3] = torch.tensor([torch.nan, torch.inf, -torch.inf])
    found = coordinates(rows)
    assert torch.isfinite(found).all()
    torch.testing.assert_close(found[1], alone)


def test_it_is_perfect_where_the_classes_lie_apart_and_squares_find_the_smaller_class():
    y = torch.tensor([1] * 10 + [0] * 90)
    rows = torch.randn(100, 3, generator=torch.Generator().manual_seed(2)) * 0.1
    rows[:, 1] += 4.0 * y
    assert leak_auc(of_gradients(rows).scores.numpy(), y.numpy()) == 1.0
    squared = of_gradients(rows, score="squared")
    torch.testing.assert_close(squared.scores, of_gradients(rows).scores.square())
    # The mean lies near the larger class, so that the smaller one has the larger squares: no flip is needed.
    assert leak_auc(squared.scores.numpy(), y.numpy(), flip=False) == 1.0


def test_gradients_of_a_smaller_last_batch_do_not_stand_out():
    y = torch.arange(100) % 2
    per_row = (y * 2.0 - 1).unsqueeze(-1)
    sent = torch.cat([per_row[:80] / 80, per_row[80:] / 20])
    scores = of_gradients(sent, ((0, 80), (80, 100))).scores
    torch.testing.assert_close(scores, per_row.squeeze(-1))


def test_it_needs_only_what_its_source_needs():
    embedding, gradient = (SPECTRAL(SPECTRAL.Params(source=s)) for s in ("embedding", "gradient"))
    assert (embedding.moments(), gradient.moments()) == ((), ("last", "first_batch", "epoch0", WHOLE_TRAINING))
    world = make_world(0)
    for attack, other in ((embedding, gradient), (gradient, embedding)):
        answer = attack.run(world.view(attack))["spectral"]
        labels = world.y_train[answer.ids].numpy()
        assert leak_auc(answer.scores.numpy(), labels) > 0.75
        with pytest.raises(NotGrantedError):
            attack.run(world.view(other))


def test_embeddings_have_an_untrained_floor_and_gradients_have_none():
    def floors(source):
        raw = {"study": "s", "dataset": "breast_cancer", "defense": "none", "budget": {"trials": 1, "seeds": 2}}
        return measure_references(resolve(parse({**raw, "attacks": [{"name": "spectral", "source": source}]}))).r_lower

    # These rows lie apart by class before any training: what the federation adds is only what exceeds that.
    assert min(floors("embedding")["spectral"]) > 0.8
    assert floors("gradient") == {}
