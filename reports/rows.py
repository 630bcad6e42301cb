"""The table of one study's Pareto front in a report, with a column for each attack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from reports.naming import moving_params
from tune_vfl.analysis import formatting
from tune_vfl.analysis.columns import texts

if TYPE_CHECKING:
    from reports.story import Story
    from tune_vfl.analysis.setting import MeasuredModel

_NUMBERS = ("utility", "gain_kept", "leakage", "leakage_worst_seed")


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


def study_rows(told: Story) -> StudyRows:
    """Return the texts of a study's own front, by rising leakage."""
    joint = told.joint
    moved = moving_params(joint.parts[0])
    shown = [*joint.points, *([joint.undefended] if joint.undefended else [])]
    scores = [score for model in shown for score in model.outcome.attacks.values()]
    front = [
        {
            "key": point.name,
            "number": point.number,
            "setting": formatting.setting(point.params, moved),
            "knee": point is joint.knee,
            "weak": ", ".join(point.weak),
            **_texts(point),
        }
        for point in joint.by_leakage
    ]
    return StudyRows(
        undefended=_texts(joint.undefended) if joint.undefended else None,
        front=front,
        attacks=list(dict.fromkeys(name for m in shown for name in (*m.outcome.attacks, *m.outcome.not_needed))),
        measures=formatting.listed(list(dict.fromkeys(formatting.metric(s.metric) for s in scores))) or "none",
        bounded=any(s.upper_bound for s in scores),
    )


def _texts(model: MeasuredModel) -> dict[str, Any]:
    return {
        **texts(model, _NUMBERS),
        "attacks": {
            **dict.fromkeys(model.outcome.not_needed, formatting.NOT_NEEDED),
            **{
                name: formatting.score(score.mean, score.std) + (" ≤" if score.upper_bound else "")
                for name, score in model.outcome.attacks.items()
            },
        },
    }
