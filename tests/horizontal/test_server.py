"""What the server makes of updates, by hand: means weighted by rows, sums under secure aggregation, who took part."""

import time
from typing import Any

import pytest
import torch

from tests.helpers.federations import begun, task_of
from tune_vfl.errors import DataError
from tune_vfl.horizontal.server import Observer, ReceivedUpdate, Server
from tune_vfl.horizontal.shards import shards
from tune_vfl.horizontal.vector import Vector
from tune_vfl.protocol.members import Pack
from tune_vfl.spec.federation import Federation

ALONE = Pack((0,), None)
SGD: dict[str, Any] = {"optimizer": "sgd", "lr": 0.2, "batch_size": 32}
START = torch.tensor([[1.0, 2.0], [10.0, 20.0]])
"""Two members, two numbers."""


class Notes(Observer):
    def __init__(self) -> None:
        self.seen: list[ReceivedUpdate] = []

    def received(self, what: ReceivedUpdate) -> None:
        self.seen.append(what)


def served(*, secure: bool, rounds: int = 1) -> tuple[Server, list[ReceivedUpdate]]:
    """Two clients: one of 30 rows, one of 10; with the second member the second takes no part and sends no number."""
    server = Server(START, secure=secure, observers=[notes := Notes()])
    for number in range(rounds):
        server.receive(number, 0, torch.tensor([[1.0, 0.0], [4.0, 8.0]]), weights=torch.tensor([30.0, 30.0]))
        lost = torch.tensor([[5.0, 4.0], [float("nan"), 7.0]])
        server.receive(number, 1, lost, weights=torch.tensor([10.0, 0.0]))
        server.close(number)
    return server, notes.seen


@pytest.mark.parametrize("secure", [False, True])
def test_updates_count_by_rows_and_who_takes_no_part_counts_nothing(secure: bool) -> None:
    server, _ = served(secure=secure)
    mean = torch.tensor([[(30 * 1 + 10 * 5) / 40, 10 * 4 / 40], [4.0, 8.0]])
    torch.testing.assert_close(server.shared, START + mean)
    twice, _ = served(secure=secure, rounds=2)
    torch.testing.assert_close(twice.shared, START + 2 * mean, msg="a round begins with nothing received")


def test_the_server_sees_each_update_with_the_state_it_began_from() -> None:
    server, seen = served(secure=False, rounds=2)
    assert [(r.round, r.client) for r in seen] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [r.taking.tolist() for r in seen[:2]] == [[True, True], [True, False]]
    assert torch.equal(seen[0].sent, START)
    assert torch.equal(seen[1].sent, START), "nothing moves before the round is over"
    torch.testing.assert_close(seen[2].sent - START, server.shared - seen[2].sent)
    assert torch.equal(seen[0].update, torch.tensor([[1.0, 0.0], [4.0, 8.0]]))


def test_with_secure_aggregation_it_sees_the_mean_alone() -> None:
    server, (whole,) = served(secure=True)
    assert (whole.round, whole.client, whole.taking.tolist()) == (0, None, [True, True])
    torch.testing.assert_close(whole.update, server.shared - START)
    assert torch.equal(whole.sent, START)


def test_a_vector_holds_members_side_by_side() -> None:
    first, second = torch.arange(8.0).reshape(2, 4), torch.arange(100.0, 112.0).reshape(2, 3, 2)
    vector = Vector([first, second], (2,))
    assert (vector.members, vector.width) == (2, 10)
    assert vector.read().tolist()[1] == [4.0, 5.0, 6.0, 7.0, 106.0, 107.0, 108.0, 109.0, 110.0, 111.0]
    vector.write(vector.read() + 1)
    assert first[0].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert second[1, 2].tolist() == [111.0, 112.0]
    assert Vector([torch.ones(2, 3)], ()).read().shape == (1, 6)
    assert Vector([], (3,)).read().shape == (3, 0)


def test_clients_of_other_sizes_count_by_their_rows() -> None:
    task = task_of(clients=3, rounds=1, shards={"dirichlet": 0.4}, training=SGD)
    clients, cohorts, rounds = begun(task, ALONE)
    rounds.server._observers.append(notes := Notes())
    rounds.run()
    counts = clients.counts[0]
    assert len(set(counts.tolist())) == 3
    shares = counts / counts.sum()
    mean = sum(share * r.update for share, r in zip(shares, notes.seen, strict=True))
    torch.testing.assert_close(rounds.server.shared, notes.seen[0].sent + mean)
    for cohort in cohorts:
        torch.testing.assert_close(cohort.shared()[:, 0], rounds.server.shared), "everybody has what was averaged"


def test_a_round_is_told_when_everybody_has_what_was_averaged_and_time_is_kept() -> None:
    task = task_of(clients=2, rounds=3, training=SGD)
    _, cohorts, rounds = begun(task, ALONE)
    told = [(done, torch.equal(cohorts[0].shared()[:, 0], rounds.server.shared)) for done in rounds.steps()]
    assert told == [(1, True), (2, True), (3, True)]
    assert rounds.rounds == 3
    assert rounds.diverged.tolist() == [False]
    _, _, late = begun(task, ALONE)
    with pytest.raises(TimeoutError, match="stopped after 0 of 3 rounds"):
        next(late.steps(deadline=time.monotonic() - 1))
    assert [*begun(task, ALONE)[2].steps(deadline=time.monotonic() + 600)] == [1, 2, 3]


def test_training_ends_when_every_member_has_diverged_and_goes_on_while_one_has_not() -> None:
    task = task_of(clients=2, rounds=4, training={**SGD, "momentum": 0.0})
    pack = Pack((0, 1), 1)
    _, (cohort,), rounds = begun(task, pack)
    broken = cohort.shared().clone()
    broken[0] = float("nan")
    rounds.server.shared[0] = float("nan")
    cohort.take(broken[:, 0], *(v[:, 0] for v in (cohort.statistics(), cohort.hidden())))
    rounds.run()
    assert rounds.rounds == 4
    assert rounds.diverged.tolist() == [True, False]
    _, (cohort,), rounds = begun(task, pack)
    rounds.server.shared[:] = float("nan")
    rounds.run()
    assert rounds.rounds == 1
    assert rounds.diverged.tolist() == [True, True]


Y = torch.arange(24) % 3


def cut(clients: int, **how: object) -> list[torch.Tensor]:
    return shards(Y, Federation(name="horizontal", clients=clients, shards=how or "iid"), 0)


def test_shards_at_their_edges() -> None:
    assert {len(held) for held in cut(12)} == {2}, "two rows each are enough"
    with pytest.raises(DataError, match="24 training rows do not give 13 clients 2 rows each"):
        cut(13)
    assert {len(held) for held in cut(12, classes=2)} == {2}, "24 pieces of a row"
    assert sorted(torch.cat(cut(12, classes=2)).tolist()) == list(range(24))
    with pytest.raises(DataError, match=r"24 training rows do not make 9 x 3 pieces"):
        cut(9, classes=3)
    pieces = [{int(label) for label in Y[held]} for held in cut(3, classes=1)]
    assert sorted(map(sorted, pieces)) == [[0], [1], [2]], "pieces of one class where clients are as many"
