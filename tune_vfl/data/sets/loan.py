"""The loan data of LADSG: a table of 156 columns where the user has it, else the ten columns of the file it cites."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import Field

from tune_vfl.data.assemble import assemble
from tune_vfl.data.base import Dataset, Loader, dataset
from tune_vfl.data.encode import Encoding, encode_parties
from tune_vfl.data.options import Column
from tune_vfl.data.partition import by_share
from tune_vfl.data.reading.files import find, holds
from tune_vfl.data.reading.joined import require
from tune_vfl.data.reading.labels import encode_labels
from tune_vfl.data.reading.table import left_out, read_table
from tune_vfl.data.sample import SampledOptions, training_sample
from tune_vfl.data.sets.give_me_some_credit import GiveMeSomeCredit, credit_recipe
from tune_vfl.errors import DataError

_PLACES = ("loan/loan.csv", "loan/loan.csv.gz", "loan/loan.parquet")
_COLUMNS, _ROWS = 156, 100_000


class LoanOptions(SampledOptions):
    """Which rows are used, and which column of the wide table is the label."""

    label: Column | None = Field(None, description="the label column of loan/loan.csv; none: its last one")
    positive: str | int | float | bool | None = Field(None, description="the label of a loan that was not paid back")


@dataset("loan")
class Loan(Loader[LoanOptions]):
    """LADSG counts 156 columns, and cites a table that has ten: Give Me Some Credit. Its own table is not known.

    A table of borrowers at ``loan/loan.csv`` is read as the data set ``csv`` reads one. Of a larger one LADSG's 80,000
    and 20,000 rows are kept. Each party has half of the columns; four layers are at the bottom and three on top, and 50
    rows a class are labeled. Without such a table this is ``give_me_some_credit`` with all its rows. LADSG's metric is
    F1 (``metric: f1``).
    """

    summary = "a wide table of loans (LADSG: 156 columns) at loan/loan.csv; give_me_some_credit where there is none"
    reference = "LADSG, loan default prediction; Kaggle, Give Me Some Credit 2011"
    Options = LoanOptions
    kept = True

    def load(self, options: LoanOptions, root: Path) -> Dataset:
        """Read ``loan/loan.csv`` or ``.parquet``, else ``give_me_some_credit/cs-training.csv``."""
        place = next((place for place in _PLACES if holds(root, place)), None)
        if place is None:
            return self._cited(options, root)
        path = find(root, place)
        frame = read_table(path)
        label = options.label or str(frame.columns[-1])
        require(frame, label, "the label", path)
        where = f"{path}: label column {label!r}"
        y, class_names = encode_labels(frame[label], where, options.positive)
        if len(class_names) != 2:
            raise DataError(f"{where}: has {len(class_names)} classes, expected 2; name another column as label")
        features = [name for name in frame.columns if name != label]
        rows = _ROWS if options.rows is None and len(y) > _ROWS else options.rows
        kept, _, said = training_sample(y, None, rows, class_names, self.name)
        counted = [f"{path.name} has {len(features)} columns, LADSG counts 156"] * (len(features) != _COLUMNS)
        partition = by_share(features, options.share, options.passive_parties, str(path))
        passive, active, found = encode_parties(frame, partition, str(path), Encoding())
        return assemble(
            self.name,
            (tuple(replace(held, x=held.x[kept]) for held in passive), active and replace(active, x=active.x[kept])),
            y[kept],
            class_names,
            metric=options.metric,
            recipe=credit_recipe(),
            test_share=0.2,
            notes=[*left_out(frame), *counted, *said, *found],
            where=where,
        )

    def _cited(self, options: LoanOptions, root: Path) -> Dataset:
        if options.label is not None or options.positive is not None:
            find(root, _PLACES[0], "wherever your table of loans is from; label and positive are for it alone")
        plain = SampledOptions(**options.model_dump(exclude={"label", "positive"}))
        data = GiveMeSomeCredit().load(plain, root)
        said = f"the ten columns of the file that LADSG cites, where it counts 156; a wide table goes to {_PLACES[0]}"
        return replace(data, name=self.name, notes=(said, *data.notes))
