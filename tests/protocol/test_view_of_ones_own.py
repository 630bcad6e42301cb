"""Views of a training loop of one's own: every attack that reads gradients or embeddings runs on them."""

from __future__ import annotations

import pytest
import torch

from tune_vfl.attacks import Direction, GradCluster, Mean, Median, Norm, Pmc, View
from tune_vfl.errors import NotGrantedError
from tune_vfl.metrics import leak_auc
from tune_vfl.protocol.view import Recording

G = torch.Generator().manual_seed(1)
Y = (torch.rand(600, generator=G) < 0.3).long()
GRADIENTS = torch.where(Y == 1, -0.8, 0.2).unsqueeze(-1) * torch.randn(4, generator=G) + 0.02 * torch.randn(
    600, 4, generator=G
)
KNOWN = torch.arange(0, 600, 12)


def auc(answer, *, flip=False):
    keep = slice(None) if answer.counted is None else answer.counted
    return leak_auc(answer.scores[keep].numpy(), Y[answer.ids][keep].numpy(), flip=flip)


@pytest.mark.parametrize(
    ("attack", "more"),
    [
        (Norm(), {}),
        (Direction(), {"known": (KNOWN, Y[KNOWN])}),
        (GradCluster(), {"known": (KNOWN, Y[KNOWN])}),
        (Mean(), {"labels": Y}),
        (Median(), {"labels": Y}),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_gradients_are_enough_for_what_reads_gradients(attack, more):
    view = View.from_gradients(GRADIENTS, batch_size=64, **more)
    for answer in attack.run(view).values():
        assert auc(answer, flip=not answer.oriented) > 0.95


def test_batches_have_the_asked_size_and_the_last_may_be_smaller():
    recording = View.from_gradients(GRADIENTS, batch_size=256).recording("epoch0")
    assert isinstance(recording, Recording)
    assert recording.batches == ((0, 256), (256, 512), (512, 600))
    assert View.from_gradients(GRADIENTS).recording("last").batches == ((0, 600),)


def test_hints_are_known_positives_of_the_batch_and_no_others():
    view = View.from_gradients(GRADIENTS, batch_size=200, known=(KNOWN, Y[KNOWN]))
    hints = view.positive_hints(view.recording("last"), 1000)
    given = hints[hints >= 0]
    assert sorted(given.tolist()) == KNOWN[Y[KNOWN] == 1].tolist()
    assert all(200 * batch <= int(at) < 200 * (batch + 1) for batch, row in enumerate(hints) for at in row[row >= 0])


def test_what_was_not_given_is_not_granted():
    with pytest.raises(NotGrantedError, match="class_oracle"):
        Mean().run(View.from_gradients(GRADIENTS))
    with pytest.raises(NotGrantedError, match="features"):
        Pmc().run(View.from_gradients(GRADIENTS))


def test_embeddings_and_a_few_labels_are_enough_for_model_completion():
    embeddings = torch.randn(600, 5, generator=G) + 3 * Y.unsqueeze(-1)
    view = View.from_embeddings(embeddings, (KNOWN, Y[KNOWN]), num_classes=2, test=embeddings[:50])
    answers = Pmc(Pmc.Params(variants=("logreg", "head_only"))).run(view)
    assert set(answers) == {"logreg", "head_only"}
    for answer in answers.values():
        assert auc(answer) > 0.95
        assert answer.test.shape == (50, 2)


def test_a_bottom_model_is_copied_and_stays_as_it_is():
    bottom = torch.nn.Linear(5, 3)
    before = bottom.weight.detach().clone()
    rows = torch.randn(600, 5, generator=G) + 3 * Y.unsqueeze(-1)
    view = View.from_embeddings(rows, (KNOWN, Y[KNOWN]), num_classes=2, bottom=bottom)
    answers = Pmc(Pmc.Params(variants=("mixmatch_unfrozen",), steps=20)).run(view)
    assert torch.isfinite(answers["mixmatch_unfrozen"].scores).all()
    assert torch.equal(bottom.weight, before)
