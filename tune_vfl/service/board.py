"""The verbs ``board add`` and ``board write``: entries from the ledger's studies, and the pages of all entries.

A board is a folder. ``DATASET.yaml`` in it is a spec, the conditions under which every defense is measured there;
``DATASET/DEFENSE.json.gz`` are the entries.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_vfl.defenses.base import DEFENSES
from tune_vfl.driver.planning import plan_study, read_study
from tune_vfl.errors import SpecError, StudyError, UsageError, shortened
from tune_vfl.ledger.packing import pack
from tune_vfl.machine.files import written_out, written_whole
from tune_vfl.records.board import SUFFIX, Entry, settings_of
from tune_vfl.service.studies import campaign_record
from tune_vfl.spec.raw import apply_settings, read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tune_vfl.records.packed import Packed
    from tune_vfl.records.plans import PlannedStudy

LONGEST_DIFFERENCE = 120
"""Characters of a difference from the conditions that a message shows."""

_NOT_IN_A_COMMAND = {
    "start": "settings of the study's own were tried first",
    "stop": "the study has an end of its own, before its trials are used up",
}
"""Fields of a spec that make no other study, but that the command of an entry would not repeat."""


def add(name: str, board: Path, storage: str | None = None) -> list[Path]:
    """Write an entry for a study, or for each study of a campaign, in the place of an earlier one.

    Args:
        name: of the study or the campaign.
        board: the folder with the conditions. An entry's command is for the folder above it, wherever that lies.
        storage: the ledger's database; None is the one that the environment names.

    Returns:
        The entries' files.

    Raises:
        StudyError: for a study that was searched under other conditions, is not finished or has no result. No entry is
            written then.
    """
    conditions = conditions_in(board)
    entries: dict[Path, Entry] = {}
    for study in campaign_record(name, storage).studies:
        if study.waiting or study.running or not study.ok:
            raise StudyError(
                f"study {study.name!r} is not finished, or has no result: `tune-vfl resume {name}` goes on with it"
            )
        packed = pack(study.name, storage)
        under = conditions_of(packed, conditions)
        entries[board / under.stem / f"{study.cell.defense}{SUFFIX}"] = Entry.of(
            packed, Path(board.name, under.name), DEFENSES[study.cell.defense].paper_attacks
        )
    for path, entry in entries.items():
        with written_whole(path) as draft:
            draft.write_bytes(entry.compressed())
    return list(entries)


def entries_in(board: Path) -> dict[Path, list[Entry]]:
    """Return a board's entries by the file of their conditions.

    Raises:
        UsageError: when the folder holds no conditions.
        ParcelError: for a file that is not an entry.
    """
    found = {path: sorted((board / path.stem).glob("*.json*")) for path in conditions_in(board)}
    return {path: [Entry.read(file) for file in files] for path, files in found.items()}


def conditions_in(board: Path) -> dict[Path, dict[str, Any]]:
    """Return a board's conditions, by their file.

    Raises:
        UsageError: when there are none.
    """
    found = {path: read_yaml(path) for path in sorted(board.glob("*.yaml"))}
    if not found:
        raise UsageError(
            f"{board}: expected the folder of a board, with a spec for each data set (DATASET.yaml), got none; "
            "run the command beside tune-vfl's own folder board/, or name the folder with --board"
        )
    return found


def conditions_of(packed: Packed, conditions: Mapping[Path, Mapping[str, Any]]) -> Path:
    """Return the conditions that a study was searched under.

    Raises:
        StudyError: with what is different from each of its data set's.
    """
    planned, most = packed.studies[0].planned, LONGEST_DIFFERENCE
    told = []
    for path, raw in conditions.items():
        asked = raw.get("dataset")
        if (asked.get("name") if isinstance(asked, dict) else asked) != planned.cell.dataset.name:
            continue
        try:
            again = replanned(packed, raw)
            own = [name for name in _NOT_IN_A_COMMAND if getattr(planned.spec, name) != getattr(again.spec, name)]
            different = [*again.difference(planned), *(f"{name}: {_NOT_IN_A_COMMAND[name]}" for name in own)]
        except SpecError as error:  # such as a defense that does not fit the other conditions of its data set
            different = error.problems
        if not different:
            return path
        # A whole space or list of attacks may stand in one.
        cut = [line if len(line) <= most else f"{line[: most - 3]}..." for line in different]
        told.append(f"{path}: {shortened(cut, 3, '; ')}")
    if not told:
        raise StudyError(
            f"study {planned.name!r}: the board has no conditions for data set {planned.cell.dataset.name!r}; it has "
            f"{', '.join(path.stem for path in conditions)}"
        )
    raise StudyError(
        f"study {planned.name!r} was searched under other conditions than the board's ({' | '.join(told)}); search "
        "again from the board's file: `tune-vfl search board/DATASET.yaml --set defense=NAME --set study=NEW`"
    )


def replanned(packed: Packed, conditions: Mapping[str, Any]) -> PlannedStudy:
    """Return the plan of a study's search again, from the conditions and what is its own."""
    return plan_study(read_study(apply_settings(conditions, settings_of(packed))))


def write(board: Path, out: Path) -> Sequence[Path]:
    """Write the pages of a board: ``board.md``, ``board.csv``, ``board-page.html`` and a figure for each data set.

    Raises:
        UsageError: when the folder holds no conditions.
        ParcelError: for a file that is not an entry.
        UnwritableError: when the place cannot be written.
    """
    from reports.board_page import board_files

    written = []
    for name, content in board_files(entries_in(board)).items():
        with written_out(out / name) as draft:
            draft.write_bytes(content)
        written.append(out / name)
    return written
