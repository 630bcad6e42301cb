"""What a view holds of embeddings and models, laid beside what was trained, fed and sent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.helpers.granted import MEMBERS, SEEDS, TRIALS, Seeing, labels_of, trained
from tests.helpers.problems import made_up_split, network_for
from tune_vfl.attacks.base import ATTACKS, TargetRequest
from tune_vfl.data.base import Split
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.evaluation.grants.base import view_of
from tune_vfl.evaluation.grants.known_bottom import DisguisedBottom, KnownBottom
from tune_vfl.evaluation.grants.open_bottom import OpenBottom
from tune_vfl.evaluation.grants.pairs import KnownPairs
from tune_vfl.evaluation.grants.parameter_gradient import FirstRowsFed, UntrainedBottom, parameter_gradient
from tune_vfl.evaluation.grants.received import ReceivedEmbeddings, SentEmbeddings, target_rows
from tune_vfl.evaluation.training import build_network
from tune_vfl.models.layers import Linear, select_member
from tune_vfl.protocol.hooks import Hooks
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.members import Pack, Rows
from tune_vfl.seeds import Stream, Streams
from tune_vfl.spec import Strict, Training
from tune_vfl.spec.study import Threat


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


class Guessing(DEFENSES["none"]):  # type: ignore[misc,name-defined]
    """Draws three numbers in the place of what it keeps secret."""

    def disguised(self, bottom: torch.nn.Module, *, stream: Stream) -> torch.nn.Module:
        self.guess = stream.uniform(3)
        return bottom

    open_bottom = disguised


@pytest.mark.parametrize("pack", [Pack((3,), None), Pack(SEEDS, TRIALS)])
def test_secrets_are_guessed_from_the_attack_s_stream_of_each_member(pack: Pack) -> None:
    split = made_up_split(0) if pack.trials is None else Split.stack([made_up_split(seed) for seed in pack.seeds])
    keeper, defense = DisguisedBottom([], Training(), 70), Guessing(Strict(), num_classes=2, embedding_dims=[5])
    network = network_for(made_up_split(0), pack)
    keeper.end(SplitTraining(network, Rows(split, pack), Training(), [defense, keeper], pack.lead))
    run: Any = SimpleNamespace(kept=lambda kind: keeper)
    for grant, name in ((KnownBottom(), "known_bottom/2"), (OpenBottom(), "open_bottom/1")):
        found = grant.hand_out(Seeing(), run)(name)
        assert torch.equal(defense.guess, Stream(pack.member_seeds, f"attack/seeing/{name}").uniform(3))
        for mine, own in zip(found.parameters(), network.bottoms[0].parameters(), strict=True):
            assert torch.equal(mine, own)
