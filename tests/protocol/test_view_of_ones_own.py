"""Views of a training loop of one's own: every attack that reads gradients or embeddings runs on them."""

import pytest
import torch

from tune_vfl.attacks import Direction, GradCluster, Mean, Median, Norm, Pmc, View
from tune_vfl.errors import NotGrantedError
from tune_vfl.metrics import leak_auc
from tune_vfl.protocol.view import Recording
from tune_vfl.seeds import Stream, Streams

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


@pytest.mark.parametrize(
    "view_with",
    [
        lambda **seed: View.from_gradients(GRADIENTS, labels=Y, **seed),
        lambda **seed: View.from_embeddings(GRADIENTS, (KNOWN, Y[KNOWN]), num_classes=2, **seed),
    ],
    ids=["gradients", "embeddings"],
)
def test_what_is_drawn_follows_the_seed_which_is_0_unless_it_is_named(view_with):
    for view, seed in ((view_with(), 0), (view_with(seed=7), 7)):
        assert torch.equal(view.streams["noise"].normal(5), Stream(seed, "noise").normal(5))
        assert (view.lead, view.num_classes) == ((), 2)


def test_an_oracle_of_ones_own_judges_each_fold_by_the_others_and_the_prior_counts_all():
    view = View.from_gradients(GRADIENTS, labels=Y, seed=3)
    recording = view.recording("last")
    assert torch.equal(recording.ids, torch.arange(600))
    assert torch.equal(recording.gradients, GRADIENTS)
    torch.testing.assert_close(view.class_prior, Y.bincount() / 600)
    found = view.class_oracle.of(recording.gradients, recording.ids, "mean")
    by_key = Stream(3, "class_oracle/folds").uniform(600)[Y == 1].argsort()
    in_order = found.folds[Y == 1][by_key]
    assert torch.equal(in_order, (in_order[0] + torch.arange(len(in_order))) % 10)
    for fold in range(10):
        center = GRADIENTS[(Y == 1) & (found.folds != fold)].mean(0)
        torch.testing.assert_close(found.without[fold, 1], center)


def test_without_a_number_one_hint_is_given_where_there_is_any():
    view = View.from_gradients(GRADIENTS, batch_size=200, known=(KNOWN, Y[KNOWN]))
    hints = view.positive_hints(view.recording("last"))
    first = [next(int(at) for at in KNOWN if Y[at] == 1 and start <= at < start + 200) for start in (0, 200, 400)]
    assert hints.tolist() == [[at] for at in first]
    nobody = View.from_gradients(GRADIENTS, batch_size=200, known=(KNOWN[:3], torch.zeros(3, dtype=torch.int64)))
    assert nobody.positive_hints(nobody.recording("last"), 2).tolist() == [[-1, -1]] * 3


def test_rows_to_say_something_of_stand_in_for_one_another():
    with_test = View.from_embeddings(GRADIENTS, (KNOWN, Y[KNOWN]), num_classes=2, test=GRADIENTS[5:9])
    assert torch.equal(with_test.features.test, GRADIENTS[5:9])
    without = View.from_embeddings(GRADIENTS, (KNOWN, Y[KNOWN]), num_classes=2)
    assert torch.equal(without.features.test, GRADIENTS[:1])
    assert torch.equal(without.bottom()(GRADIENTS), GRADIENTS)
    assert (without.auxiliary.ids is KNOWN, without.auxiliary.labels.tolist()) == (True, Y[KNOWN].tolist())


def test_grants_of_a_view_can_be_replaced_and_the_others_stay():
    view = View.from_gradients(GRADIENTS, labels=Y)
    other = view.holding(class_prior=torch.tensor([0.5, 0.5]), features="mine")
    assert other.class_prior.tolist() == [0.5, 0.5]
    assert other.granted("features") == "mine"
    assert other.recording("last") is view.recording("last")
    assert view.class_prior.tolist() != [0.5, 0.5]


def test_restarts_and_draws_are_guessed_from_streams_of_their_own():
    asked = []
    view = View("mine", (), 2, Streams(0), dict.fromkeys(("known_bottom", "open_bottom"), asked.append))
    view.known_bottom()
    view.known_bottom(2)
    view.open_bottom()
    view.open_bottom(3)
    assert asked == ["known_bottom/0", "known_bottom/2", "open_bottom/0", "open_bottom/3"]
