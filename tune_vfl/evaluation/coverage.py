"""Coverage of a study's attacks: goals, sources and kinds of attackers that it tries, and those that it omits.

It is worked out once, when a study is planned and all attacks are imported anyway, and stored with the study, so
that later readers such as ``status`` need no attack's code.
"""

from __future__ import annotations

from tune_vfl.spec import Strict, StudySpec
from tune_vfl.spec.cell import Cell
from tune_vfl.spec.study import PORTFOLIOS

_LABELS = ("default", "thorough")
"""Portfolios that hold every attack on labels of a competent adversary."""


class Coverage(Strict):
    """Goals, sources and kinds of attackers among a study's attacks, and the attacks that it omits.

    Attributes:
        untried: the attacks of a competent adversary that fit the data, model and defense, and are not in the spec.
        acts: whether an attack takes part in the training and changes its messages.
        features: whether an attack looks for features.
        goals: what the attacks that are run are after, ``features``, ``labels``.
        gradients_alone: whether the defense protects gradients only and the attacks that are run read nothing else.
    """

    untried: tuple[str, ...] = ()
    acts: bool = False
    features: bool = False
    goals: tuple[str, ...] = ()
    gradients_alone: bool = False


def coverage_of(spec: StudySpec, cell: Cell) -> Coverage:
    """Return the coverage of a spec and its resolved task. Attacks unknown to this installation count for nothing."""
    names, goals = {attack.name for attack in spec.attacks}, _goals(cell)
    return Coverage(
        untried=() if names & set(_LABELS) else _untried(cell),
        acts=_acts(names),
        features="features" in goals,
        goals=goals,
        gradients_alone=_gradients_alone(cell),
    )


def _goals(cell: Cell) -> tuple[str, ...]:
    """Return the goals of the attacks; labels for an attack unknown to this installation."""
    from tune_vfl.attacks.base import ATTACKS

    names = [attack.name for attack in cell.attacks]
    return tuple(sorted({ATTACKS[n].capabilities.goal if n in ATTACKS else "labels" for n in names} or {"labels"}))


def _gradients_alone(cell: Cell) -> bool:
    from tune_vfl.attacks.base import ATTACKS, build_attack
    from tune_vfl.defenses.base import DEFENSES

    if cell.defense not in DEFENSES or any(attack.name not in ATTACKS for attack in cell.attacks):
        return False
    if set(DEFENSES[cell.defense].capabilities.protects) != {"gradients"}:
        return False
    return not any("bottom" in build_attack(attack).sees() for attack in cell.attacks)


def _untried(cell: Cell) -> tuple[str, ...]:
    from tune_vfl.attacks.base import ATTACKS
    from tune_vfl.defenses.base import DEFENSES, grants_missing
    from tune_vfl.evaluation.misfits import out_of_reach
    from tune_vfl.evaluation.portfolios import members

    asked = {a.name for a in cell.attacks}
    if asked - set(ATTACKS.names()) or cell.defense not in DEFENSES:
        return ()
    beyond, missing = frozenset[str]().union(*(grants for grants, _ in out_of_reach(cell))), []
    for attack in members("default", cell.federation):
        can = attack.capabilities
        fits = cell.mode in can.modes and (can.classes == "any" or cell.num_classes == 2)
        fits = fits and not grants_missing(can.sees, cell.defense) and cell.federation.name in can.federations
        if fits and not can.sees & beyond and attack.name not in asked:
            missing.append(attack.name)
    return tuple(missing)


def _acts(names: set[str]) -> bool:
    """Return whether a listed attack takes part in the training, or a portfolio may have one that does."""
    if "thorough" in names:
        return True
    listed_alone = names - set(PORTFOLIOS)
    if not listed_alone:
        return False
    from tune_vfl.attacks.base import ATTACKS

    return any(ATTACKS[name].capabilities.acts for name in listed_alone & set(ATTACKS.names()))
