"""The interface of a data set: columns by party, labels at one party, and the default training recipe."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

import torch
from torch import Tensor

from tune_vfl.data.looks import Written
from tune_vfl.errors import DataError
from tune_vfl.registry import Registry
from tune_vfl.spec import Named, Strict, Training

O = TypeVar("O", bound=Strict)  # noqa: E741 - the options of one data set


ColumnKind = Literal["number", "code", "category"]


@dataclass(frozen=True)
class Source:
    """A column of a file, and its encoded columns.

    Attributes:
        name: its name in the file.
        kind: ``number``; ``code``, a category as one ordinal number; ``category``, a category as 0/1 columns.
        width: how many columns it became; a number with missing values has a second one that marks them.
        written: how it stands in the file; None where that was not looked at.
    """

    name: str
    kind: ColumnKind
    width: int
    written: Written | None = None


@dataclass(frozen=True, eq=False)
class Columns:
    """One party's features.

    Attributes:
        party: the party's name.
        x: ``(N, d)`` float32 with NaN where a value is missing, ``(N, C, H, W)`` images in [0, 1], or ``(N, L)`` int64
            tokens of a text, 0 after its end.
        names: a name per column; empty for images and texts.
        scaled: ``(d,)`` bool: which columns are standardized with training statistics; None for images and texts.
        sources: the columns of the file that these were made of, in order; empty where that is not known.
    """

    party: str
    x: Tensor
    names: tuple[str, ...] = ()
    scaled: Tensor | None = None
    sources: tuple[Source, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one row."""
        return tuple(self.x.shape[1:])

    @property
    def fields(self) -> tuple[int, ...]:
        """Number of columns of each field: k for a category, 1 for a number; empty if unknown."""
        widths = [(s.width,) if s.kind == "category" else (1,) * s.width for s in self.sources]
        return tuple(k for width in widths for k in width)


@dataclass(frozen=True, eq=False)
class Holders:
    """The client of each row in a horizontal federation, if the data say so.

    Attributes:
        names: the clients.
        of: ``(N,)`` int64: the place of each row's client among them.
    """

    names: tuple[str, ...]
    of: Tensor

    def at(self, rows: Tensor) -> Holders:
        """Return the same for some rows."""
        return Holders(self.names, self.of[rows])


