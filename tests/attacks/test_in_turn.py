"""Rounds of the matched filter: when they end, and which of them the answer is a mean of."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tune_vfl.attacks.matched_filter import MatchedFilter, MatchedFilterParams, _spans
from tune_vfl.attacks.parts.own_columns import ColumnRegression
from tune_vfl.attacks.parts.trust import Trust

ROWS, KNOWN, ROUNDS = 200, 20, 8


def labels_of(classes: int) -> Tensor:
    return torch.arange(ROWS) % classes


def said_of(y: Tensor, classes: int, size: float = 3.0) -> Tensor:
    """Return log likelihoods ``(1, n, K)`` by which each row is of its class."""
    return size * torch.nn.functional.one_hot(y, classes).float()[None]


class Said:
    """A model of gradients whose evidence depends on the round and the member alone.

    Attributes:
        members: numbers of the members that are asked for.
        asked: how many members each round asked, shared with the models of some of them.
    """

    def __init__(self, evidence: Callable[[int, int], Tensor], members: Tensor, asked: list[int]) -> None:
        self.by_round, self.members, self.asked = evidence, members, asked

    def evidence(self, shares: Tensor) -> list[Tensor]:
        assert len(shares) == len(self.members)
        self.asked.append(len(self.members))
        return [torch.cat([self.by_round(len(self.asked), int(member)) for member in self.members])]

    def of_members(self, members: Tensor) -> Said:
        return Said(self.by_round, self.members[members], self.asked)


def in_turn(evidence: Callable[[int, int], Tensor], classes: int, members: int = 1) -> tuple[Tensor, list[int]]:
    """Return the logits of rounds, and how many members each asked."""
    y = labels_of(classes).expand(members, -1)
    prior = torch.full((members, 1, classes), 1 / classes).log()
    trust = Trust(prior, y[:, :KNOWN], None)
    nothing = torch.zeros(members, ROWS, classes)
    own = ColumnRegression.held(torch.zeros(members, ROWS, 1), known=trust.known)
    model = Said(evidence, torch.arange(members), [])
    attack = MatchedFilter(MatchedFilterParams(rounds=ROUNDS))
    logits = attack._in_turn(model, (nothing, nothing), start=nothing, own=own, trust=trust)  # type: ignore[arg-type]
    return logits, model.asked


def share_right(logits: Tensor, classes: int) -> float:
    return (logits[0, KNOWN:].argmax(-1) == labels_of(classes)[KNOWN:]).float().mean().item()


def test_rounds_end_when_labels_no_longer_move() -> None:
    logits, asked = in_turn(lambda *_: said_of(labels_of(2), 2), 2)
    assert len(asked) == 2, "the first moves all labels, the second none"
    assert share_right(logits, 2) == 1


def test_rounds_go_on_while_a_few_rows_move_and_at_most_for_so_many() -> None:
    def few_move(number: int, _: int) -> Tensor:
        y = labels_of(2).clone()
        y[100:104] = number % 2
        return said_of(y, 2)

    assert len(in_turn(few_move, 2)[1]) == ROUNDS


@pytest.mark.parametrize("classes", [2, 3])
def test_a_member_at_rest_is_asked_no_more_and_keeps_the_answer_that_it_has_alone(classes: int) -> None:
    def member_one_moves(number: int, member: int) -> Tensor:
        y = labels_of(classes).clone()
        y[100:104] = (y[100:104] + member * number) % classes
        return said_of(y, classes, size=3.0 - member)

    both, asked = in_turn(member_one_moves, classes, members=3)
    assert asked[:2] == [3, 3]
    assert asked[2] == (2 if classes == 3 else 1), "twice as far is no move of two classes"
    for member in range(3):
        alone, _ = in_turn(lambda number, _, member=member: member_one_moves(number, member), classes)  # type: ignore[misc]
        torch.testing.assert_close(both[member], alone[0])


def test_of_two_classes_the_earlier_rounds_are_heard_too() -> None:
    def fading(number: int, _: int) -> Tensor:
        y = labels_of(2).clone()
        y[100:104] = number % 2  # or the rounds would end
        if number <= ROUNDS // 2:
            return said_of(y, 2)
        y[KNOWN:] = 1 - y[KNOWN:]
        return said_of(y, 2, size=0.5)

    logits, asked = in_turn(fading, 2)
    assert len(asked) == ROUNDS
    assert share_right(logits, 2) > 0.95


def test_of_more_classes_the_later_rounds_alone_are_the_answer() -> None:
    def changing(number: int, _: int) -> Tensor:
        y = labels_of(3).clone()
        y[100:104] = number % 2
        if number <= ROUNDS // 2:
            y[KNOWN:] = (y[KNOWN:] + 1) % 3
            return said_of(y, 3)
        return said_of(y, 3, size=0.5)

    assert share_right(in_turn(changing, 3)[0], 3) > 0.95


def test_mean_gradients_are_of_the_whole_training_and_of_its_first_and_last_fifth() -> None:
    received = torch.arange(20.0).view(1, 20, 1, 1).expand(1, 20, 3, 2)
    whole, first, last = _spans(received)
    assert (whole[0, 0, 0], first[0, 0, 0], last[0, 0, 0]) == (9.5, 1.5, 17.5)
    assert [part[0, 0, 0].item() for part in _spans(received[:, :2])] == [0.5, 0.0, 1.0]
