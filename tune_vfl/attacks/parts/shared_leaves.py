"""Beliefs about labels from nodes of trees that rows share: leaves are grown to hold rows of one class."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tune_vfl.protocol.members import gather_rows
from tune_vfl.protocol.view import Answer, Auxiliary
from tune_vfl.seeds import Stream

PRIOR = 1.0
"""Rows that a node is taken to hold before any is seen, of each class or of all in their shares: few prove little."""
SHARPNESS = 3.0
"""Root mean square of the logits that become beliefs: sums over trees that are much alike claim more."""
_POWERS, _SPARE, _ROUNDS = 6, 16, 20


def by_known(groups: Tensor, known: Auxiliary, num_classes: int) -> Tensor:
    """Return logits of the classes by the known rows in each row's nodes, a known row's by the other ones.

    The trees are taken for independent witnesses: a node speaks for a class by the share of the class's known rows
    that it holds (naive Bayes).

    Args:
        groups: ``(*trials, T, N)`` a node of each row in each tree.
        known: rows whose labels are known, A of them.
        num_classes: K.

    Returns:
        ``(*trials, N, K)``, adding up to 0 over the classes.
    """
    classes = one_hot(known.labels, num_classes).float()
    held = torch.zeros(*groups.shape[:-2], groups.shape[-1], num_classes)
    total, nodes = classes.sum(-2, keepdim=True), int(groups.max()) + 1
    own = torch.zeros_like(held).scatter(-2, known.ids.unsqueeze(-1).expand_as(classes), classes)
    for node in groups.unbind(-2):
        seen = gather_rows(_sums(node.gather(-1, known.ids), classes, nodes), node) - own
        held += _parts(node) * ((seen + PRIOR) / (total - own + PRIOR * num_classes)).log()
    return held - held.mean(-1, keepdim=True)


def by_beliefs(groups: Tensor, beliefs: Tensor) -> Tensor:
    """Return logits of the classes by what is believed of the other rows in each row's nodes.

    Args:
        groups: ``(*trials, T, N)`` a node of each row in each tree.
        beliefs: ``(*trials, N, K)`` class probabilities.

    Returns:
        ``(*trials, N, K)``, adding up to 0 over the classes.
    """
    held, nodes = torch.zeros_like(beliefs), int(groups.max()) + 1
    mean = beliefs.mean(-2, keepdim=True)
    for node in groups.unbind(-2):
        others = gather_rows(_sums(node, beliefs, nodes), node) - beliefs + PRIOR * mean
        count = gather_rows(_sums(node, torch.ones_like(beliefs[..., :1]), nodes), node)
        held += _parts(node) * (others / (count - 1 + PRIOR)).clamp(min=1e-6).log()
    return held - held.mean(-1, keepdim=True)


def on_one_scale(logits: Tensor) -> Tensor:
    """Return logits ``(*trials, N, K)`` centered over rows and of mean square 1; those that say nothing become 0."""
    centered = logits - logits.mean(-2, keepdim=True)
    size = centered.square().mean((-1, -2), keepdim=True).sqrt()
    return torch.where(size > 1e-6, centered / size.clamp(min=1e-6), 0.0)


def believed(logits: Tensor, shares: Tensor) -> Tensor:
    """Return class probabilities ``(*trials, N, K)`` by logits brought to one scale; on the whole they are the shares.

    Known rows are as many of each class, so that logits do not say how frequent a class is.

    Args:
        logits: ``(*trials, N, K)``.
        shares: ``(*trials, K)`` of the classes among all rows.
    """
    scaled, wanted = SHARPNESS * on_one_scale(logits), shares.unsqueeze(-2).clamp(min=1e-6)
    for _ in range(_ROUNDS):
        scaled = scaled + (wanted / scaled.softmax(-1).mean(-2, keepdim=True).clamp(min=1e-6)).log()
    return scaled.softmax(-1)


def taught(beliefs: Tensor, known: Auxiliary) -> Tensor:
    """Return beliefs ``(*trials, N, K)`` with the labels of known rows in them."""
    classes = one_hot(known.labels, beliefs.shape[-1]).to(beliefs.dtype)
    return beliefs.scatter(-2, known.ids.unsqueeze(-1).expand_as(classes), classes)


def said_of_known(logits: Tensor, known: Auxiliary) -> Tensor:
    """Return ``(*trials,)``: the mean belief in the label of a known row, by logits ``(*trials, N, K)`` without it.

    It tells better what to choose than how many are right: of twenty rows that is often the same number.
    """
    said = gather_rows((SHARPNESS * on_one_scale(logits)).softmax(-1), known.ids)
    return said.gather(-1, known.labels.unsqueeze(-1)).squeeze(-1).mean(-1)


def answered(scores: Tensor, known: Auxiliary, validation: Tensor | None = None) -> Answer:
    """Return oriented scores ``(*trials, N, K)`` of all rows as an answer: those with a known label do not count.

    Args:
        scores: of the classes.
        known: rows whose labels are known.
        validation: ``(*trials,)`` by which the attacker chooses among variants; None for a single one.
    """
    ids = torch.arange(scores.shape[-2]).expand(scores.shape[:-1])
    hidden = torch.ones_like(ids, dtype=torch.bool).scatter(-1, known.ids, False)
    return Answer(scores, ids, oriented=True, counted=hidden, validation=validation)


def directions(groups: Tensor, nodes: int, stream: Stream, count: int = 32) -> Tensor:
    """Return the main coordinates ``(*trials, N, count)`` of rows by one entry a node, each of variance 1.

    The entries are never written out: powers of their products with few vectors find the main directions (Halko et
    al. 2011).

    Args:
        groups: ``(*trials, T, N)`` a node of each row in each tree.
        nodes: of a tree.
        stream: of the vectors that it starts from.
        count: directions.
    """
    trees, ones = groups.unbind(-2), torch.ones(*groups.shape[:-2], groups.shape[-1], 1, dtype=torch.float64)
    shares = torch.stack([_sums(node, ones, nodes) for node in trees]) / groups.shape[-1]
    weights = torch.where(shares * (1 - shares) > 0, (shares * (1 - shares)).clamp(min=1e-12).rsqrt(), 0.0)

    def down(rows: Tensor) -> Tensor:
        of_trees = torch.stack([_sums(node, rows, nodes) for node in trees])
        return weights * (of_trees - shares * rows.sum(-2, keepdim=True))

    def up(entries: Tensor) -> Tensor:
        weighed = weights * entries
        held = -(shares * weighed).sum((0, -2)).unsqueeze(-2)
        for part, node in zip(weighed, trees, strict=True):  # all at once would take the memory of all entries
            held = held + gather_rows(part, node)
        return held

    found = stream.normal(groups.shape[-1], count + _SPARE).double()
    for _ in range(_POWERS):
        found = torch.linalg.qr(up(down(found))).Q
    products = down(found)
    values, axes = torch.linalg.eigh((products.mT @ products).sum(0))
    main: Tensor = found @ (axes * values.clamp(min=0).sqrt().unsqueeze(-2))[..., -count:]
    return main.float()


def _sums(node: Tensor, rows: Tensor, nodes: int) -> Tensor:
    """Return the sums ``(*trials, nodes, k)`` of rows ``(*trials, N, k)`` by node."""
    sums = rows.new_zeros(*rows.shape[:-2], nodes, rows.shape[-1])
    return sums.scatter_add(-2, node.unsqueeze(-1).expand_as(rows), rows)


def _parts(node: Tensor) -> Tensor:
    """Return ``(*trials, 1, 1)``: 1 where rows stand in several nodes; what all other rows have says nothing."""
    return (node.amin(-1) != node.amax(-1)).float()[..., None, None]
