"""Tables of studies as frames, and as CSV, Markdown and LaTeX files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reports.confirmed import confirmed_frame
from tune_vfl.analysis import formatting
from tune_vfl.analysis.columns import values
from tune_vfl.analysis.joint_front import Joint
from tune_vfl.analysis.settings_table import SettingsTable
from tune_vfl.machine.csv_text import frame_of, to_csv
from tune_vfl.machine.streams import visible
from tune_vfl.metrics.published import cap_by_attack, scalars
from tune_vfl.outcome import OUTCOMES, Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from tune_vfl.records.studies import StudyRecord

    Texts = list[list[str]]


_SCALARS = ("cap", "utility_per_leak")
_OF_SCORE = (
    *("advantage", "advantage_std", "floor", "floor_by", "guess", "r_lower"),
    *("variant", "upper_bound", "weak_attack"),
)
_SCORES = ("utility", "utility_std", "leakage", "leakage_std", "attack.*", "not_needed.*")
_FRONT = ("study", "number", "defense.*", "knee", *_SCORES)
_TRIALS = ("study", "number", "defense.*", "outcome", "reason", "rank", *_SCORES, "seconds", "retry_of")


def front_frame(records: Sequence[StudyRecord]) -> pd.DataFrame:
    """Return a row per front point, by rising leakage within a study."""
    rows: list[dict[str, Any]] = []
    for study in records:
        joint = Joint(study)
        rows += [values(point, _FRONT, knee=point is joint.knee) for point in joint.by_leakage]
    return frame_of(rows, columns=_columns(rows, ["study", "number", "knee", "utility", "leakage"]))


def trials_frame(records: Sequence[StudyRecord]) -> pd.DataFrame:
    """Return a row per finished trial, preempted ones included, by number within a study."""
    rows: list[dict[str, Any]] = []
    for study in records:
        rows += [values(trial, _TRIALS) for trial in SettingsTable(study).trials]
    frame = frame_of(rows, columns=_columns(rows, ["study", "number", "outcome", "reason", "rank"]))
    whole = [c for c in ("rank", "retry_of") if c in frame]
    return frame.astype(dict.fromkeys(whole, "Int64"))


def outcomes_frame(records: Sequence[StudyRecord]) -> pd.DataFrame:
    """Return a row per study and outcome, with the reasons, the most frequent first."""
    import pandas as pd

    rows = []
    for record in records:
        for kind in OUTCOMES:
            ended = [t for t in record.trials if t.outcome.outcome == kind]
            if ended:
                reasons = pd.Series([t.outcome.reason for t in ended if t.outcome.reason], dtype=str).value_counts()
                said = "; ".join(f"{reason} ({n})" if n > 1 else str(reason) for reason, n in reasons.items())
                rows.append({"study": record.name, "outcome": kind, "trials": len(ended), "reasons": said})
    return frame_of(rows, columns=["study", "outcome", "trials", "reasons"])


def attacks_frame(records: Sequence[StudyRecord]) -> pd.DataFrame:
    """Return a row per front point and attack, and per attack on the undefended model (no number)."""
    rows: list[dict[str, Any]] = []
    for record in records:
        ends = [(row.number, row.outcome) for row in SettingsTable(record).rows if row.on_front]
        undefended = [(None, record.baseline)] if record.baseline else []
        rows += [row for number, outcome in [*undefended, *ends] for row in _attack_rows(record.name, number, outcome)]
    about = ["study", "number", "attack", "metric", "success", "success_std"]
    frame = frame_of(rows, columns=[*about, *_OF_SCORE, *_SCALARS, "not_needed"])
    return frame.astype({"number": "Int64", "r_lower": "Float64", **dict.fromkeys(_SCALARS, "Float64")})


def cap_frame(records: Sequence[StudyRecord]) -> pd.DataFrame:
    """Return CAP (FedAdOb, equation 13) over all settings of a study, a row per study and attack with a CAP.

    CAPs are comparable over the same settings alone; ``std`` is over the settings.
    """
    rows = [
        {"study": record.name, "attack": name, **of._asdict()}
        for record in records
        for name, of in cap_by_attack([t.outcome for t in record.ok]).items()
    ]
    return frame_of(rows, columns=["study", "attack", "settings", "cap", "std"])


def _attack_rows(study: str, number: int | None, outcome: Outcome) -> list[dict[str, Any]]:
    beside = scalars(outcome)
    return [
        {"study": study, "number": number, "attack": name, "metric": score.metric}
        | {"success": score.mean, "success_std": score.std}
        | {field: getattr(score, field) for field in _OF_SCORE}
        | ({field: getattr(beside[name], field) for field in _SCALARS} if beside else {})
        for name, score in outcome.attacks.items()
    ] + [
        {"study": study, "number": number, "attack": name, "not_needed": why}
        for name, why in outcome.not_needed.items()
    ]


def _columns(rows: Sequence[Mapping[str, Any]], least: Sequence[str]) -> list[str]:
    """Return the columns of all rows in order of appearance; an empty table has the default ones."""
    return list(dict.fromkeys(name for row in rows for name in row)) or list(least)


def tables(records: Sequence[StudyRecord]) -> dict[str, pd.DataFrame]:
    """Return the tables of studies by name; the one of confirmations only if a study has one."""
    several = {"fronts": front_frame(records)} if len(records) > 1 else {}
    confirmed = {"confirmed": confirmed_frame(records)} if any(r.confirmation for r in records) else {}
    return {
        **several,
        "trials": trials_frame(records),
        "outcomes": outcomes_frame(records),
        "attacks": attacks_frame(records),
        "cap": cap_frame(records),
        **confirmed,
    }


def to_markdown(frame: pd.DataFrame, texts: Texts | None = None) -> str:
    """Return a frame as a Markdown table, numbers in at most three significant digits, missing ones as a dash.

    Texts are shown and no HTML of theirs is obeyed: ``<`` is ``&lt;``, hidden characters are escaped.

    Args:
        frame: the table.
        texts: what :func:`table_texts` makes of it, where that is known already.
    """
    lines = [list(map(str, frame.columns)), ["---"] * len(frame.columns), *(texts or table_texts(frame))]
    return _joined(lines, _MARKDOWN, "| ", " | ", " |")


_CELL, _ROW = "\x1f", "\x1e"
_MARKDOWN = str.maketrans({"|": r"\|", "\n": " ", "<": "&lt;"})


def _joined(lines: Texts, escapes: Mapping[int, str], begin: str, between: str, end: str) -> str:
    """Join cells to lines, escaped as one text, which takes a tenth of the time of escaping cell by cell."""
    marked = _ROW.join(_CELL.join(c if c.isprintable() else visible(c) for c in line) for line in lines)
    inside = marked.translate(escapes).replace(_CELL, between).replace(_ROW, f"{end}\n{begin}")
    return f"{begin}{inside}{end}\n"


_TEX = str.maketrans({
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\n": " ", "–": "--", "±": r"$\pm$",
    "<": r"\textless{}", ">": r"\textgreater{}",
})  # fmt: skip


def to_latex(frame: pd.DataFrame, texts: Texts | None = None) -> str:
    """Return a frame as a LaTeX ``tabular`` that needs the booktabs package; numbers are set to the right.

    Args:
        frame: the table.
        texts: what :func:`table_texts` makes of it, where that is known already.
    """
    import pandas as pd

    sides = "".join("r" if pd.api.types.is_numeric_dtype(frame[c]) else "l" for c in frame.columns)
    head = _joined([list(map(str, frame.columns))], _TEX, "", " & ", r" \\")
    rows = texts or table_texts(frame)
    body = _joined(rows, _TEX, "", " & ", r" \\") if rows else ""
    above = f"% needs \\usepackage{{booktabs}}\n\\begin{{tabular}}{{{sides}}}\n\\toprule\n"
    return f"{above}{head}\\midrule\n{body}\\bottomrule\n\\end{{tabular}}\n"


def table_texts(frame: pd.DataFrame) -> Texts:
    """Format the values of a frame, row by row."""
    return [[table_text(value) for value in row] for row in frame.itertuples(index=False, name=None)]


def table_text(value: Any) -> str:
    """Format one value."""
    import pandas as pd

    if value is None or value is pd.NA or (isinstance(value, float) and value != value):  # noqa: PLR0124 - NaN
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return formatting.number(value)


def table_files(frames: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Return every table as ``NAME.csv`` (full precision), ``NAME.md`` and ``NAME.tex``, by the file's name."""
    files: dict[str, str] = {}
    for name, frame in frames.items():
        texts = table_texts(frame)
        kinds = {"csv": to_csv(frame), "md": to_markdown(frame, texts), "tex": to_latex(frame, texts)}
        files |= {f"{name}.{kind}": text for kind, text in kinds.items()}
    return files
