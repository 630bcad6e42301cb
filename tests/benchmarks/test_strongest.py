"""Ways by hand: classes that differ in spread alone, a model's belief read off sizes, what ppdl drew, and the table."""

import json

import numpy as np
import pytest
import torch

from benchmarks.by_hand import Seen
from benchmarks.by_hand_em import Visits, balanced
from benchmarks.by_hand_filter import Gate, by_filter, odds, shared, steps_of
from benchmarks.by_hand_ledger import by_ledger
from benchmarks.by_hand_ways import believed, bins, em, raw_entries, truth_behind
from benchmarks.strongest import SETTINGS, table
from benchmarks.strongest_tables import TABLES, made_up
from tune_vfl.metrics.utility import auc

ROWS, EPOCHS, WIDTH = 600, 8, 4


def held(received, y, x=None, order=None):
    """Return what an attacker holds that knows ten labels a class and nothing else of use."""
    rng = np.random.default_rng(9)
    ids = np.concatenate([np.flatnonzero(y == k)[:10] for k in (0, 1)])
    own = rng.normal(size=(ROWS, 3)) if x is None else x
    sent = rng.normal(size=(len(received), ROWS, WIDTH))
    return Seen(own, sent[-1], sent, received, ids, y[ids], float(y.mean()), {"order": order or {}})


def drawn(share=0.3, seed=0):
    rng = np.random.default_rng(seed)
    return rng, (rng.random(ROWS) < share).astype(int)


def test_classes_of_equal_means_are_told_by_their_covariances_alone():
    rng, y = drawn()
    spread = np.where(y[:, None] == 1, [3.0, 0.4, 1.0, 1.0], [0.4, 3.0, 1.0, 1.0])
    received = rng.normal(size=(EPOCHS, ROWS, WIDTH)) * spread
    s = held(received, y)
    start = np.clip(0.3 + 0.25 * (y - 0.3) + 0.2 * rng.normal(size=ROWS), 0.02, 0.98)
    assert auc(start, y) < 0.85
    assert auc(em(s, received, EPOCHS, start, curved=True), y) > 0.95
    assert auc(em(s, received, EPOCHS, start), y) < 0.85


def test_the_size_of_a_gradient_says_what_the_model_believes():
    rng, y = drawn()
    p = np.clip(0.3 + 0.5 * (y - 0.3) + 0.15 * rng.normal(size=ROWS), 0.05, 0.95)
    taught = np.where(rng.random(ROWS) < 0.75, y, 1 - y)
    received = (p - taught)[:, None] * rng.normal(size=WIDTH) * np.ones((EPOCHS, 1, 1))
    s = held(received, y)
    found, said = believed(s, 0.05 + 0.9 * taught)
    assert (said == taught).mean() > 0.99
    assert np.corrcoef(found, p)[0, 1] > 0.95
    assert auc(truth_behind(s, 0.05 + 0.9 * taught, 0.75), y) > auc(taught.astype(float), y) + 0.1


@pytest.mark.parametrize("count", [2, 3])
def test_random_numbers_of_its_own_teach_an_attacker_the_bins_without_a_label(count):
    rng, y = drawn()
    mine, theirs = rng.integers(0, 201, (2, ROWS))
    ways = np.convolve(np.ones(201), np.ones(201)).cumsum() / 201**2
    cuts = [np.searchsorted(ways, k / count) for k in range(1, count)]
    value = (y + 2 * sum((mine + theirs > cut).astype(int) for cut in cuts)) / (2 * count - 1)
    received = value[:, None] * rng.normal(size=WIDTH) + 0.3 * rng.normal(size=(EPOCHS, ROWS, WIDTH))
    s = held(received, y, x=(mine[:, None] / 200.0))
    plain = Visits(np.zeros((EPOCHS, ROWS, 1)), received, s.folds)
    assert auc(bins(s, plain, np.full(ROWS, s.share), count), y) > 0.9


