"""Declared capabilities of a defense: supported settings, changed values, and requirements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tune_vfl.models.base import HeadOption
from tune_vfl.spec import VERTICAL, FederationName
from tune_vfl.spec.cell import ALL_MODES, Mode


@dataclass(frozen=True)
class DefenseCapabilities:
    """Declared capabilities of a defense, checked before anything runs.

    Attributes:
        classes: ``binary`` or ``any``.
        modes: the architectures it is defined for.
        modalities: the kinds of data it is defined for.
        run_by: the party that runs the defense: ``active``, ``passive`` or ``both``.
        protects: what it changes on its way out: ``gradients``, ``labels``, ``embeddings``, ``features``, ``nodes``,
            ``sums``.
        needs_active_features: it cannot work where the label party has labels only.
        stackable: its hooks take any leading axes, so that several trials train in one pass; without, one at a time.
        scale_sensitive: its strength depends on the batch size (absolute numbers against batch-mean gradients).
        head: the logits that it needs: ``classes`` one for each class, where a net would give binary targets one;
            ``scalar`` a single number, whatever the number of classes; ``auto`` takes the net's own.
        needs_concat: it works on each party's part of the joined embedding, which sums and means do not keep apart.
        needs_context: it needs the label party's context of a step (:class:`~tune_vfl.protocol.hooks.Context`).
        random: its random draws: ``gradients`` (afresh at each call), ``labels`` (once, at the set-up).
        grants: knowledge of a passive party under such defenses alone, by the name of the grant: ``mixtures``.
        federations: the settings that it is defined for: columns of the same rows, or rows of the same columns.
        client_bottom: the treatment of a client's bottom model in the horizontal setting: ``shared`` with the server,
            which averages it; ``hidden``: averaged out of the server's sight; ``kept``: every
            client has its own, which never leaves it.

    Example:
        >>> from tune_vfl.defenses import Kdk
        >>> sorted(Kdk.capabilities.protects), Kdk.capabilities.run_by
        (['labels'], 'active')
    """

    classes: Literal["binary", "any"] = "any"
    modes: frozenset[Mode] = ALL_MODES
    modalities: frozenset[str] = frozenset({"table", "image", "text"})
    run_by: Literal["active", "passive", "both"] = "active"
    protects: tuple[str, ...] = ("gradients",)
    needs_active_features: bool = False
    stackable: bool = False
    scale_sensitive: bool = False
    head: HeadOption = "auto"
    needs_concat: bool = False
    needs_context: bool = False
    random: tuple[str, ...] = ()
    grants: frozenset[str] = frozenset()
    federations: frozenset[FederationName] = VERTICAL
    client_bottom: Literal["shared", "hidden", "kept"] = "shared"
