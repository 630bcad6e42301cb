"""The last step of every loader: check the loaded data and compute the fingerprint."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from tune_vfl.data.base import Dataset, Holders, Recipe
from tune_vfl.data.options import MetricChoice, choose_metric
from tune_vfl.data.partition import ACTIVE, Parties
from tune_vfl.errors import DataError, shortened

_NAMED = 5
# Where the rarer of two classes has a smaller share than this, a note says so.
_IMBALANCED = 0.2


def assemble(
    name: str,
    parties: Parties,
    y: Tensor,
    class_names: Sequence[str],
    *,
    metric: MetricChoice,
    recipe: Recipe,
    test_rows: Tensor | None = None,
    test_share: float = 0.3,
    notes: Sequence[str] = (),
    where: str = "",
    hint: str = "",
    holders: Holders | None = None,
    reserved: Tensor | None = None,
) -> Dataset:
    """Build a :class:`Dataset` from ``(passive parties, active party or None)`` and labels, with its fingerprint.

    Args:
        name: the data set's registered name.
        parties: the passive parties, and the label party's own columns.
        y: ``(N,)`` labels.
        class_names: K names.
        metric: the utility metric that the options ask for.
        recipe: the usual model and training.
        test_rows: official test rows.
        test_share: the share of the rows held out for testing where there are no official test rows.
        notes: facts that limit the results.
        where: names the file and the label column, for messages.
        hint: the likely cause where a class has too few rows.
        holders: the client of each row in a horizontal federation.
        reserved: those of ``test_rows`` that are the reserve; None where it is drawn.

    Raises:
        DataError: when a class has too few rows, or official test rows leave a class without training rows.
        SpecError: when the metric does not suit the number of classes.
    """
    passive, active = parties
    _check_classes(where or name, y, class_names, test_rows, hint)
    lacking = _lacking_in_test(where or name, y, class_names, test_rows)
    return Dataset(
        name=name,
        passive=passive,
        active=active,
        y=y,
        class_names=tuple(class_names),
        metric=choose_metric(metric, len(class_names)),
        recipe=recipe,
        fingerprint=fingerprint(parties, y, class_names, test_rows, test_share, holders=holders, reserved=reserved),
        test_rows=test_rows,
        test_share=test_share,
        notes=(*notes, *_imbalance(y, class_names, metric), *lacking),
        holders=holders,
        reserved=reserved,
    )


def _imbalance(y: Tensor, class_names: Sequence[str], metric: MetricChoice) -> tuple[str, ...]:
    if len(class_names) != 2:
        return ()
    counts = torch.bincount(y, minlength=2)
    rarer = int(counts.argmin())
    share = float(counts[rarer]) / len(y)
    if share >= _IMBALANCED:
        return ()
    fact = f"imbalanced: class {class_names[rarer]!r} is {share:.1%} of {len(y)} rows"
    return (fact if metric == "f1" else f"{fact}; AUC does not depend on that share, for F1 set dataset.metric to f1",)


def lacking_class(y: Tensor, class_names: Sequence[str]) -> str:
    """Return the first class of which no row is among some, with the rows of the others; empty if there is none."""
    counts = torch.bincount(y, minlength=len(class_names)).tolist()
    if all(counts):
        return ""
    others = [f"{count:,} of {name!r}" for name, count in zip(class_names, counts, strict=True) if count]
    return f"no row of class {class_names[counts.index(0)]!r} ({shortened(others, _NAMED) or 'no row at all'})"


def _lacking_in_test(where: str, y: Tensor, class_names: Sequence[str], test_rows: Tensor | None) -> tuple[str, ...]:
    """Return a note on official test rows that lack a class; of two classes both are needed."""
    lacking = "" if test_rows is None else lacking_class(y[test_rows], class_names)
    if not lacking:
        return ()
    if len(class_names) == 2:
        raise DataError(
            f"{where}: the test part has {lacking}, and scores need both classes; put rows of it there, or join the "
            "test part to the training part, from which every seed then holds out rows of its own"
        )
    return (f"the test part has {lacking}: no score says anything about that class",)


def _check_classes(where: str, y: Tensor, class_names: Sequence[str], test_rows: Tensor | None, hint: str) -> None:
    in_training = torch.ones(len(y), dtype=torch.bool)
    if test_rows is not None:
        in_training[test_rows] = False
    counts = torch.bincount(y[in_training], minlength=len(class_names)).tolist()
    # Without official test rows, a row of the class is held out for testing, and one must be left to train on.
    least = 1 if test_rows is not None else 2
    for class_name, count in zip(class_names, counts, strict=True):
        if count < least:
            raise DataError(
                f"{where}: class {class_name!r} has {count} row{'' if count == 1 else 's'} to train on; a split into "
                f"training and test rows needs at least {least}: {hint or 'add rows or remove the class'}"
            )


def fingerprint(
    parties: Parties,
    y: Tensor,
    class_names: Sequence[str],
    test_rows: Tensor | None,
    test_share: float,
    *,
    holders: Holders | None = None,
    reserved: Tensor | None = None,
) -> str:
    """Hash all inputs of a split: each party's columns, the labels, held-out rows, and the clients of the rows."""
    digest = hashlib.blake2b(digest_size=16)
    passive, active = parties
    for role, columns in [*(("passive", c) for c in passive), *([(ACTIVE, active)] if active else [])]:
        digest.update(repr((role, columns.party, columns.names, tuple(columns.x.shape))).encode())
        digest.update(columns.x.contiguous().view(-1).numpy().view("u1").data)
        digest.update(b"" if columns.scaled is None else columns.scaled.numpy().tobytes())
    digest.update(repr((tuple(class_names), test_share)).encode())
    digest.update(y.numpy().tobytes())
    digest.update(b"" if test_rows is None else test_rows.numpy().tobytes())
    digest.update(b"" if reserved is None else b"reserved" + reserved.numpy().tobytes())
    if holders is not None:
        digest.update(repr(holders.names).encode() + holders.of.numpy().tobytes())
    return digest.hexdigest()
