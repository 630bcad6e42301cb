"""Published attacks: what each finds where its idea holds, the best of all mappings, matched gradients, the table."""

import itertools
import json

import pytest
import torch
from torch import nn
from torch.nn.functional import one_hot

from benchmarks.published_attacks.__main__ import ATTACKS, DEFAULT, table
from benchmarks.published_attacks.cells import CELLS, task_of
from benchmarks.published_attacks.gramssat import gradient_distance
from benchmarks.published_attacks.hassle import Hassle
from benchmarks.published_attacks.held import PartyData, answer_of
from benchmarks.published_attacks.lea import mapping
from benchmarks.published_attacks.sdar import Sdar
from benchmarks.published_attacks.sim_lia import SimLia
from tune_vfl.protocol.granted import Auxiliary, Features
from tune_vfl.protocol.view import View
from tune_vfl.protocol.visits import Visits
from tune_vfl.seeds import Streams

ROWS, EPOCHS, WIDTH, CLASSES = 1200, 3, 6, 3


def drawn(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def problem(per_class=4, noise=0.3):
    """Return labels, and the view of a party that a linear top model with equal odds teaches."""
    y, top = torch.arange(ROWS) % CLASSES, drawn(0, CLASSES, WIDTH)
    sent = 2 * top[y] + noise * drawn(1, EPOCHS, ROWS, WIDTH)
    received = top.mean(0) - top[y] + noise * drawn(3, EPOCHS, ROWS, WIDTH)
    means = [x.mean(0, keepdim=True) for x in (sent, received, received)]
    known = torch.arange(per_class * CLASSES)
    held = {
        "visits": Visits(sent, received, *means),
        "features": Features(sent[-1], sent[-1, :1]),
        "bottom": nn.Identity,
        "auxiliary": Auxiliary(known, y[known]),
    }
    return y, View("published", (), CLASSES, Streams(0), held)


@pytest.mark.parametrize("name", list(ATTACKS))
def test_every_attack_finds_classes_that_stand_apart(name):
    y, view = problem(per_class=1 if name == "hassle" else 4)
    answers = ATTACKS[name]().run(view)
    right = {}
    for variant, answer in answers.items():
        said, true = answer.scores[answer.counted].argmax(1), y[answer.ids][answer.counted]
        names = range(CLASSES) if answer.named else None
        matched = itertools.permutations(range(CLASSES)) if names is None else [names]
        right[variant] = max((torch.tensor(list(m))[said] == true).double().mean().item() for m in matched)
    assert max(right.values()) > 0.95
    if name in ("hassle", "sim_lia"):
        assert min(right.values()) > 0.9


def test_rows_with_known_labels_are_not_counted():
    y, view = problem()
    for attack in (SimLia(), Sdar()):
        answer = next(iter(attack.run(view).values()))
        assert answer.counted.tolist() == [row >= 4 * CLASSES for row in range(ROWS)]
    assert answer_of(torch.tensor([[torch.nan, torch.inf]]), y[:0]).scores.tolist() == [[0.0, 0.0]]


def test_one_known_row_a_class_is_all_that_hassle_asks_for():
    request = Hassle().auxiliary_request()
    assert (request.how, request.per_class) == ("per_class", 1)


def test_the_mapping_is_the_best_of_all_that_there_are():
    tops, cluster, received = drawn(0, 1, 4, 5), torch.arange(40) % 4, drawn(1, 40, 5)

    def cosine(classes):
        pushed = tops[0].mean(0) - tops[0][list(classes)][cluster]
        return float((pushed * received).sum() / pushed.norm())

    best = max(itertools.permutations(range(4)), key=cosine)  # the class of each cluster; one top, equal clusters
    assert [best.index(k) for k in range(4)] == mapping(received, cluster, tops).tolist()


def test_the_mapping_is_read_off_gradients_where_a_simulated_top_model_is_the_real_one():
    tops, y = drawn(0, 3, 4, 5), torch.arange(40) % 4
    received = tops[1].mean(0) - tops[1][y]
    cluster = (y + 1) % 4  # class k is called k + 1
    assert mapping(received, cluster, tops).tolist() == [1, 2, 3, 0]


def test_gradients_of_the_right_surrogate_are_matched_and_of_another_one_are_not():
    top = nn.Linear(WIDTH, CLASSES)
    sent, labels = drawn(0, 8, WIDTH), torch.tensor([0, 1, 2])
    known = drawn(1, CLASSES, WIDTH)
    pseudo = torch.cdist(sent, known).argmin(1)
    with torch.no_grad():
        received = (top(sent).softmax(-1) - one_hot(pseudo, CLASSES)) @ top.weight
    held = PartyData(sent[None], received[None], sent, torch.arange(3), labels, CLASSES)
    assert gradient_distance(top, torch.cat([sent, known]), received, held).item() == pytest.approx(0, abs=1e-9)
    other = gradient_distance(top, torch.cat([sent, known]), received + 1, held)
    assert other.item() == pytest.approx(8 * WIDTH, rel=1e-4)


def test_the_table_counts_a_gain_in_units_of_what_the_larger_floor_leaves(tmp_path):
    def row(seed, success, found):
        return {
            "cell": "digits-kdk",
            "seeds": [seed],
            "attacks": [DEFAULT, "lea"],
            "default": {"pmc": [[success], 0.6, 0.0], "norm": [[0.1], 0.5, 0.0]},
            "found": {"lea": {"variants": {"first": [[found], 0.8, 0.0]}}},
        }

    out = tmp_path / "rows.jsonl"
    out.write_text("\n".join(map(json.dumps, [row(0, 0.84, 0.9), row(1, 0.88, 0.88)])))
    assert list(table(out))[-1].startswith("| digits-kdk (2) | 0.600 | 0.860 pmc | - | **0.890 first, +0.15** |")


def test_every_cell_can_be_opened_under_the_board_s_conditions():
    task = task_of("breast_cancer-marvell", [3])
    assert (task.cell.defense, task.cell.seeds, task.cell.threat.labels_per_class) == ("marvell", (3,), 10)
    assert len(CELLS) == 26
