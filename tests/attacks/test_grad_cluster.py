"""Gradient clustering: the clustering against a plain twin, how clusters are named, edges, a model with a top model."""

import pytest
import torch

from tune_vfl import evaluate
from tune_vfl.attacks.base import ATTACKS
from tune_vfl.attacks.grad_cluster import best_of_each_name, named, spread
from tune_vfl.attacks.parts import kmeans
from tune_vfl.attacks.parts.kmeans import spherical_kmeans, unit
from tune_vfl.metrics.leakage import leak_auc, top1
from tune_vfl.protocol.view import Auxiliary, Recording, View
from tune_vfl.seeds import Streams

CLUSTER = ATTACKS["grad_cluster"]


@pytest.fixture(params=["torch", "native"])
def way(request, monkeypatch):
    """What clusters."""
    if request.param == "torch":
        monkeypatch.setattr(kmeans, "native_clustering", lambda: None)
    elif kmeans.native_clustering() is None:
        pytest.skip("no compiler on this machine")


def gathered(members=1, rows=90, seed=0):
    """Rows around three directions, and which one each is around."""
    g = torch.Generator().manual_seed(seed)
    around = torch.arange(rows) % 3
    apart = torch.linalg.qr(torch.randn(members, 5, 5, generator=g)).Q[:, :3]
    return unit(apart[:, around] + 0.1 * torch.randn(members, rows, 5, generator=g)), around


def plain_rounds(rows, centers):
    """Lloyd's rounds with loops, from given centers."""
    for _ in range(50):
        mine = [max(range(len(centers)), key=lambda c, r=r: float(r @ centers[c])) for r in rows]
        sums = [
            sum((r for r, m in zip(rows, mine, strict=True) if m == c), torch.zeros(5)) for c in range(len(centers))
        ]
        centers = [s / s.norm() if s.norm() > 0 else c for s, c in zip(sums, centers, strict=True)]
    return torch.stack(centers)


def test_centers_are_where_plain_rounds_stay_and_equal_one_by_one(way):
    rows, around = gathered(members=3)
    centers = spherical_kmeans(rows, 3, streams=Streams([0, 1, 0]), restarts=4)
    for member in range(3):
        torch.testing.assert_close(plain_rounds(rows[member], list(centers[member])), centers[member])
        alone = spherical_kmeans(rows[member], 3, streams=Streams([0, 1, 0][member]), restarts=4)
        torch.testing.assert_close(alone, centers[member])
        nearest = (rows[member] @ centers[member].T).argmax(-1)
        assert len(set(zip(around.tolist(), nearest.tolist(), strict=True))) == 3


def test_members_that_take_more_rounds_than_others_go_on_until_they_stay(way):
    g = torch.Generator().manual_seed(2)
    loose, tight = unit(torch.randn(2, 90, 5, generator=g)), gathered(members=4)[0]
    rows = torch.cat([tight[:2], loose, tight[2:]]).double()
    centers = spherical_kmeans(rows, 4, streams=Streams([0, 1, 0, 1, 0, 1]), restarts=1)
    for member in range(6):
        again = (rows[member] @ centers[member].T).argmax(-1)
        sums = torch.stack([rows[member][again == c].sum(0) for c in range(4)])
        torch.testing.assert_close(unit(sums), centers[member])
        alone = spherical_kmeans(rows[member], 4, streams=Streams(member % 2), restarts=1)
        assert torch.equal(alone, centers[member])


def test_more_starts_are_never_looser(way):
    rows = unit(torch.randn(200, 4, generator=torch.Generator().manual_seed(1)))
    within = [
        float((rows @ spherical_kmeans(rows, 8, streams=Streams(0), restarts=n).T).amax(-1).sum()) for n in (1, 2, 8)
    ]
    assert within == sorted(within)
    assert within[0] < within[2]


@pytest.mark.parametrize("rows", [torch.zeros(6, 3), torch.eye(3)[[0] * 6], torch.eye(3)[:1]])
def test_fewer_different_rows_than_clusters(way, rows):
    centers = spherical_kmeans(rows, 4, streams=Streams(0), restarts=2)
    assert centers.shape == (4, 3)
    assert torch.isfinite(centers).all()
    assert (rows @ centers.T).amax(-1).tolist() == pytest.approx(rows.norm(dim=-1).tolist())


