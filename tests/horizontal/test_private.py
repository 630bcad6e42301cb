"""Nothing that is a client's own reaches the server: over all defenses that are for the horizontal setting."""

from dataclasses import dataclass, field, replace

import pytest
import torch
from torch import Tensor, nn

from tests.helpers.federations import begun, task_of
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.defenses.fedadob import Fedadob
from tune_vfl.horizontal.cohort import Cohort
from tune_vfl.horizontal.rounds import Rounds
from tune_vfl.horizontal.server import Observer, ReceivedUpdate
from tune_vfl.protocol.members import Pack

ALONE, TOGETHER = Pack((0,), None), Pack((0, 1), 1)
SMALL_CNN = {"name": "cnn", "channels": [4, 6]}
FIT = [name for name in DEFENSES if "horizontal" in DEFENSES[name].capabilities.federations]
APART = [name for name in FIT if DEFENSES[name].capabilities.client_bottom != "shared"]


def numbers(*modules: nn.Module) -> list[Tensor]:
    """Return what modules learn or keep: parameters, running statistics, passports."""
    whole = [t for module in modules for t in (*module.parameters(), *module.buffers())]
    return [t.detach() for t in whole if t.is_floating_point() and t.numel()]


def pairs(tensor: Tensor) -> Tensor:
    """Return every two neighbors that differ as one whole number: a single number may well occur twice by chance."""
    flat = tensor.float().flatten(1) if tensor.dim() > 1 else tensor.float().view(1, -1)
    if flat.shape[-1] < 2:
        return torch.zeros(0, dtype=torch.int64)
    two = flat.unfold(-1, 2, 1).reshape(-1, 2)
    return two[two[:, 0] != two[:, 1]].contiguous().view(torch.int64).flatten()


@dataclass
class Spy(Observer):
    """Keeps what reached the server, and every number that was a client's own when something did.

    Those are its rows, and its bottom model where that is held apart.
    """

    cohorts: list[Cohort]
    apart: bool
    shapes: set[tuple[int, ...]] = field(default_factory=set)
    seen: list[Tensor] = field(default_factory=list)
    own: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.own += [pairs(rows) for cohort in self.cohorts for rows in cohort.rows.features()]

    def received(self, what: ReceivedUpdate) -> None:
        assert not what.update[~what.taking].any()  # noise, or what waits for a later round, is a client's own too
        read = (what.update, what.sent, what.sent + what.update)
        self.shapes |= {tuple(t.shape) for t in read}
        self.seen += [pairs(t) for t in read]
        for cohort in self.cohorts if self.apart else []:
            self.own += [pairs(values) for values in numbers(*cohort.network.bottoms)]

    @property
    def leaked(self) -> int:
        """How many pairs of a client's own numbers are among those that reached the server."""
        return int(torch.isin(torch.cat(self.own).unique(), torch.cat(self.seen)).sum())


def spied(defense: str, pack: Pack, **fields: object) -> tuple[Spy, list[Cohort], Rounds]:
    """Train three clients for two rounds, two of them in each round."""
    task = task_of(defense, clients=3, rounds=2, training={"batch_size": 128}, participation=0.7, **fields)
    clients, cohorts, _ = begun(task, pack)
    spy = Spy(cohorts, defense in APART)
    in_turn = task.defense.in_turn(task.defense.Params())
    rounds = Rounds(cohorts, task.cell.federation, clients.counts, pack.member_seeds, in_turn=in_turn, observers=[spy])
    return spy, cohorts, rounds.run()


@pytest.mark.parametrize(
    ("pack", "model", "secure"), [(ALONE, SMALL_CNN, False), (TOGETHER, "mlp", False), (TOGETHER, "mlp", True)]
)
@pytest.mark.parametrize("name", FIT)
def test_no_number_of_a_client_reaches_the_server(name, pack, model, secure):
    spy, cohorts, _ = spied(name, pack, model=model, secure=secure)
    network = cohorts[0].network
    known = [network.top, *([] if name in APART else network.bottoms)]
    members = len(pack.member_seeds) if pack.trials else 1
    width = sum(p.numel() for module in known for p in module.parameters()) // len(cohorts[0].clients) // members
    assert spy.shapes == {(members, width)}
    assert spy.leaked == 0
    assert sum(map(len, spy.own)) > 10_000


def test_a_defense_that_let_its_passports_go_would_be_noticed(monkeypatch):
    told = replace(Fedadob.capabilities, client_bottom="shared")
    monkeypatch.setattr(Fedadob, "capabilities", told)
    spy, _, _ = spied("fedadob", ALONE, model=SMALL_CNN)
    assert spy.leaked > 100


@pytest.mark.parametrize(("pack", "model"), [(ALONE, SMALL_CNN), (TOGETHER, "mlp")])
@pytest.mark.parametrize("name", APART)
def test_what_is_kept_moves_nothing_that_is_uploaded(name, pack, model):
    _, cohorts, rounds = spied(name, pack, model=model)
    for cohort in cohorts:
        sent = rounds.server.shared
        taking = torch.ones(cohort.members, len(cohort.clients), dtype=torch.bool)
        for p in cohort.network.top.parameters():
            p.data += 0.1
        before = cohort.uploads(sent, taking)
        assert (before != 0).all()
        for values in numbers(*cohort.network.bottoms):
            values.add_(1.0)
        assert torch.equal(cohort.uploads(sent, taking), before)


def test_some_defenses_keep_bottom_models_from_the_server():
    assert {"splitfed", "fedadob"} <= set(APART)
    assert "none" in FIT


def test_kept_bottoms_start_alike_and_their_secrets_do_not():
    _, cohorts, _ = begun(task_of("fedadob", clients=3, rounds=1, model="cnn"), Pack((0,), None))
    one, other = (cohort.network.bottoms[0] for cohort in cohorts[:2])
    assert all(a.equal(b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    passports = [[b for name, b in m.named_buffers() if name.endswith("passports")] for m in (one, other)]
    assert passports[0]
    assert not any(a.equal(b) for a, b in zip(*passports, strict=True))
