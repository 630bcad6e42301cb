"""The table of one study's Pareto front in a report, with a column for each attack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tune_vfl.analysis import formatting

if TYPE_CHECKING:
    from reports.story import Story
    from tune_vfl.analysis.reliability import LocalBaseline, Reliability
    from tune_vfl.evaluation.certainty import Certainty
    from tune_vfl.outcome import AttackScore, Outcome
    from tune_vfl.records.studies import StudyRecord


class StudyRows(NamedTuple):
    """The texts of a study's front.

    Attributes:
        undefended: the row of the undefended model; None before it was measured.
        front: a mapping per point, texts by column.
        attacks: the titles of the columns of attacks; ``measures``: their metrics.
        bounded: whether any attack is an upper bound.
    """

    undefended: dict[str, Any] | None
    front: list[dict[str, Any]]
    attacks: list[str]
    measures: str
    bounded: bool


def study_rows(record: StudyRecord, told: Story) -> StudyRows:
    """Return the texts of a study's own front, by rising leakage."""
    info, outcomes = told.info, {t.number: t.outcome for t in record.ok}
    known = record.baseline if info.undefended else None
    shown = [*outcomes.values(), *([known] if known else [])]
    scores = [score for outcome in shown for score in outcome.attacks.values()]
    front = [
        {
            "key": f"{record.name}#{p.number}",
            "number": p.number,
            "setting": formatting.setting(p.params, info.moved),
            "knee": p.is_knee,
            "weak": ", ".join(p.weak),
            **_texts(outcomes[p.number], info.trust.trials.get(p.number), info.trust),
        }
        for p in info.front
    ]
    return StudyRows(
        undefended=_texts(known, info.trust.baseline, info.trust) if known else None,
        front=front,
        attacks=list(dict.fromkeys(name for o in shown for name in (*o.attacks, *o.not_needed))),
        measures=formatting.listed(list(dict.fromkeys(formatting.metric(s.metric) for s in scores))) or "none",
        bounded=any(s.upper_bound for s in scores),
    )


def _texts(outcome: Outcome, sure: Certainty | None, trust: Reliability) -> dict[str, Any]:
    return {
        **numbers(outcome, sure, trust.alone),
        "worst": formatting.score(sure.leakage_worst_seed) if sure else "–",
        "attacks": {
            **dict.fromkeys(outcome.not_needed, formatting.NOT_NEEDED),
            **{name: _attack(score) for name, score in outcome.attacks.items()},
        },
    }


def numbers(outcome: Outcome, sure: Certainty | None, alone: LocalBaseline | None) -> dict[str, str]:
    """Return an ok outcome's utility and leakage with their intervals, and the retained share of the federation's gain.

    Args:
        outcome: the outcome.
        sure: its intervals; None shows standard deviations.
        alone: the label party's own model; None without one.
    """
    utility, leakage = outcome.objectives
    intervals = (sure.utility_interval, sure.leakage_interval) if sure else (None, None)
    return {
        "utility": formatting.span(utility, intervals[0], outcome.utility.std if outcome.utility else None),
        "leakage": formatting.span(leakage, intervals[1], outcome.leakage_std),
        "kept": "–" if alone is None else f"{kept:.0%}" if (kept := alone.kept(utility)) is not None else "–",
    }


def _attack(score: AttackScore) -> str:
    return formatting.score(score.mean, score.std) + (" ≤" if score.upper_bound else "")
