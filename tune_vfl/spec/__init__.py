"""A study's spec, before and after it is parsed, and the cell that it is resolved to: plain data."""

from tune_vfl.spec.bases import Strict
from tune_vfl.spec.cell import ALL_MODES, MEASURE, Cell, Mode, References, RowsUsed
from tune_vfl.spec.explaining import explain
from tune_vfl.spec.federation import BOTH, HORIZONTAL, SUMS, TREES, VERTICAL, Federation, FederationName
from tune_vfl.spec.listed import Listed
from tune_vfl.spec.study import (
    SCHEMA,
    SEARCHABLE,
    Budget,
    DefenseSpec,
    ModelSpec,
    Named,
    Resources,
    SamplerSpec,
    StudySpec,
    Training,
    json_schema,
    parse,
    validated,
)
from tune_vfl.spec.study_name import StudyName

__all__ = [
    "ALL_MODES",
    "BOTH",
    "HORIZONTAL",
    "MEASURE",
    "SCHEMA",
    "SEARCHABLE",
    "SUMS",
    "TREES",
    "VERTICAL",
    "Budget",
    "Cell",
    "DefenseSpec",
    "Federation",
    "FederationName",
    "Listed",
    "Mode",
    "ModelSpec",
    "Named",
    "References",
    "Resources",
    "RowsUsed",
    "SamplerSpec",
    "Strict",
    "StudyName",
    "StudySpec",
    "Training",
    "explain",
    "json_schema",
    "parse",
    "validated",
]
