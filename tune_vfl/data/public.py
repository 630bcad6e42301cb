"""Public data sets: what is known of one stands in its class, and one way leads from the rows of its files to it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor

from tune_vfl.data.assemble import assemble
from tune_vfl.data.base import Columns, Dataset, Loader, Recipe
from tune_vfl.data.encode import Encoding, encode_parties
from tune_vfl.data.options import PartyOptions
from tune_vfl.data.partition import Parties, by_share, image_parties, map_columns, matrix_parties
from tune_vfl.data.reading.files import find_one
from tune_vfl.data.reading.public_images import Part, pixel_parties
from tune_vfl.data.reading.tokens import text_parties
from tune_vfl.data.sample import BalancedOptions, SampledOptions, balanced, training_sample
from tune_vfl.data.sets.npz_images import Array

if TYPE_CHECKING:
    import pandas as pd

P = TypeVar("P", bound=PartyOptions)


@dataclass(frozen=True, eq=False)
class Rows:
    """All rows of a public data set, as its files hold them.

    Attributes:
        x: a frame of text; numbers ``(N, d)`` or images ``(N, C, H, W)``, float32; tokens ``(N, L)``, int64; or images
            in bytes, ``(N, H, W)`` or ``(N, H, W, C)``, of which only the rows that are used become floats.
        y: ``(N,)`` int64 labels.
        origin: the file or folder, or the name of data without one, for messages.
        labels: where in it the labels are, for messages.
        names: d names of numbers.
        start: the token that begins each party's part of a text.
        test_rows: ``(M,)`` the official test rows; None where there are none.
        notes: facts that limit the results.
        classes, recipe, test_share, encoding: where they are not those of the class.
    """

    x: pd.DataFrame | Tensor | Array
    y: Tensor
    origin: Path
    labels: str = "labels"
    names: Sequence[str] = ()
    start: int = 0
    test_rows: Tensor | None = None
    notes: tuple[str, ...] = ()
    classes: tuple[str, ...] | None = None
    recipe: Recipe | None = None
    test_share: float | None = None
    encoding: Encoding | None = None

    @classmethod
    def of_images(cls, train: Sequence[Part], test: Part | None, origin: Path, notes: tuple[str, ...] = ()) -> Rows:
        """Join images in bytes and their labels: the parts of ``train``, then the official test rows, if any."""
        parts = [*train, *([] if test is None else [test])]
        y = torch.from_numpy(np.concatenate([labels for _, labels in parts]))
        test_rows = None if test is None else torch.arange(len(y) - len(test[1]), len(y))
        pixels = np.concatenate([images for images, _ in parts]) if len(parts) > 1 else parts[0][0]
        return cls(pixels, y, origin, test_rows=test_rows, notes=notes)


class PublicSet(Loader[P]):
    """A public data set, made of :class:`Rows`.

    Attributes:
        files: where it lies under the data root; the first place that is there is read.
        source: where it can be had.
        classes: K names, by label.
        encoding: how columns of text become numbers; all rows are encoded, whichever are used.
        recipe: the usual model and training.
        test_share: the share of each class that a seed holds out where there are no official test rows.
        most_rows: so many rows of a larger file are used, unless the option ``rows`` says otherwise; None uses all.
    """

    files: ClassVar[tuple[str, ...]]
    source: ClassVar[str]
    classes: ClassVar[tuple[str, ...]]
    encoding: ClassVar[Encoding] = Encoding()
    recipe: ClassVar[Recipe]
    test_share: ClassVar[float] = 0.3
    most_rows: ClassVar[int | None] = None

    @abstractmethod
    def read(self, options: P, root: Path) -> Rows:
        """Read the files; arguments and errors are those of :meth:`load`."""

    def file(self, root: Path) -> Path:
        """Return its file; raises as :func:`tune_vfl.data.reading.files.find` does."""
        return find_one(root, self.files, self.source)

    def prepare(self, columns: Columns, origin: Path) -> Columns:
        """Return one party's columns of the rows that are used, changed where a data set needs that."""
        del origin
        return columns

    def load(self, options: P, root: Path) -> Dataset:
        """Read the files, choose the rows that are used, and share out their columns."""
        rows = self.read(options, root)
        classes = self.classes if rows.classes is None else rows.classes
        asked = options.rows if isinstance(options, SampledOptions) else None
        said: tuple[str, ...] = ()
        kept = torch.arange(len(rows.y))
        if isinstance(options, BalancedOptions) and options.balance:
            kept = balanced(rows.y, self.name)
            said = (f"{len(kept):,} of {len(rows.y):,} rows, as many of each class, the same for every seed",)
        if asked is None and self.most_rows is not None and len(kept) > self.most_rows:
            asked = self.most_rows
        chosen, test_rows, sampled = training_sample(rows.y[kept], rows.test_rows, asked, classes, self.name)
        chosen = kept[chosen]
        parties, notes = self._shared_out(rows, chosen, options.share, options.passive_parties)
        return assemble(
            self.name,
            map_columns(parties, lambda columns: self.prepare(columns, rows.origin)),
            rows.y[chosen],
            classes,
            metric=options.metric,
            recipe=rows.recipe or self.recipe,
            test_rows=None if rows.test_rows is None else test_rows,
            test_share=self.test_share if rows.test_share is None else rows.test_share,
            notes=(*rows.notes, *said, *sampled, *notes),
            where=f"{rows.origin}: {rows.labels}",
        )

    def _shared_out(self, rows: Rows, chosen: Tensor, share: float, parties: int) -> tuple[Parties, Sequence[str]]:
        """Return each party's columns of the chosen rows, shared out in order, and notes on the columns."""
        x, where = rows.x, str(rows.origin)
        if isinstance(x, Tensor):
            if not x.is_floating_point():
                return text_parties(x[chosen], rows.start, share, parties, where), ()
            if x.ndim == 4:
                return image_parties(x[chosen], share, parties, where), ()
            return matrix_parties(x[chosen], rows.names, share, parties, where), ()
        if isinstance(x, np.ndarray):  # of all rows no copy is made: they may fill half of the memory
            return pixel_parties(x if len(chosen) == len(x) else x[chosen.numpy()], share, parties, where), ()
        partition = by_share(list(x.columns), share, parties, where)
        passive, active, notes = encode_parties(x, partition, where, rows.encoding or self.encoding)
        return map_columns((passive, active), lambda columns: replace(columns, x=columns.x[chosen])), notes
