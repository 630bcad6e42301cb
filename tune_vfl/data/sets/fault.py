"""The fault data of LabObf; where their file is missing, the steel plates of UCI."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from tune_vfl.data.assemble import assemble
from tune_vfl.data.base import Dataset, Loader, dataset
from tune_vfl.data.encode import Encoding, encode_parties
from tune_vfl.data.options import Column, PartyOptions, SplitChoice
from tune_vfl.data.partition import by_share
from tune_vfl.data.reading.files import find, holds
from tune_vfl.data.reading.joined import require
from tune_vfl.data.reading.labels import encode_labels
from tune_vfl.data.reading.table import left_out, read_table
from tune_vfl.data.sets.steel_plates import FAULT_TRAINING, SteelPlates, labobf_recipe

_PLACES = ("fault/fault.csv", "fault/fault.csv.gz")
ADDRESS = "https://www.kaggle.com/datasets/guanlintao/classification-of-faults-dataset"
_COLUMNS, _CLASSES = 47, 3


class FaultOptions(PartyOptions):
    """Partition of the columns, and the label column."""

    split: SplitChoice = Field(
        0.49, description="share of the columns, in file order, that the passive side holds: 23 of 47"
    )
    label: Column | None = Field(None, description="the label column of the Kaggle file; none: its last one")


@dataset("fault")
class Fault(Loader[FaultOptions]):
    """50,000 x 47, three classes, 10,000 rows held out; 23 columns at the passive party, 24 beside the labels.

    Sizes and recipe are LabObf's: bottoms 64-32-10, Adam 1e-3, 50 epochs, 30 labeled rows a class. Where the Kaggle
    file is missing, the steel plates of UCI stand in for it, and a note says so.
    """

    summary = "the fault data of LabObf, 50,000 x 47, 3 classes; steel_plates where they are not there"
    reference = "Kaggle, Classification of Faults Dataset 2023; else Buscema, Terzi, Tastle 2010; recipe of LabObf"
    Options = FaultOptions
    kept = True

    def load(self, options: FaultOptions, root: Path) -> Dataset:
        """Read ``fault/fault.csv``, else ``steel_plates_faults/steel_plates_faults.csv``."""
        place = next((place for place in _PLACES if holds(root, place)), None)
        if place is None:
            return self._stand_in(options, root)
        path = find(root, place)
        frame = read_table(path)
        label = options.label or str(frame.columns[-1])
        require(frame, label, "the label", path)
        y, class_names = encode_labels(frame[label], f"{path}: label column {label!r}")
        features = [name for name in frame.columns if name != label]
        notes = left_out(frame)
        if (len(features), len(class_names)) != (_COLUMNS, _CLASSES):
            notes.append(
                f"{path.name} has {len(features)} columns and {len(class_names)} classes by {label!r}, LabObf counts "
                "47 and 3; label names another column"
            )
        partition = by_share(features, options.share, options.passive_parties, str(path))
        passive, active, said = encode_parties(frame, partition, str(path), Encoding(numeric=tuple(features)))
        return assemble(
            self.name,
            (passive, active),
            y,
            class_names,
            metric=options.metric,
            recipe=labobf_recipe(FAULT_TRAINING, 30),
            test_share=0.2,
            notes=[*notes, *said],
            where=f"{path}: label column {label!r}",
        )

    def _stand_in(self, options: FaultOptions, root: Path) -> Dataset:
        if options.label is not None:
            find(root, _PLACES[0], ADDRESS)
        plain = PartyOptions(split=options.split, passive_parties=options.passive_parties, metric=options.metric)
        said = (
            "the steel plates of UCI stand in for the Kaggle fault data of LabObf, published numbers do not "
            f"compare; {ADDRESS} goes to {_PLACES[0]}"
        )
        return SteelPlates().read(plain, root, name=self.name, notes=(said,))
