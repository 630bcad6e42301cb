"""Direct label inference: undefended rows, coded labels, rows that give no answer."""

import pytest
import torch

from tune_vfl.attacks.base import ATTACKS
from tune_vfl.attacks.direct import RULES, infer
from tune_vfl.errors import SpecError
from tune_vfl.protocol.view import Recording, View
from tune_vfl.seeds import Streams

ROWS, K, BATCH = 60_000, 10, 32


@pytest.fixture(scope="module")
def first_step():
    """Labels and probabilities of a model at its starting weights."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, K, (ROWS,), generator=generator)
    return y, (0.05 * torch.randn(ROWS, K, generator=generator)).softmax(-1), generator


def success(gradients, y, rule):
    """Share of right labels, a row without an answer guessed uniformly."""
    label, failed = infer(gradients, rule)
    return ((label == y) & ~failed).float().mean().item() + failed.float().mean().item() / K


def one_hot(y):
    return torch.nn.functional.one_hot(y, K).float()


@pytest.mark.parametrize("rule", [r for r in RULES if r != "argmax"])  # which is for labels that were replaced
def test_an_undefended_first_step_gives_every_label_away(first_step, rule):
    y, p, _ = first_step
    assert success((p - one_hot(y)) / BATCH, y, rule) == 1.0


def test_labels_coded_by_the_classes_they_are_not_are_read_off_the_largest_entry(first_step):
    y, p, _ = first_step
    code = (1 - one_hot(y)) / (K - 1)
    assert success((p - code) / BATCH, y, "argmax") == 1.0
    assert success((p - code) / BATCH, y, "argmin") == 0.0


def test_rows_that_give_no_answer():
    rows = torch.tensor([[0.0, 0, 0], [-1, -1, -1], [1, 2, 3], [float("nan"), -1, 1], [1, -1, -2]])
    silent = {rule: infer(rows, rule)[1].tolist() for rule in RULES}
    assert silent["argmin"] == silent["argmax"] == [True, True, False, True, False]
    assert silent["first_negative"] == silent["argmax_of_negatives"] == [True, True, True, True, False]
    assert [infer(rows, rule)[0][-1].item() for rule in RULES] == [1, 2, 1, 0]


def test_a_single_logit_is_read_by_its_sign():
    label, failed = infer(torch.tensor([[-0.1], [0.2], [0.0]]), "argmin")
    assert label.tolist()[:2] == [1, 0]
    assert failed.tolist() == [False, False, True]


def run(gradients, moments=("first_batch", "epoch0"), classes=3, **params):
    n = len(gradients)
    recording = Recording(torch.arange(n), gradients, ((0, n),))
    cls = ATTACKS["direct"]
    built = cls(cls.Params(**params))
    return built, built.run(View("direct", (), classes, Streams(0), {"gradients": dict.fromkeys(moments, recording)}))


def test_variants_are_every_rule_at_every_scope():
    built, answers = run(torch.randn(5, 3))
    assert set(answers) == {f"{r}@{s}" for r in RULES for s in ("first_batch", "epoch0")}
    built, answers = run(torch.randn(5, 3), moments=("last",), rule="argmin", scope="last")
    assert set(answers) == {"argmin@last"}
    assert built.moments() == ("last",)


def test_failures_are_guessed_evenly_or_left_empty():
    _, guessed = run(torch.ones(9000, 3), rule="argmin", scope="epoch0")
    shares = guessed["argmin@epoch0"].scores.mean(0)
    assert shares.tolist() == pytest.approx([1 / 3] * 3, abs=0.02)
    _, failed = run(torch.ones(9, 3), rule="argmin", scope="epoch0", no_negative="fail")
    assert not failed["argmin@epoch0"].scores.any()


def test_gradients_behind_a_top_model_are_refused():
    with pytest.raises(SpecError, match=r"model\.top: none"):
        run(torch.ones(4, 7))
