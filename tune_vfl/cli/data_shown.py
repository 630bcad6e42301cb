"""The screen of ``data check``: the worst columns first, the rest counted."""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import TYPE_CHECKING

from tune_vfl.cli.output import as_yaml, emit, emit_table
from tune_vfl.data.spellings import in_place

if TYPE_CHECKING:
    from tune_vfl.data.check import Facts, PartyFacts
    from tune_vfl.data.findings import ColumnFacts, Finding, Oddity

LINES = 40
"""Lines of :data:`WIDTH` characters that the description of any data set fits."""
WIDTH = 100
LEAST_COLUMNS = 5
"""So many columns are shown in any case."""
_FRAME = 4  # lines of a table beside its rows
_CLASSES = 4
_ASKED = 6
_MERGED = 12
_CLASS, _PARTY = 22, 10
_ALONE = {"auc": "AUC alone", "balanced_accuracy": "bal. acc."}


def show(facts: Facts, *, every: bool = False) -> None:
    """Print the description of a data set.

    Args:
        facts: of one data set.
        every: show all columns, whatever the number of lines.
    """
    top = [_headline(facts), _classes(facts), *_slips(facts)]
    bottom = [*(_wrapped(f"note: {note}") for note in facts.notes), *_to_paste(facts)]
    told = "\n".join([*top, *bottom, *(f"warning: {warning}" for warning in facts.warnings)])
    room = LINES - sum(-(-len(line) // WIDTH) for line in told.splitlines()) - _FRAME - len(facts.parties) - _FRAME - 2
    emit("\n".join(top))
    emit_table(
        ("party", "role", "columns", "inputs", "numbers", "codes", "categories", "with missing"),
        [_party_row(party, facts.modality) for party in facts.parties],
    )
    _show_columns(facts, None if every else max(room, LEAST_COLUMNS))
    if bottom:
        emit("\n".join(bottom))


def _headline(facts: Facts) -> str:
    official = "its own test rows" if facts.official_test else f"the split of seed {facts.seed}"
    return (
        f"{facts.name}: {facts.rows:,} rows, {len(facts.classes)} classes, metric {facts.metric}; "
        f"{facts.train:,} training and {facts.test:,} test rows ({official})"
    )


def _classes(facts: Facts) -> str:
    by_size = sorted(facts.classes, key=lambda c: c.rows)
    listed = facts.classes if len(by_size) <= _CLASSES else (by_size[0], by_size[-1])
    said = ", ".join(f"{_short(c.name, _CLASS)!r} {c.rows:,} rows ({c.share:.1%}; {c.test:,} test)" for c in listed)
    return _wrapped(f"classes{'' if listed is facts.classes else ', the rarest and the most frequent'}: {said}")


def _slips(facts: Facts) -> list[str]:
    """Name the columns of numbers that a few texts make categories, before anything else."""
    slips = [f for f in facts.findings if f.oddity == "slips"]
    lines = [_wrapped(f"column {_short(f.column, _CLASS)!r}: {f.why}") for f in slips[:_CLASSES]]
    return [*lines, *([f"... and {len(slips) - _CLASSES} more columns with slips"] if slips[_CLASSES:] else [])]


def _party_row(party: PartyFacts, modality: str) -> list[object]:
    inputs = " x ".join(str(n) for n in party.shape)
    if not party.columns:
        return [party.name, party.role, modality, inputs, None, None, None, None]
    kinds = [c.kind for c in party.columns]
    counts = [kinds.count(kind) for kind in ("number", "code", "category")]
    return [party.name, party.role, len(kinds), inputs, *counts, sum(c.missing > 0 for c in party.columns)]


def _show_columns(facts: Facts, most: int | None) -> None:
    worst: dict[tuple[str, str], Finding] = {}
    for finding in facts.findings:
        worst.setdefault((finding.party, finding.column), finding)
    rank = {place: k for k, place in enumerate(worst)}
    columns = [(party.name, c) for party in facts.parties for c in party.columns]
    columns.sort(key=lambda pair: (rank.get((pair[0], pair[1].name), len(rank)), -(pair[1].alone or 0.0)))
    shown = columns if most is None or len(columns) <= most else columns[:most]
    if not shown:
        return
    names = ("column", "party", "kind", "values", "missing", _ALONE[facts.alone_measure], "what stands out")
    rows = [_column_row(party, c, worst.get((party, c.name))) for party, c in shown]
    others = zip(names[1:], *(row[1:] for row in rows), strict=True)
    # Each column of the table has three characters between it and the next one; names get what is left.
    left = WIDTH - 3 * len(names) - 1 - sum(max(len(str(cell)) for cell in column) for column in others)
    emit_table(names, [[_short(str(row[0]), left), *row[1:]] for row in rows])
    rest = columns[len(shown) :]
    if rest:
        odd = Counter(worst[party, c.name].oddity for party, c in rest if (party, c.name) in worst)
        which = ", ".join(f"{oddity} {n}" for oddity, n in odd.items()) or "none of which stands out"
        emit(_wrapped(f"... and {len(rest)} more columns ({which}); --all shows them"))


def _column_row(party: str, c: ColumnFacts, finding: Finding | None) -> list[object]:
    missing = f"{c.missing:.1%}" if c.missing else "-"
    alone = "-" if c.alone is None else f"{c.alone:.3f}"
    odd = finding.oddity if finding else "-"
    return [c.name, _short(party, _PARTY), c.kind, c.distinct, missing, alone, odd]


def _to_paste(facts: Facts) -> list[str]:
    """Return the lines that go into the spec, and the columns that only a person can judge."""
    from tune_vfl.errors import shortened

    lines = []
    if facts.exclude:
        listed = as_yaml({"exclude": list(facts.exclude)}, default_flow_style=None, width=WIDTH - 6)
        new = {f.column for f in facts.findings if f.exclude}
        where = in_place("exclude", set(facts.exclude) - new)
        lines += [f"to leave out what is no feature, {where}:", textwrap.indent(listed, "  ")]
    if facts.groups:
        names = shortened(list(facts.groups), _ASKED)
        split = as_yaml({"split": {"group": facts.groups[0]}}, default_flow_style=None)
        lines.append(
            _wrapped(
                f"several rows have one value of {names}: where these belong together, as a customer's, split by it "
                f"and take it off `exclude` and off the lists of parties: {split}"
            )
        )
    if facts.categories:
        lines += _to_merge(facts)
    asked = [f"{f.column} ({f.score:.3f})" for f in _of(facts, "known before?")]
    if asked:
        lines.append(_wrapped(f"known before the label? if not, leave out, too: {shortened(asked, _ASKED)}"))
    texts = [f.column for f in _of(facts, "numbers as text")]
    if texts:
        lines.append(
            _wrapped(f"numbers with texts in them are categories; write 1234.5 in: {shortened(texts, _ASKED)}")
        )
    return lines


def _to_merge(facts: Facts) -> list[str]:
    """Return the lines that merge spellings: what the spec merges already, and of many new ones the first that fit."""
    pairs = [(column, name, to) for column, names in facts.categories.items() for name, to in names.items()]
    seen = {(c.name, name) for party in facts.parties for c in party.columns for group in c.spelt for name, _ in group}
    new = [pair for pair in pairs if pair[:2] in seen]
    kept = [pair for pair in pairs if pair[:2] not in seen]
    shown: dict[str, dict[str, str]] = {}
    for column, name, to in [*kept, *new[:_MERGED]]:
        shown.setdefault(column, {})[name] = to
    listed = as_yaml({"categories": shown}, default_flow_style=None, width=WIDTH - 6, sort_keys=False)
    more = f" (the first {_MERGED} of {len(new)}; --json has all)" if new[_MERGED:] else ""
    return [f"where these are one category, {in_place('categories', kept)}{more}:", textwrap.indent(listed, "  ")]


def _of(facts: Facts, oddity: Oddity) -> list[Finding]:
    return [f for f in facts.findings if f.oddity == oddity and f.column not in facts.exclude]


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _short(name: str, most: int) -> str:
    """Return a long name without its middle: names of a table often differ at their ends."""
    if len(name) <= most:
        return name
    head = (most - 1) // 2
    return f"{name[:head]}…{name[head + 1 - most :]}"