def test_entries_that_ppdl_drew_are_left_out():
    sent = np.array([[[0.02, -0.001], [0.001, 0.0], [0.0004, -0.003]]])
    _, y = drawn()
    received = np.tile(sent, (1, ROWS // 3, 1)) * ROWS
    s = held(received, y, order={0: [torch.arange(ROWS)]})
    kept = raw_entries(s, 0.001)[0, :3] / ROWS
    np.testing.assert_allclose(kept, [[0.02, 0], [0, 0], [0.0004, -0.003]], atol=1e-12)


def in_steps(received, y, own, batch=50):
    """Return steps in which rows come in a new order each epoch, and the gate of the own columns."""
    rng = np.random.default_rng(7)
    order = [(e, ids) for e in range(len(received)) for ids in np.split(rng.permutation(ROWS), ROWS // batch)]
    ids = np.concatenate([np.flatnonzero(y == k)[:10] for k in (0, 1)])
    prior = np.array([1 - y.mean(), y.mean()])
    sent = rng.normal(size=(len(received), ROWS, WIDTH))
    steps = steps_of(own, sent, received, order, (ids, y[ids]), prior)
    return steps, Gate(own, prior)


def test_many_faint_visits_add_up_to_a_label_that_own_columns_only_hint_at():
    rng, y = drawn()
    own = np.stack([y + 0.9 * rng.normal(size=ROWS), rng.normal(size=ROWS)], 1)
    jump = rng.normal(size=WIDTH)
    received = y[:, None] * jump + 1.5 * rng.normal(size=(20, ROWS, WIDTH))
    steps, gate = in_steps(received, y, own)
    alone = auc(odds(gate.by_known(steps.known, steps.labels)), y)
    assert alone < 0.85
    assert auc(odds(by_filter(steps, gate)), y) > 0.97
    noise, gate = in_steps(rng.normal(size=received.shape), y, own)
    assert auc(odds(by_filter(noise, gate)), y) < alone + 0.05


def test_sums_of_what_was_held_back_name_rows_whose_own_entries_were_not_sent():
    rng, y = drawn()
    own = np.stack([y + 0.9 * rng.normal(size=ROWS), rng.normal(size=ROWS)], 1)
    whole = (y - y.mean())[:, None] * np.array([1.0, -1.0, 0.5, 0.0]) + rng.normal(size=(EPOCHS, ROWS, WIDTH))
    steps, gate = in_steps(whole, y, own)
    waiting = np.zeros(steps.received.shape[1:])
    for at, gradient in enumerate(steps.received):
        u = gradient + waiting
        sent = np.abs(u) >= np.quantile(np.abs(u), 0.97)
        steps.received[at], waiting = u * sent, u * ~sent
    filtered = by_filter(steps, gate)
    assert auc(odds(by_ledger(steps, gate, filtered)), y) > auc(odds(filtered), y) + 0.02


def test_shares_of_classes_are_met_by_a_number_a_class():
    logits = np.random.default_rng(0).normal(size=(400, 3)) * 2
    said = shared(logits, np.array([0.7, 0.25, 0.05]), rounds=60)
    np.testing.assert_allclose(np.exp(said).mean(0), [0.7, 0.25, 0.05], atol=1e-4)
    np.testing.assert_allclose(np.diff(said - logits, axis=1).std(0), 0, atol=1e-9)


def test_probabilities_have_the_known_share():
    logits = np.random.default_rng(0).normal(size=500) * 3
    assert balanced(logits, 0.07).mean() == pytest.approx(0.07, abs=1e-6)


def test_the_table_counts_what_beats_default_over_all_seeds(tmp_path):
    def row(seed, hand):
        default = {"norm": [0.0, 0.5, [0.7]], "pmc": [0.0, 0.6, [0.8]]}
        return {
            "table": "bank",
            "defense": "laplace",
            "setting": SETTINGS["laplace"][0],
            "seeds": [seed],
            "default": default,
            "hand": {"em3": [hand]},
        }

    out = tmp_path / "rows.jsonl"
    rows = [row(0, 0.95), row(1, 0.85), {"table": "bank", "alone": False, "floors": {"em3": [0.6]}}]
    out.write_text("\n".join(json.dumps(r) for r in rows))
    lines = list(table(out))
    assert "| laplace scale 0.01 | - | **0.50 > 0.75 em3 (2)** | - | - |" in lines
    assert lines[-1] == "beaten by more than .05: 1 of 1"


def test_the_made_up_table_is_the_same_for_a_seed_and_rare_in_positives():
    frame = made_up(rows=1000)
    assert frame.equals(made_up(rows=1000))
    assert 0.05 < frame["label"].mean() < 0.2
    assert frame["id"].is_unique
    assert "made_up" in TABLES
