"""What stands in for the fault data of LabObf."""

from __future__ import annotations

from tune_vfl.data.base import dataset
from tune_vfl.data.steel_plates import SteelPlates


@dataset("fault")
class Fault(SteelPlates):
    """The steel plates of UCI in the place of the Kaggle fault data of LabObf (50,000 x 47, three classes)."""

    summary = "steel_plates, standing in for the fault data of LabObf"
    said = (
        "the steel plates of UCI stand in for the Kaggle fault data of LabObf; published numbers are not comparable",
    )
