"""Files whose name says another format than their first bytes, and text with a foreign byte."""

import bz2
import gzip
import io
import lzma
import zipfile
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from tests.helpers.refusals import refusal
from tune_vfl.data import load
from tune_vfl.data.base import Dataset
from tune_vfl.spec import Named

TABLE = pd.DataFrame({"a": [k / 4 for k in range(40)], "t": ["Köln", "Łódź"] * 20, "y": [k % 3 > 0 for k in range(40)]})
TEXT = TABLE.to_csv(index=False).encode()


def read(path: Path, **options: object) -> Dataset:
    return load(Named.model_validate({"name": "csv", "path": str(path), "label": "y", **options}))


def zipped(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def feather() -> bytes:
    buffer = io.BytesIO()
    TABLE.to_feather(buffer)
    return buffer.getvalue()


def stata() -> bytes:
    buffer = io.BytesIO()
    pd.DataFrame({"a": [1.0], "y": [0]}).to_stata(buffer, write_index=False, version=114)
    return buffer.getvalue()


def parquet() -> bytes:
    buffer = io.BytesIO()
    TABLE.to_parquet(buffer, index=False)
    return buffer.getvalue()


FORMS = {
    "gzip": gzip.compress(TEXT),
    "xz": lzma.compress(TEXT),
    "bzip2": bz2.compress(TEXT),
    "zip": zipped(**{"t.csv": TEXT}),
    "zip of macOS": zipped(**{"folder/": b"", "folder/t.csv": TEXT, "__MACOSX/folder/._t.csv": b"\x00\x05"}),
    "Feather": feather(),
    "Parquet": parquet(),
}


@pytest.mark.parametrize("name", ["t.csv", "t", "t.data", "t.parquet"])
@pytest.mark.parametrize("form", FORMS)
def test_a_file_is_read_by_its_first_bytes_whatever_its_name(tmp_path: Path, form: str, name: str) -> None:
    (tmp_path / "plain.csv").write_bytes(TEXT)
    (tmp_path / name).write_bytes(FORMS[form])
    assert read(tmp_path / name).fingerprint == read(tmp_path / "plain.csv").fingerprint


OTHERS = {
    "Excel": (zipped(**{"[Content_Types].xml": b"<x/>", "xl/workbook.xml": b""}), ["is an Excel workbook", "as csv"]),
    "old Excel": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99), ["an Excel workbook of the old form", "as csv"]),
    "several files": (zipped(a=TEXT, b=TEXT), ["a zip of 2 files (a, b)", "unpack it, and name the file"]),
    "Parquet packed": (gzip.compress(parquet()), ["holds a Parquet file that is packed once more; unpack it"]),
    "Stata": (b"<stata_dta><header>", ["is a Stata file", "save the table as csv in UTF-8"]),
    "old Stata": (stata(), ["is a Stata file", "save the table as csv in UTF-8"]),
    "SPSS": (b"$FL2@(#) IBM", ["is an SPSS file"]),
    "pickle": (b"\x80\x04\x95", ["a Python pickle", "never opened"]),
    "R": (gzip.compress(b"RDX3\nX\n" + bytes(99)), ["is an R file"]),
    "web page": (b"\n<!DOCTYPE html><html><body>log in", ["is a web page", "fetch the file itself"]),
    "Git LFS": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", ["git lfs pull"]),
    "cut off": (gzip.compress(TEXT)[:-20], ["corrupt or cut off"]),
    "Feather cut off": (feather()[:-20], ["corrupt or cut off"]),
}


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("form", OTHERS)
def test_a_format_that_is_not_read_is_named(tmp_path: Path, form: str, name: str) -> None:
    content, words = OTHERS[form]
    (tmp_path / name).write_bytes(content)
    with refusal(tmp_path / name, *words):
        read(tmp_path / name)


def test_a_text_whose_name_says_that_it_is_packed_can_be_renamed_as_is_said(tmp_path: Path) -> None:
    (tmp_path / "t.csv.gz").write_bytes(TEXT)
    with refusal(tmp_path / "t.csv.gz", "take .gz off its name"):
        read(tmp_path / "t.csv.gz")
    (tmp_path / "t.csv.gz").rename(tmp_path / "t.csv")
    assert len(read(tmp_path / "t.csv").y) == 40


def pack(form: str, content: bytes) -> bytes:
    return {"plain": content, "gzip": gzip.compress(content), "zip": zipped(t=content)}[form]


@pytest.mark.parametrize("form", ["plain", "gzip", "zip"])
def test_one_foreign_byte_is_named_by_its_line(tmp_path: Path, form: str) -> None:
    lines = TEXT.splitlines(keepends=True)
    lines[30] = lines[30].replace("Łódź".encode(), "Lódz".encode("cp1252")).replace("Köln".encode(), b"K\xf6ln")
    (tmp_path / "t.csv").write_bytes(pack(form, b"".join(lines)))
    with refusal(
        tmp_path / "t.csv", "line 31 holds", r"\xf", "39 other lines hold letters in UTF-8", "correct that line"
    ):
        read(tmp_path / "t.csv")
    lines[30] = TEXT.splitlines(keepends=True)[30]
    (tmp_path / "t.csv").write_bytes(pack(form, b"".join(lines)))
    assert len(read(tmp_path / "t.csv").y) == 40


def test_several_foreign_lines_are_counted(tmp_path: Path) -> None:
    lines = TEXT.splitlines(keepends=True)
    for k in range(2, 40, 4):
        lines[k] = b"1.0,K\xf6ln,True\n"
    (tmp_path / "t.csv").write_bytes(b"".join(lines))
    with refusal(tmp_path / "t.csv", "line 3 holds", "lines 7, 11, 15, 19, 23, and 4 more", "correct these lines"):
        read(tmp_path / "t.csv")


def test_a_text_without_any_letter_of_utf_8_is_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(TEXT.decode().replace("Łódź", "Lódz").encode("cp1252"))
    with refusal(tmp_path / "t.csv", "in line 2, and so in 39 more", "`encoding`, such as cp1252"):
        read(tmp_path / "t.csv")
    assert len(read(tmp_path / "t.csv", encoding="cp1252").y) == 40


@pytest.mark.parametrize("said", ["ascii", "shift_jis", "utf-16"])
def test_an_encoding_that_is_said_for_a_text_in_utf_8_is_to_be_left_out(tmp_path: Path, said: str) -> None:
    (tmp_path / "t.csv").write_bytes(TEXT)
    with refusal(tmp_path / "t.csv", "encoding"):
        read(tmp_path / "t.csv", encoding=said)


def test_the_line_is_named_for_another_encoding_too(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"a,t,y\n1,K\xf6ln,0\n2,\x81,1\n")
    with refusal(tmp_path / "t.csv", "line 3 is not cp1252 text", "correct that line, or `encoding`"):
        read(tmp_path / "t.csv", encoding="cp1252")


def test_text_in_parquet_that_is_no_utf_8_is_named_by_its_row(tmp_path: Path) -> None:
    texts = pa.array([b"Rome"] * 30 + [b"K\xf6ln"] + [b"Bonn"] * 9, pa.binary()).view(pa.string())
    pa.parquet.write_table(pa.table({"t": texts, "y": [0, 1] * 20}), tmp_path / "t.parquet")
    with refusal(tmp_path / "t.parquet", "column 't' holds b'K\\xf6ln' in row 31, which is not UTF-8"):
        read(tmp_path / "t.parquet")
