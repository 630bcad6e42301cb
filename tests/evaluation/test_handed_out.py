"""What each grant hands out of a real training, laid beside what was trained, sent and labeled."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

from tests.helpers.cells import cells
from tests.helpers.problems import made_up_split, network_for
from tune_vfl.attacks.base import ATTACKS, Attack, AttackCapabilities, AuxiliaryRequest, TargetRequest
from tune_vfl.data.split import auxiliary_rows
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.errors import NotGrantedError
from tune_vfl.evaluation.grants.auxiliary import AuxiliaryLabels
from tune_vfl.evaluation.grants.base import GRANTS, view_of
from tune_vfl.evaluation.grants.gradients import ReceivedGradients
from tune_vfl.evaluation.grants.pairs import KnownPairs
from tune_vfl.evaluation.grants.parameter_gradient import FirstRowsFed, UntrainedBottom, parameter_gradient
from tune_vfl.evaluation.grants.received import ReceivedEmbeddings, SentEmbeddings, target_rows
from tune_vfl.evaluation.run import Run
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import build_network, train_pack, untrained
from tune_vfl.models.layers import Linear, select_member
from tune_vfl.protocol.granted import Average
from tune_vfl.protocol.hooks import Hooks
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.members import Pack, Rows
from tune_vfl.protocol.view import View
from tune_vfl.seeds import Stream, Streams
from tune_vfl.spec import Strict, Training
from tune_vfl.spec.study import Threat

SEEDS, TRIALS = (3, 5), 2
MEMBERS = [(trial, seed) for trial in range(TRIALS) for seed in SEEDS]
cell_of = cells("training.epochs=3", "training.batch_size=100", defense="none")


class Seeing(Attack[Strict]):
    """Sees every grant there is, and writes down every gradient by taking part."""

    name = "seeing"
    capabilities = AttackCapabilities(acts=True)
    wants: Any = AuxiliaryRequest()

    def __init__(self) -> None:
        super().__init__()
        self.pages: list[tuple[int, torch.Tensor, torch.Tensor]] = []

    def sees(self) -> frozenset[str]:
        return frozenset(GRANTS.names())

    def moments(self) -> Any:
        return ("first_batch", "epoch0", "last", Average(2))

    def auxiliary_request(self) -> Any:
        return self.wants

    def target_request(self) -> TargetRequest:
        return TargetRequest(rows=7, pairs=11)

    def hooks(self, training: Any, view: View) -> list[Hooks]:
        diary = self.pages

        class Diary(Hooks):
            def gradient_received(self, gradient: Any, *, party: int, ids: Any, epoch: int, step: int) -> None:
                diary.append((epoch, ids.clone(), gradient.clone()))

        return [Diary()]

    def run(self, view: View) -> dict[str, Any]:
        return {}


@cache
def trained() -> tuple[Seeing, Run, View]:
    """Train two trials of two seeds; return who sees everything, the training, and the view."""
    attack, task = Seeing(), Task.open(cell_of("norm"))
    run = train_pack(task, [Strict()] * TRIALS, Pack(SEEDS, TRIALS), [attack])
    return attack, run, view_of(attack, run)


def labels_of(member: int) -> torch.Tensor:
    return trained()[1].split.y_train[member % len(SEEDS)]


@pytest.mark.parametrize("name", ATTACKS.names())
def test_a_view_holds_what_its_attack_lists_and_nothing_more(name: str) -> None:
    attack, (_, run, _) = ATTACKS[name](), trained()
    view = view_of(attack, run)
    assert set(view.held) == set(attack.sees())
    for other in set(GRANTS.names()) - attack.sees():
        with pytest.raises(NotGrantedError, match=other):
            view.granted(other)
    assert (view.attack, view.lead, view.num_classes) == (name, (4,), 2)


def test_an_attack_draws_from_streams_of_its_own_name() -> None:
    _, run, _ = trained()
    views = [view_of(ATTACKS[name](), run) for name in ("pmc", "norm")]
    drawn = [view.streams["noise"].normal(5) for view in views]
    assert not torch.equal(*drawn)
    assert torch.equal(drawn[0], Stream([seed for _, seed in MEMBERS], "attack/pmc/noise").normal(5))
    other = ATTACKS["embedding_extension"]
    assert other.draws_as is not None
    same = Stream([seed for _, seed in MEMBERS], f"attack/{other.draws_as}/noise").normal(5)
    assert torch.equal(view_of(other(), run).streams["noise"].normal(5), same)


def handed_out(request: AuxiliaryRequest | None, pack: Pack, *settings: str) -> Any:
    attack = Seeing()
    attack.wants = request
    run = untrained(Task.open(cell_of("norm", settings=settings)), pack)
    return AuxiliaryLabels().hand_out(attack, run), run


@pytest.mark.parametrize(
    ("request_", "settings", "each"),
    [
        (AuxiliaryRequest(), (), 10),  # the data set's recipe
        (AuxiliaryRequest(), ("threat.labels_per_class=3",), 3),
        (AuxiliaryRequest(per_class=6), ("threat.labels_per_class=3",), 6),
    ],
)
def test_as_many_labels_are_known_as_the_request_the_threat_or_the_recipe_says(request_, settings, each) -> None:
    found, run = handed_out(request_, Pack(SEEDS, TRIALS), *settings)
    assert run.task.dataset.recipe.auxiliary_per_class == 10
    assert found.ids.shape == found.labels.shape == (4, 2 * each)
    for member, (_, seed) in enumerate(MEMBERS):
        y = run.split.y_train[member % 2]
        assert torch.equal(found.ids[member], auxiliary_rows(y, per_class=each, seed=seed))
        assert torch.equal(found.labels[member], y[found.ids[member]])
        assert found.labels[member].bincount().tolist() == [each, each]
    alone, one = handed_out(request_, Pack((SEEDS[1],), None), *settings)
    assert torch.equal(alone.ids, found.ids[1])
    assert torch.equal(alone.labels, one.split.y_train[alone.ids])


def test_random_labels_are_as_many_in_all_and_of_any_class() -> None:
    pack = Pack((3,), None)
    found, run = handed_out(AuxiliaryRequest(how="random", total=15), pack)
    assert torch.equal(found.ids, auxiliary_rows(run.split.y_train, total=15, how="random", seed=3))
    assert len(handed_out(AuxiliaryRequest(how="random"), pack)[0].ids) == 20
    assert len(handed_out(AuxiliaryRequest(how="random"), pack, "threat.labels_per_class=4")[0].ids) == 8


def test_smaller_sets_of_labels_are_parts_of_the_larger_and_none_are_known_where_none_are_asked_for() -> None:
    found, _ = handed_out(AuxiliaryRequest(smaller=(2, 5)), Pack(SEEDS, 1))
    assert {n: known.ids.shape[-1] for n, known in found.smaller.items()} == {2: 4, 5: 10}
    for member in range(2):
        two, five, ten = (set(k.ids[member].tolist()) for k in (found.smaller[2], found.smaller[5], found))
        assert two < five < ten
    assert handed_out(None, Pack(SEEDS, 1))[0] is None


def test_the_prior_is_the_classes_shares_among_the_training_rows() -> None:
    prior = trained()[2].class_prior
    for member in range(4):
        counts = labels_of(member).bincount(minlength=2)
        torch.testing.assert_close(prior[member], counts / counts.sum())


@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_the_oracle_s_centers_are_those_of_each_class_without_each_fold(statistic: str) -> None:
    view = trained()[2]
    recording = view.recording("last")
    found = view.class_oracle.of(recording.gradients, recording.ids, statistic)
    keys = Stream([seed for _, seed in MEMBERS], "class_oracle/folds").uniform(recording.ids.shape[-1])
    for member in range(4):
        y = labels_of(member)[recording.ids[member]]
        folds, values = found.folds[member], recording.gradients[member]
        assert set(folds.tolist()) == set(range(10))
        for k in (0, 1):
            sizes = folds[y == k].bincount(minlength=10)
            assert sizes.max() - sizes.min() <= 1
            for f in range(10):
                others = values[(y == k) & (folds != f)]
                center = others.mean(0) if statistic == "mean" else others.quantile(0.5, dim=0)
                torch.testing.assert_close(found.without[member, f, k], center, rtol=1e-4, atol=1e-9)
        # A row stays in its fold in whatever order rows come: the seed's keys say which.
        by_key = keys[member][recording.ids[member]][y == 0].argsort()
        in_order = folds[y == 0][by_key]
        assert torch.equal(in_order, (in_order[0] + torch.arange(len(in_order))) % 10)


def test_a_member_alone_is_granted_what_it_is_granted_in_the_pack() -> None:
    attack, run, view = trained()
    for member in range(4):
        alone = view_of(attack, run.member(member))
        recording, own = view.recording("last"), alone.recording("last")
        assert (alone.lead, own.batches) == ((), recording.batches)
        torch.testing.assert_close(alone.class_prior, view.class_prior[member])
        assert torch.equal(alone.features.test, view.features.test[member])
        assert torch.equal(alone.auxiliary.ids, view.auxiliary.ids[member])
        assert torch.equal(alone.positive_hints(own, 3), view.positive_hints(recording, 3)[member])
        for statistic in ("mean", "median"):
            mine = alone.class_oracle.of(own.gradients, own.ids, statistic)
            whole = view.class_oracle.of(recording.gradients, recording.ids, statistic)
            assert torch.equal(mine.folds, whole.folds[member])
            torch.testing.assert_close(mine.without, whole.without[member], rtol=1e-4, atol=1e-9)


def test_features_and_bottom_are_the_party_s_own() -> None:
    _, run, view = trained()
    assert view.features.added == 0
    for member in range(4):
        assert torch.equal(view.features.train[member], run.split.passive_train[0][member % 2])
        assert torch.equal(view.features.test[member], run.split.passive_test[0][member % 2])
    bottom = view.bottom()
    assert bottom is not run.network.bottoms[0]
    for mine, own in zip(bottom.parameters(), run.network.bottoms[0].parameters(), strict=True):
        assert torch.equal(mine, own)


def test_columns_that_a_defense_adds_are_counted() -> None:
    task = Task.open(cell_of("pmc", defense="labobf"))
    attack = task.attacks[0]
    run = train_pack(task, [DEFENSES["labobf"].Params()], Pack((0,), None), [attack])
    features, own = view_of(attack, run).features, task.dataset.passive[0].shape[-1]
    assert features.added == features.train.shape[-1] - own > 0
    assert features.train.shape[-1] == features.test.shape[-1]


def test_recordings_are_what_was_received() -> None:
    attack, run, view = trained()
    rows = run.split.y_train.shape[-1]
    steps = -(-rows // 100)
    first, last = attack.pages[:steps], attack.pages[2 * steps :]
    for moment, pages in (("first_batch", first[:1]), ("epoch0", first), ("last", last)):
        recording = view.recording(moment)
        assert torch.equal(recording.ids, torch.cat([ids for _, ids, _ in pages], -1))
        assert torch.equal(recording.gradients, torch.cat([g for _, _, g in pages], -2))
        assert recording.batches == tuple((s, min(s + 100, rows)) for s in range(0, 100 * len(pages), 100))
    own = view_of(attack, run.member(2))
    assert torch.equal(own.recording("last").gradients, view.recording("last").gradients[2])
    assert set(view.granted("gradients")) == {"first_batch", "epoch0", "last", Average(2)}


def test_what_is_kept_of_a_member_was_kept_for_the_same_attacks_of_the_same_training() -> None:
    attack, run, _ = trained()
    for keeper in run.keepers.values():
        own = keeper.member(1)
        assert type(own) is type(keeper)
        assert (own.attacks, own.training, own.rows) == ([attack], run.task.cell.training, run.split.y_train.shape[-1])


def test_noise_stands_in_for_recordings_where_nothing_was_trained() -> None:
    class Norm(Seeing):
        def sees(self) -> frozenset[str]:
            return frozenset({"gradients"})

    run = untrained(Task.open(cell_of("norm")), Pack(SEEDS, TRIALS), [Norm()])
    view, rows = view_of(Norm(), run), run.split.y_train.shape[-1]
    for moment, count in (("first_batch", 100), ("epoch0", rows), ("last", rows), (Average(2), rows)):
        found = view.recording(moment)
        assert found.ids.shape == (4, count)
        assert torch.equal(found.ids, torch.arange(count).expand(4, count))
        assert found.batches == tuple((s, min(s + 100, count)) for s in range(0, count, 100))
        own = found.gradients * found.batch_rows.unsqueeze(-1)  # of each row's own loss
        assert own.shape[:2] == (4, count)
        assert own.mean().abs() < 0.1
        assert own.std().item() == pytest.approx(1, abs=0.05)
        # What is drawn depends on seed and moment, and not on the trial.
        assert torch.equal(own[:2], own[2:])
        stream = Stream([seed for _, seed in MEMBERS], f"untrained/received/{moment}")
        torch.testing.assert_close(own, stream.normal(count, own.shape[-1]))
    assert torch.equal(run.member(1).kept(ReceivedGradients).recordings()["last"].ids, torch.arange(rows))


def positives(recording: Any, member: int) -> torch.Tensor:
    return labels_of(member)[recording.ids[member]] == 1


def test_hints_are_positives_of_each_batch_drawn_without_replacement() -> None:
    _, run, view = trained()
    recording = view.recording("last")
    for asked, count in ((None, run.task.cell.threat.hints), (1, 1), (4, 4), (500, 500)):
        hints = view.positive_hints(recording, asked)
        assert hints.shape == (4, len(recording.batches), count)
        for member in range(4):
            is_positive = positives(recording, member)
            for (start, stop), row in zip(recording.batches, hints[member], strict=True):
                given = row[row >= 0]
                assert len(given) == min(count, int(is_positive[start:stop].sum()))
                assert is_positive[given].all()
                assert ((given >= start) & (given < stop)).all()
                assert len(set(given.tolist())) == len(given)
                assert (row[len(given) :] == -1).all()
    one = view.positive_hints(recording, 1)
    assert torch.equal(one, view.positive_hints(recording, 1))  # asked again, the same rows
    assert torch.equal(one[:2], one[2:])  # of a seed, the same rows under every setting
    assert not torch.equal(one[0], one[1])


def test_hints_are_rows_that_received_something_where_there_are_such() -> None:
    _, _, view = trained()
    recording = view.recording("last")
    start, stop = recording.batches[0]
    told = positives(recording, 0)[start:stop].nonzero().flatten()[-1] + start
    silent = torch.zeros_like(recording.gradients)
    silent[0, told, 0] = -1e-9
    quiet = type(recording)(recording.ids, silent, recording.batches)
    hints = view.positive_hints(quiet, 3)
    assert hints[0, 0].tolist() == [int(told), -1, -1]
    assert (hints[0, 1:] >= 0).all()  # batches in which nobody received anything


def test_rows_under_attack_and_known_ones_are_apart_and_as_many_as_asked_for() -> None:
    targets, known = target_rows(TargetRequest(rows=7, pairs=11), 90, 0)
    assert (len(targets), len(known)) == (7, 11)
    assert len({*targets.tolist(), *known.tolist()}) == 18
    again, more = target_rows(TargetRequest(rows=7, pairs=30), 90, 0)
    assert torch.equal(again, targets)
    assert torch.equal(more[:11], known)
    assert not torch.equal(target_rows(TargetRequest(rows=7), 90, 1)[0], targets)
    assert len(target_rows(TargetRequest(rows=70), 90, 0)[0]) == 45
    assert len(target_rows(TargetRequest(rows=7), 90, 0)[1]) == 15
    assert len(target_rows(TargetRequest(rows=7), 90_000, 0)[1]) == 10_000
    assert len(target_rows(TargetRequest(rows=7, pairs="threat"), 9000, 0)[1]) == Threat().pairs
    assert len(target_rows(TargetRequest(rows=7, pairs="threat"), 90, 0, Threat(pairs=5))[1]) == 5


def test_what_the_label_party_received_is_what_was_sent_for_the_rows_under_attack() -> None:
    attack, run, view = trained()
    with torch.no_grad():
        sent = run.network.bottoms[0](view.features.train)
    for member, (_, seed) in enumerate(MEMBERS):
        targets, known = target_rows(attack.target_request(), labels_of(member).shape[0], seed)
        assert torch.equal(view.received.ids[member], targets)
        torch.testing.assert_close(view.received.embeddings[member], sent[member][targets])
        assert torch.equal(view.pairs.features[member], view.features.train[member][known])
        torch.testing.assert_close(view.pairs.embeddings[member], sent[member][known])
        alone = view_of(attack, run.member(member))
        assert torch.equal(alone.received.embeddings, view.received.embeddings[member])
        assert torch.equal(alone.pairs.features, view.pairs.features[member])
    assert view.received.shape == view.features.train.shape[2:]
    assert ReceivedEmbeddings().hand_out(ATTACKS["norm"](), run) is None
    assert KnownPairs().hand_out(ATTACKS["norm"](), run) is None


class Doubling(Hooks):
    """Changes what is fed and what is sent."""

    def inputs(self, batch: Any, rows: Any, *, epoch: int) -> Any:
        return batch.with_features([2 * x for x in batch.features])

    def send_embedding(self, embedding: torch.Tensor, *, party: int) -> torch.Tensor:
        return embedding * (2 if party == 0 else 5)


def test_keepers_see_what_was_really_fed_and_sent() -> None:
    pack, split = Pack((0,), None), made_up_split(0, rows=70)
    network = network_for(split, pack)
    before = [p.clone() for p in network.bottoms[0].parameters()]
    training = Training(epochs=2, batch_size=32)
    fed, sent, start = (kind([], training, 70) for kind in (FirstRowsFed, SentEmbeddings, UntrainedBottom))
    loop = SplitTraining(network, Rows(split, pack), training, [Doubling(), fed, sent, start], pack.lead)
    start.begin(loop)
    loop.run()
    sent.end(loop)
    first = next(Rows(split, pack).batches(32))
    torch.testing.assert_close(fed.fed, 2 * first.passive[0])
    with torch.no_grad():
        torch.testing.assert_close(sent.sent, 2 * network.bottoms[0](split.passive_train[0]))
    assert all(torch.equal(a, b) for a, b in zip(before, start.bottom.parameters(), strict=True))


def test_the_gradient_of_the_parameters_is_what_the_first_batch_adds_up_to() -> None:
    _, run, view = trained()
    first, recording = view.first_batch, view.recording("first_batch")
    assert torch.equal(first.ids, recording.ids)
    start = build_network(run.task, run.split, run.pack, Streams([seed for _, seed in MEMBERS])).bottoms[0]
    assert all(torch.equal(a, b) for a, b in zip(first.bottom().parameters(), start.parameters(), strict=True))
    assert first.bottom() is not first.bottom()
    for member in range(4):
        x = view.features.train[member][recording.ids[member]]
        assert torch.equal(first.features[member], x)
        alone = select_member(start, member)
        (alone(x) * recording.gradients[member]).sum().backward()
        for found, parameter in zip(first.gradient, alone.parameters(), strict=True):
            torch.testing.assert_close(found[member], parameter.grad, rtol=1e-4, atol=1e-7)
        own = view_of(trained()[0], run.member(member)).first_batch
        assert torch.equal(own.features, x)
        torch.testing.assert_close(own.gradient[0], first.gradient[0][member], rtol=1e-4, atol=1e-7)
    assert (first.others, first.aggregation) == (1, run.task.architecture.options.aggregation)
    assert first.top is not None
    width = recording.gradients.shape[-1] * (2 if first.aggregation == "concat" else 1)
    logits = first.top(Stream([seed for _, seed in MEMBERS], "top"))(torch.zeros(4, 3, width))
    assert logits.shape == (4, 3, 2)


def test_a_parameter_that_takes_no_part_has_no_gradient() -> None:
    class Half(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.idle = Linear(3, 2, stream=Stream(0, "a")), torch.nn.Parameter(torch.ones(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.used(x)

    found = parameter_gradient(Half(), torch.ones(5, 3), torch.ones(5, 2))
    by_name = dict(zip(dict(Half().named_parameters()), found, strict=True))
    assert torch.equal(by_name["idle"], torch.zeros(4))
    assert torch.equal(by_name["used.weight"], torch.full_like(by_name["used.weight"], 5.0))


def test_without_secrets_the_label_party_knows_the_bottom_model_as_it_is() -> None:
    _, run, view = trained()
    trained_one = run.network.bottoms[0]
    for known in (view.known_bottom(), view.open_bottom(1)):
        assert known is not trained_one
        for mine, own in zip(known.parameters(), trained_one.parameters(), strict=True):
            assert torch.equal(mine, own)
    assert not any(p.requires_grad for p in view.open_bottom().parameters())
    alone = view_of(trained()[0], run.member(3))
    x = view.features.train[3]
    with torch.no_grad():
        torch.testing.assert_close(alone.known_bottom()(x), trained_one(view.features.train)[3])
        torch.testing.assert_close(alone.open_bottom()(x), trained_one(view.features.train)[3])
