"""Packed studies of the schema before ``tune-vfl/packed/1``: a lone study in ``study.json`` and ``trials.jsonl``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

SCHEMA = "tune-vfl/packed-study/1"
HEAD, TRIALS = "study.json", "trials.jsonl"

_OF_TRIAL = ("number", "params", "pack", "retry_of", "lost", "sampler")


def tables(head: Mapping[str, Any], trials: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of today's tables, unchecked.

    Raises:
        KeyError, TypeError, ValueError: for data of another shape.
    """
    planned, name = head["study"], head["study"]["spec"]["study"]
    study = {k: planned[k] for k in ("spec", "cell", "space", "measure", "data", "coverage") if k in planned}
    study |= {"name": name, "place": 0, "trials": head["budget"], "reference_scores": head.get("references")}
    study |= {k: head[k] for k in ("reference_point", "baseline", "cost") if k in head}
    study |= {"confirmation": head["answer"]} if "answer" in head else {}
    seeds = [{"study": name, "number": n, "seed": s, "record": r} for n, s, r in head.get("confirmed", ())]
    tuned = {int(number): found for number, found in head.get("tuned", {}).items()}
    rows = [_trial(name, trial) | {"tuned": tuned.get(trial["number"])} for trial in trials]
    return {"campaigns": [], "studies": [study], "trials": rows, "confirmations": seeds}


def _trial(study: str, trial: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"study": study, **{k: trial[k] for k in _OF_TRIAL if k in trial}}
    row["asked"] = trial.get("asked") or _seconds(trial["started"])
    if trial.get("outcome") is not None:
        row |= {"result": trial["outcome"], "finished": _seconds(trial["finished"])}
    return row


def _seconds(moment: str) -> float:
    """Return a moment as seconds since 1970."""
    return datetime.fromisoformat(moment).timestamp()