@pytest.mark.parametrize("width", [1, 2, 10, 17])
@pytest.mark.parametrize("rows", [1, 7, 8, 50])
def test_machine_code_finds_the_centers_that_torch_finds(monkeypatch, rows, width):
    """Or ones that are as tight, where there are fewer different rows than clusters: then rounding picks among them."""
    g = torch.Generator().manual_seed(100 * rows + width)
    some = unit(torch.randn(6, rows, width, generator=g, dtype=torch.double))
    some[0], some[1:3, ::3], some[3, 1:] = 0.0, 0.0, some[3, :1].clone()
    found = []
    for natively in (kmeans.native_clustering, lambda: None):
        monkeypatch.setattr(kmeans, "native_clustering", natively)
        found.append(spherical_kmeans(some, 9, streams=Streams(list(range(6))), restarts=2))
    native, plain = found
    within = [(some @ centers.transpose(-1, -2)).amax(-1) for centers in found]
    torch.testing.assert_close(*within, atol=1e-12, rtol=0)
    several = slice(0) if rows < 50 or width == 1 else slice(4, None)
    torch.testing.assert_close(native[several], plain[several], atol=1e-12, rtol=0)


def test_unit_rows_of_any_size():
    rows = torch.tensor([[3e-30, 4e-30], [3e30, 4e30], [0.0, 0.0], [torch.nan, 1.0], [torch.inf, 1.0]])
    torch.testing.assert_close(unit(rows), torch.tensor([[0.6, 0.8]] * 2 + [[0.0, 0.0]] * 3))


def test_clusters_are_named_by_majority_then_by_the_nearest_labeled_row():
    # Clusters: 0 holds rows of classes 1, 1, 0; 1 holds one of each class, that of class 1 is nearer; 2 holds none, the
    # nearest labeled row is of class 0.
    near = torch.tensor([[0.9, 0.1, 0.1], [0.8, 0.1, 0.0], [0.99, 0.1, 0.3], [0.0, 0.7, 0.2], [0.0, 0.8, 0.1]])
    labels = torch.eye(2)[[1, 1, 0, 0, 1]].bool()
    assert named(near, labels).tolist() == [1, 1, 0]
    assert named(near.expand(2, 5, 3), labels.expand(2, 5, 2)).tolist() == [[1, 1, 0]] * 2


def test_a_row_scores_a_class_by_its_nearest_cluster_of_that_name():
    cosines, names = torch.tensor([[0.1, 0.9, -0.5], [0.2, -0.3, 0.1]]), torch.tensor([2, 0, 2])
    expected = torch.tensor([[0.9, -1.0, 0.1], [-0.3, -1.0, 0.2]])
    torch.testing.assert_close(best_of_each_name(cosines, names, 3), expected)


def test_rows_to_fit_on_are_spread_over_the_epoch():
    rows = torch.arange(10.0).unsqueeze(-1)
    assert spread(rows, 4).squeeze(-1).tolist() == [0, 2, 5, 7]
    assert spread(rows, 10) is rows


def attacked(gradients, y, ids, known, **params):
    view = View(
        "grad_cluster",
        (),
        int(y.max()) + 1,
        Streams(0),
        {
            "gradients": {"last": Recording(ids, gradients, ((0, len(ids)),))},
            "auxiliary": Auxiliary(known, y[known]),
        },
    )
    return CLUSTER(CLUSTER.Params(moments=("last",), **params)).run(view)["grad_cluster"]


def test_labels_come_out_whatever_the_directions_and_the_order_and_known_rows_do_not_count():
    rows, y = gathered(rows=300, seed=4)
    g = torch.Generator().manual_seed(5)
    ids = torch.randperm(300, generator=g)
    lengths = torch.rand(300, 1, generator=g) * 1e-3 + 1e-6
    known = torch.tensor([3, 4, 5, 9, 10, 11])
    answer = attacked((rows[0] * lengths)[ids], y, ids, known, fit_rows=100)
    assert top1(answer.scores.numpy(), y[ids].numpy()) == 1.0
    assert set(ids[~answer.counted].tolist()) == set(known.tolist())


def test_two_classes_on_one_line_and_silent_rows():
    y = torch.tensor([0, 0, 0, 1] * 25)
    gradients = torch.where(y == 1, -1.0, 1.0).unsqueeze(-1) * torch.linspace(0.1, 1, 100).unsqueeze(-1)
    known = torch.tensor([0, 3])
    assert leak_auc(attacked(gradients, y, torch.arange(100), known).scores.numpy(), y.numpy(), flip=False) == 1.0
    silent = attacked(torch.zeros(100, 2), y, torch.arange(100), known)
    assert leak_auc(silent.scores.numpy(), y.numpy(), flip=False) == 0.5


def test_a_top_model_does_not_hide_labels_from_it():
    answer = evaluate("digits", attacks=["grad_cluster"], seeds=2, settings=["training.epochs=5"])
    found = answer["attacks"]["grad_cluster"]
    assert found["r_lower"] is None, "nothing of it is left without gradients"
    assert found["floor_by"] == "own columns"
    assert found["mean"] > 0.5 > 4 * found["guess"]
