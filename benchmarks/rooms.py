"""The rooms into which :mod:`benchmarks.mutants` puts faults: their files, and the tests that may notice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Room(NamedTuple):
    """Some files, and some tests.

    Attributes:
        code: patterns of source files.
        tests: patterns of test files under ``tests``, and which of their tests (pytest's ``-k``; empty: all).
    """

    code: tuple[str, ...]
    tests: Mapping[str, str]


REPORTS = (
    "compared", "confirmed", "describe", "frames", "frontier", "gathered", "importances", "naming", "rows", "sections",
    "story", "tables",
)  # fmt: skip

ROOMS = {
    "leakage": Room(
        code=(
            "tune_vfl/evaluation/grants/*.py",
            "tune_vfl/evaluation/scoring.py",
            "tune_vfl/evaluation/measuring.py",
            "tune_vfl/evaluation/references.py",
            "tune_vfl/evaluation/summarizing.py",
            "tune_vfl/evaluation/certainty.py",
            "tune_vfl/protocol/granted.py",
            "tune_vfl/protocol/folds.py",
            "tune_vfl/protocol/recorder.py",
            "tune_vfl/protocol/view.py",
            "tune_vfl/statistics/*.py",
            "tune_vfl/metrics/leakage.py",
            "tune_vfl/metrics/utility.py",
            "tune_vfl/defenses/marvell.py",
            "tune_vfl/defenses/kdk.py",
            "tune_vfl/defenses/gafm.py",
            "tune_vfl/defenses/parts/marvell_solver.py",
            "tune_vfl/defenses/parts/teacher_labels.py",
            "tune_vfl/defenses/parts/teachers.py",
            "tune_vfl/defenses/parts/critic.py",
        ),
        tests={
            "statistics/test_*.py": "",
            "metrics/test_[!p]*.py": "",
            "protocol/test_*.py": "",
            "evaluation/test_[!s]*.py": "",
            "evaluation/test_s[cu]*.py": "",
            "defenses/test_gafm.py": "",
            "defenses/test_kdk.py": "",
            "defenses/test_ladistill.py": "",
            "defenses/test_marvell.py": "",
            "defenses/test_parameters.py": "",
            "attacks/test_direct*.py": "",
            "attacks/test_grad*.py": "",
            "attacks/test_moments.py": "",
            "attacks/test_secrets.py": "",
            "defenses/test_contract.py": "gafm or kdk or marvell",
        },
    ),
    "filter": Room(
        (
            "tune_vfl/attacks/matched_filter.py",
            "tune_vfl/attacks/parts/behind_parts.py",
            "tune_vfl/attacks/parts/behind_swaps.py",
            "tune_vfl/attacks/parts/forces.py",
            "tune_vfl/attacks/parts/half_means.py",
            "tune_vfl/attacks/parts/own_columns.py",
            "tune_vfl/attacks/parts/read_signs.py",
            "tune_vfl/attacks/parts/sent_rows.py",
            "tune_vfl/attacks/parts/templates.py",
            "tune_vfl/attacks/parts/trust.py",
            "tune_vfl/attacks/parts/visits_by_step.py",
            "tune_vfl/evaluation/columns_alone.py",
            "tune_vfl/evaluation/drifting.py",
            "tune_vfl/evaluation/grants/visits.py",
            "tune_vfl/evaluation/measuring.py",
            "tune_vfl/evaluation/references.py",
        ),
        {
            "attacks/test_behind_mechanisms.py": "",
            "attacks/test_behind_swaps.py": "",
            "attacks/test_forces.py": "",
            "attacks/test_half_means.py": "",
            "attacks/test_in_turn.py": "",
            "attacks/test_matched_filter.py": "",
            "attacks/test_read_signs.py": "",
            "attacks/test_own_columns.py": "",
            "attacks/test_t*.py": "",
            "attacks/test_visits_by_step.py": "",
            "evaluation/test_columns_alone.py": "",
            "evaluation/test_drifting.py": "",
            "evaluation/test_measuring.py": "",
            "evaluation/test_references.py": "",
            "evaluation/test_visits.py": "",
        },
    ),
    "analysis": Room(("tune_vfl/analysis/*.py",), {"analysis/test_*.py": "", "reports/test_t*.py": ""}),
    "confirmation": Room(("tune_vfl/confirmation/*.py",), {"confirmation/test_[!r]*.py": ""}),
    "horizontal": Room(
        (
            "tune_vfl/horizontal/*.py",
            "tune_vfl/evaluation/alone.py",
            "tune_vfl/evaluation/clients.py",
            "tune_vfl/evaluation/federations/horizontal.py",
            "tune_vfl/attacks/parts/read_off.py",
        ),
        {
            "horizontal/test_*.py": "",
            "evaluation/test_horizontal_data.py": "",
            "evaluation/test_uploads.py": "",
            "evaluation/test_certainty.py": "",
            "attacks/test_read_off*.py": "",
        },
    ),
    "ledger": Room(("tune_vfl/ledger/*.py",), {"ledger/test_*.py": "", "records/test_*.py": ""}),
    "records": Room(
        ("tune_vfl/records/*.py", "tune_vfl/outcome.py"), {"records/test_*.py": "", "ledger/test_*.py": ""}
    ),
    "driver": Room(("tune_vfl/driver/*.py",), {"driver/test_*.py": ""}),
    # Not tune_run: tests with a real Ray see what is wrong there; they are too slow here.
    "execution": Room(("tune_vfl/execution/[!t]*.py",), {"execution/test_*.py": "", "driver/test_*.py": ""}),
    "reports": Room(  # numbers and sentences; the others draw, lay out and keep
        tuple(f"reports/{name}.py" for name in REPORTS), {"reports/test_[!b]*.py": ""}
    ),
}


def code(rooms: Iterable[str] = ROOMS) -> dict[str, str]:
    """Return the source texts that are changed, by path."""
    paths = [path for room in rooms for pattern in ROOMS[room].code for path in sorted(ROOT.glob(pattern))]
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}


def files_of_tests(rooms: Iterable[str]) -> dict[str, str]:
    """Return the paths of test files, and which of their tests, see :class:`Room`."""
    found: dict[str, str] = {}
    for room in rooms:
        for pattern, keyword in ROOMS[room].tests.items():
            for path in sorted((ROOT / "tests").glob(pattern)):
                found[str(path.relative_to(ROOT))] = keyword
    return found


def room_of(path: str) -> str:
    """Return the room of a source file; the first of those that have it."""
    return next(room for room in ROOMS if path in code([room]))
