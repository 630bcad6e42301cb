"""Portfolios: named sets of attacks that a competent adversary would try on this data and model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tune_vfl.attacks.base import ATTACKS, Attack, build_attack
from tune_vfl.errors import SpecError
from tune_vfl.evaluation.misfits import misfits_of
from tune_vfl.evaluation.task import Task
from tune_vfl.spec import Federation, Named, Strict, StudySpec
from tune_vfl.spec.constraints import OF_ATTACK
from tune_vfl.spec.study import PORTFOLIOS


def is_portfolio(named: Named) -> bool:
    """Return whether an entry under ``attacks`` names a portfolio.

    Raises:
        SpecError: when it has options, which belong to single attacks.
    """
    if named.name not in PORTFOLIOS:
        return False
    if named.options:
        given = ", ".join(named.options)
        raise SpecError(
            f"attacks.{named.name}: takes no options, got {given}; list the attack that they are for beside it, which "
            "then takes its place in the portfolio"
        )
    return True


def expanded(listed: Sequence[Named], task: Task) -> list[Attack[Strict]]:
    """Return the attacks that a spec lists, those of its portfolios among them, each once.

    An attack that is listed by itself is taken as it is listed, also where a portfolio has it.

    Args:
        listed: the entries under ``attacks``, of known names and options.
        task: the task to attack; its own attacks do not matter.

    Raises:
        SpecError: when nothing of a portfolio fits.
    """
    own = {named.name for named in listed if not is_portfolio(named)}
    found: dict[str, Attack[Strict]] = {}
    for named in listed:
        if not is_portfolio(named):
            found[named.name] = build_attack(named)
            continue
        fitting = [a for a in members(named.name, task.cell.federation) if not list(misfits_of(a, task))]
        if not fitting:
            why = f"attacks.{named.name}: no attack of it fits this data set, model and defense"
            raise SpecError(why, unfit={named.name: [why]})
        found |= {a.name: a for a in fitting if a.name not in own and a.name not in found}
    return list(found.values())


def spare(spec: StudySpec, attacks: Iterable[Attack[Strict]]) -> tuple[str, ...]:
    """Return the dear attacks that a spec asks for by a portfolio alone: neither by name nor in a constraint."""
    asked = {named.name for named in spec.attacks}
    asked |= {found["attack"] for name in spec.constraints if (found := OF_ATTACK.fullmatch(name))}
    return tuple(attack.name for attack in attacks if attack.dear and attack.name not in asked)


def members(portfolio: str, federation: Federation) -> Iterator[Attack[Strict]]:
    """Yield the attacks of a portfolio in a federation."""
    for name in ATTACKS:
        cls = ATTACKS[name]
        can = cls.capabilities
        if portfolio == "default_features" or federation.goal == "features":
            if can.goal == "features":
                yield cls()
        elif can.goal == "labels" and can.who == "passive" and not can.oracle:
            if portfolio == "thorough":
                yield cls()
            elif cls.in_default is not None and not can.acts:
                yield build_attack(Named(name=name, **cls.in_default))
