"""Visits in the order of a training: which rows made up a step, when, and in which fold."""

from __future__ import annotations

import pytest
import torch

from tests.helpers.visits import visits_of
from tune_vfl.attacks.parts.visits_by_step import FOLDS, LEAST, MOST, SENT, WIDEST, VisitsByStep


def visits(rows=500, epochs=3, batch=200, sent=2, width=2, seed=0):
    g = torch.Generator().manual_seed(seed)
    made = [torch.randn(epochs, rows, d, generator=g) for d in (width, sent)]
    return visits_of(*made, seed=seed, batch=batch).batched()


def of(seen, rows=None):
    count = seen.places.shape[-1]
    return VisitsByStep.of(seen, torch.arange(count)[None] if rows is None else rows)


def test_a_step_holds_the_rows_that_stood_beside_each_other():
    seen = visits()
    found = of(seen)
    assert found.rows.shape[:3] == (1, 9, FOLDS)  # three steps an epoch, of 200, 200 and 100 rows
    for epoch in range(3):
        for step in range(3):
            mine = seen.places[0, epoch] // 200 == step
            there = found.rows[0, 3 * epoch + step]
            assert set(there[there < 500].tolist()) == set(mine.nonzero().flatten().tolist())
    torch.testing.assert_close(found.times, torch.tensor([e + s / 3 for e in range(3) for s in range(3)]))


def test_columns_are_a_one_the_embedding_and_the_gradient_of_the_visit():
    seen = visits(width=3)
    found = of(seen)
    assert found.explaining == 3
    received = seen.received - seen.received.mean((1, 2), keepdim=True)
    received = received / received.square().mean().sqrt()
    spread, mean = torch.std_mean(seen.sent, 2, keepdim=True)
    sent = (seen.sent - mean) / spread
    for step in range(9):
        for row, column in zip(
            found.rows[0, step].flatten().tolist(), found.columns[0, step].flatten(0, 1), strict=True
        ):
            if row == 500:
                assert not column.any()
                continue
            epoch = step // 3
            torch.testing.assert_close(column, torch.cat([torch.ones(1), sent[0, epoch, row], received[0, epoch, row]]))


def test_each_row_keeps_its_fold():
    found = of(visits())
    _, _, fold, _ = (found.rows < 500).nonzero(as_tuple=True)
    assert torch.equal(fold, found.rows[found.rows < 500] % FOLDS)


def test_what_belongs_to_rows_is_found_at_their_visits_and_added_up_again():
    found = of(visits())
    by_row = torch.randn(1, 500, 2, generator=torch.Generator().manual_seed(1))
    at = found.gather(by_row)
    there = found.rows < 500
    assert torch.equal(at[there], by_row[0, found.rows[there]])
    assert not at[~there].any()
    torch.testing.assert_close(found.total(at), 3 * by_row)


def test_of_a_part_of_the_rows_a_step_has_its_share():
    """Half of the rows in steps of 200 are steps of 100, in the order in which they came."""
    seen = visits(rows=600)
    drawn = torch.randperm(600, generator=torch.Generator().manual_seed(3))[None, :300]
    found = of(seen, drawn)
    order = seen.places[0, 0, drawn[0]].argsort()
    for step in range(3):
        there = found.rows[0, step]
        assert sorted(there[there < 300].tolist()) == sorted(order[100 * step : 100 * step + 100].tolist())
    assert found.count == 300


@pytest.mark.parametrize(("rows", "batch", "joined"), [(390, 32, 4), (64, 2, 32), (300, 100, 1), (450, 60, 2)])
def test_neighboring_steps_of_few_rows_count_as_one(rows, batch, joined):
    found = of(visits(rows=rows, batch=batch))
    assert found.rows.shape[1] == 3 * -(-rows // (joined * batch))
    first = found.rows[0, 0]
    assert int((first < rows).sum()) == min(rows, joined * batch) >= min(LEAST, rows)
    ones = found.total(found.gather(torch.ones(1, rows, 1)))
    assert torch.equal(ones, torch.full((1, rows, 1), 3.0)), "every visit counts once"


def test_of_a_long_training_neighboring_steps_count_as_one():
    found = of(visits(rows=1200, epochs=60, batch=100))
    assert found.rows.shape[1] <= MOST
    assert found.rows.shape[1] == 60 * 6  # of 200 rows each
    ones = found.total(found.gather(torch.ones(1, 1200, 1)))
    assert torch.equal(ones, torch.full((1, 1200, 1), 60.0)), "every visit counts once"


def test_wide_gradients_and_embeddings_are_their_main_columns():
    seen = visits(rows=200, width=WIDEST + 20, sent=SENT + 20)
    seen.received[..., 5:] *= 1e-3
    found = of(seen)
    assert found.explaining == 1 + SENT
    assert found.columns.shape[-1] == 1 + SENT + WIDEST
    gradients = found.columns[..., found.explaining :]
    whole = seen.received - seen.received.mean((1, 2), keepdim=True)
    share = whole[..., :5].square().sum() / whole.square().sum()
    main = gradients.square().sum((0, 1, 2, 3)).sort().values[-5:].sum() / gradients.square().sum()
    assert float(main) == pytest.approx(float(share), rel=1e-3)


def test_steps_of_a_pack_are_those_of_its_members():
    seen = [visits(seed=seed) for seed in (0, 1)]
    kept = type(seen[0])(
        *(torch.cat([getattr(v, n) for v in seen]) for n in ("sent", "received", "places")), seen[0].times, 200
    )
    both = VisitsByStep.of(kept, torch.arange(500).expand(2, 500))
    for index, one in enumerate(map(of, seen)):
        there, alone = both.rows[index] < 500, one.rows[0] < 500
        assert torch.equal(both.rows[index][there], one.rows[0][alone])
        torch.testing.assert_close(both.columns[index][there], one.columns[0][alone])


def test_columns_that_do_not_vary_or_are_no_numbers_become_nothing():
    seen = visits()
    seen.received[..., 0], seen.sent[..., 1] = torch.nan, 7.0
    found = of(seen)
    assert found.columns.isfinite().all()
    assert not found.columns[..., 2].any()
    assert not found.columns[..., 3].any()
