"""KDk: training labels softened over the k classes that a teacher finds likeliest."""

from __future__ import annotations

from tune_vfl.defenses.base import defense
from tune_vfl.defenses.parts.teacher_labels import TeacherLabels, TeacherLabelsParams


class KdkParams(TeacherLabelsParams):
    """Parameters of :class:`Kdk`."""


@defense("kdk")
class Kdk(TeacherLabels):
    """Soft labels: 1 - epsilon for the anchor, epsilon / (k - 1) for each of the next likeliest k - 1 classes.

    The teacher is a network on the label party's own features and true labels, trained once and frozen; every row's
    soft label stays the same in all epochs. Table 3 names ResNet-50 for images and BERT for texts, each with one linear
    layer; ``teacher`` chooses. The default anchor is the true class, which takes the place of the
    least likely of the k where the teacher missed it, so that rows sum to 1 (the released code does not see to that);
    ``anchor="teacher_argmax"`` is the paper's equation 9. The soft labels enter the cross-entropy as they are, without
    the second softmax of the paper's equation 10. Source: Arazzi, Nicolazzo, Nocera 2024; docs/decisions.md says
    why.
    """

    summary = "soft labels over the k classes that a teacher finds likeliest"
    reference = (
        "Arazzi et al. 2024, KDk: A Defense Mechanism Against Label Inference Attacks in Vertical Federated Learning"
    )
    paper_attacks = ("pmc", "active", "direct")
    Params = KdkParams
    published_teachers = {"image": "resnet50", "text": "bert"}  # noqa: RUF012 - a constant
