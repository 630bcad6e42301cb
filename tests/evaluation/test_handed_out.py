"""What a view holds of rows and labels, and what was received, laid beside what was trained, sent and labeled."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.helpers.granted import MEMBERS, SEEDS, TRIALS, Seeing, cell_of, labels_of, trained
from tune_vfl.attacks.base import ATTACKS, AuxiliaryRequest
from tune_vfl.data.split import auxiliary_rows
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.errors import NotGrantedError
from tune_vfl.evaluation.grants.auxiliary import AuxiliaryLabels
from tune_vfl.evaluation.grants.base import GRANTS, view_of
from tune_vfl.evaluation.grants.gradients import ReceivedGradients
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack, untrained
from tune_vfl.protocol.granted import Average
from tune_vfl.protocol.members import Pack
from tune_vfl.seeds import Stream


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