@dataclass(frozen=True)
class Recipe:
    """The usual model and training of a data set; a spec overrides them field by field."""

    model: Named
    training: Training
    auxiliary_per_class: int = 10

    @classmethod
    def of(cls, model: str, training: Training, per_class: int = 10, **options: Any) -> Recipe:
        """Return a recipe with a model by name and options, and so many labeled rows a class."""
        return cls(Named.model_validate({"name": model, **options}), training, per_class)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A loaded data set.

    Attributes:
        name: its registered name.
        passive: the feature-only parties; each attacks by itself.
        active: the label party's own features; None when it has labels only.
        y: ``(N,)`` int64 labels ``0..K-1``.
        class_names: K names; for binary targets index 1 is the positive class.
        metric: the utility metric: ``auc``, ``accuracy``, ``balanced_accuracy``, ``f1`` or ``top5``.
        recipe: usual model and training.
        test_rows: the official test rows; None where there are none, and each seed holds out rows of its own.
        test_share: the share of the rows of each class that a seed holds out where there are no official test rows.
        fingerprint: changes whenever the content or the partition changes.
        notes: facts that limit the results (rows dropped, classes balanced).
        holders: the client of each row in a horizontal federation; None where the data do not say.
        reserved: those of ``test_rows`` that are the reserve, where a column of the data says; None: they are drawn.
    """

    name: str
    passive: tuple[Columns, ...]
    active: Columns | None
    y: Tensor
    class_names: tuple[str, ...]
    metric: str
    recipe: Recipe
    fingerprint: str
    test_rows: Tensor | None = None
    notes: tuple[str, ...] = field(default=())
    test_share: float = 0.3
    holders: Holders | None = None
    reserved: Tensor | None = None

    @property
    def num_classes(self) -> int:
        """K."""
        return len(self.class_names)

    @property
    def parties(self) -> tuple[Columns, ...]:
        """Every party's features, the label party's own last where it has any."""
        return (*self.passive, *([] if self.active is None else [self.active]))

    @property
    def modality(self) -> str:
        """``text`` when any party holds tokens, ``image`` when any holds images, else ``table``."""
        if any(not p.x.is_floating_point() for p in self.parties):
            return "text"
        return "image" if any(len(p.shape) == 3 for p in self.parties) else "table"


@dataclass(frozen=True, eq=False)
class Split:
    """A data set cut into training and test rows for one seed and standardized; or several seeds, stacked.

    Attributes:
        passive_train, passive_test: a tensor ``(*seeds, n, ...)`` per passive party, no NaN.
        active_train, active_test: the label party's own features, or None.
        y_train, y_test: ``(*seeds, n)`` int64.
        train_rows, test_rows: ``(*seeds, n)`` the indices of these rows in the data set.
    """

    passive_train: tuple[Tensor, ...]
    passive_test: tuple[Tensor, ...]
    active_train: Tensor | None
    active_test: Tensor | None
    y_train: Tensor
    y_test: Tensor
    train_rows: Tensor
    test_rows: Tensor

    def to(self, device: torch.device | str) -> Split:
        """Return the same rows on a device, their indices where they were; rows already there are not copied."""
        moved = self._each(lambda x: x.to(device))
        return replace(moved, train_rows=self.train_rows, test_rows=self.test_rows)

    def _each(self, of: Callable[[Tensor], Tensor]) -> Split:
        return Split(
            passive_train=tuple(of(x) for x in self.passive_train),
            passive_test=tuple(of(x) for x in self.passive_test),
            active_train=None if self.active_train is None else of(self.active_train),
            active_test=None if self.active_test is None else of(self.active_test),
            y_train=of(self.y_train),
            y_test=of(self.y_test),
            train_rows=of(self.train_rows),
            test_rows=of(self.test_rows),
        )

    def features(self, part: Literal["train", "test"]) -> list[Tensor]:
        """Return the rows of every party, the label party's own last where it has any."""
        passive, own = (
            (self.passive_train, self.active_train) if part == "train" else (self.passive_test, self.active_test)
        )
        return [*passive, *([] if own is None else [own])]

    def with_features(self, train: Sequence[Tensor], test: Sequence[Tensor]) -> Split:
        """Return the same split with other features, listed as :meth:`features` lists them."""
        k = len(self.passive_train)
        return replace(
            self,
            passive_train=tuple(train[:k]),
            passive_test=tuple(test[:k]),
            active_train=None if self.active_train is None else train[k],
            active_test=None if self.active_test is None else test[k],
        )

    def seed(self, index: int) -> Split:
        """Return the split of one seed out of a stacked one."""
        return self._each(lambda x: x[index])

    @staticmethod
    def stack(splits: Sequence[Split]) -> Split:
        """Stack splits of equal sizes along a new leading axis; one split several times is not copied."""

        def stacked(parts: Sequence[Tensor]) -> Tensor:
            first, same = parts[0], all(p is parts[0] for p in parts)
            return first.expand(len(parts), *first.shape) if same else torch.stack(list(parts))

        def optional(parts: Sequence[Tensor | None]) -> Tensor | None:
            held = [p for p in parts if p is not None]
            return stacked(held) if held else None

        return Split(
            passive_train=tuple(stacked(p) for p in zip(*(s.passive_train for s in splits), strict=True)),
            passive_test=tuple(stacked(p) for p in zip(*(s.passive_test for s in splits), strict=True)),
            active_train=optional([s.active_train for s in splits]),
            active_test=optional([s.active_test for s in splits]),
            y_train=stacked([s.y_train for s in splits]),
            y_test=stacked([s.y_test for s in splits]),
            train_rows=stacked([s.train_rows for s in splits]),
            test_rows=stacked([s.test_rows for s in splits]),
        )


class Loader(ABC, Generic[O]):
    """A registered data set: options in, :class:`Dataset` out.

    Attributes:
        summary: one line for ``tune-vfl list datasets``.
        reference: where the data come from.
        Options: the pydantic model of its options; each has a default unless the user must give it.
        kept: whether the loaded data are cached on disk; only for public data, never for a user's own.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    reference: ClassVar[str]
    Options: type[O]
    kept: ClassVar[bool] = False

    @abstractmethod
    def load(self, options: O, root: Path) -> Dataset:
        """Load the data set.

        Args:
            options: this data set's options.
            root: the data root (``TUNE_VFL_DATA``).

        Raises:
            DataError: naming the file, the place in it, and what to do.
        """

    def located(self, options: O, root: Path) -> O:
        """Return the options with every file path made absolute; the same options where they name no file."""
        del root
        return options

    def fetch(self, root: Path) -> Path:
        """Download the official files to the folder that :meth:`load` reads, through torchvision or scikit-learn.

        Returns:
            The folder or file that is there now.

        Raises:
            DataError: where neither of them offers the data set, or the download fails.
        """
        del root
        raise DataError(
            f"dataset {self.name!r}: neither torchvision nor scikit-learn offers it for download ({self.reference}); "
            "docs/datasets.md says which file goes where"
        )


DATASETS: Registry[Loader[Any]] = Registry("dataset", "tune_vfl.data.sets")
dataset = DATASETS.register
