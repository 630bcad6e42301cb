"""The interface of a grant: the keepers that it needs during a training, and the value that an attack receives.

Add one by putting a class into a file of its own here, decorated with ``@grant("name")``. An attack that lists the
name under ``sees`` reads it with ``view.granted("name")``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from tune_vfl.attacks.base import Attack
from tune_vfl.evaluation.keeper import Keeper
from tune_vfl.evaluation.run import Run
from tune_vfl.protocol.view import View
from tune_vfl.registry import Registry
from tune_vfl.seeds import Streams
from tune_vfl.spec import Strict


class Grant(ABC):
    """One kind of knowledge that a threat model may grant.

    Attributes:
        keeps: the keepers that this grant needs during the training.
    """

    name: ClassVar[str]
    keeps: ClassVar[tuple[type[Keeper], ...]] = ()

    @abstractmethod
    def hand_out(self, attack: Attack[Strict], run: Run) -> object:
        """Return the value of this grant in an attack's view: tensors with leading axes, copies of models.

        Args:
            attack: the requesting attack; the amount granted may depend on its request.
            run: a training before its first step or after its last one.
        """


GRANTS: Registry[Grant] = Registry("grant", "tune_vfl.evaluation.grants")
grant = GRANTS.register


def keepers_for(attacks: Iterable[Attack[Strict]]) -> list[type[Keeper]]:
    """Return the keepers that attacks on a shared training need.

    Raises:
        UnknownNameError: when an attack requests an unknown grant.
    """
    wanted = sorted({name for attack in attacks for name in attack.sees()})
    return list(dict.fromkeys(keeper for name in wanted for keeper in GRANTS[name].keeps))


def view_of(attack: Attack[Strict], run: Run) -> View:
    """Return the view of an attack: the grants under :meth:`~tune_vfl.attacks.base.Attack.sees`, and nothing more.

    Without a training there are no keepers, and grants that need one are left out.
    """
    granted = [GRANTS[name]() for name in sorted(attack.sees())]
    return View(
        attack=attack.name,
        lead=run.pack.lead,
        num_classes=run.task.dataset.num_classes,
        streams=Streams(run.drawn.member_seeds, prefix=f"attack/{attack.draws_as or attack.name}/"),
        held={g.name: g.hand_out(attack, run) for g in granted if all(k in run.keepers for k in g.keeps)},
    )
