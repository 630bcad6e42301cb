"""LADistill: training labels softened around the first choice of a light teacher."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tune_vfl.defenses.base import defense
from tune_vfl.defenses.parts.teacher_labels import TeacherLabels, TeacherLabelsParams


class LadistillParams(TeacherLabelsParams):
    """Parameters of :class:`Ladistill`."""

    anchor: Literal["true_label", "teacher_argmax"] = Field(
        "teacher_argmax", description="the class that keeps 1 - epsilon: the true one, or the teacher's likeliest"
    )
    teacher_hidden: tuple[int, ...] = Field((32, 32), description="hidden widths of a teacher that is an mlp")


@defense("ladistill")
class Ladistill(TeacherLabels):
    """KDk's soft labels with a light teacher, anchored at the teacher's first choice.

    Table 3 names ResNet-20 for images and DistilBERT for texts, each with one linear layer, and three linear layers for
    tables; ``teacher`` chooses. The model thus learns the teacher's mistakes: where it is wrong, the true class gets
    one of the smaller shares or none. How the teacher is trained is not published; it is trained as KDk's. Source:
    LADSG, equations 9 (taken for a plain softmax, as its indices do not agree) and 10.
    """

    summary = "soft labels around the first choice of a light teacher"
    reference = (
        "Yan et al. 2025, LADSG: Label-Anonymized Distillation and Similar Gradient Substitution for Label Privacy "
        "in Vertical Federated Learning"
    )
    paper_attacks = ("pmc", "active", "direct")
    Params = LadistillParams
    published_teachers = {"image": "resnet20", "text": "distilbert"}  # noqa: RUF012 - a constant
    weakest = {"epsilon": 0.0, "anchor": "true_label"}  # noqa: RUF012 - read only, as its declaration in the base says
