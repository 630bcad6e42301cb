"""Bad files and bad descriptions: one error each that names the file and the column, never a traceback of a library."""

import gzip
import io

import numpy as np
import pytest

from tests.helpers.refusals import refusal
from tune_vfl.data import load
from tune_vfl.errors import DataError, SpecError
from tune_vfl.spec import Named

GOOD = "a,b,c,y\n" + "".join(f"{k},{k * k},{'uv'[k % 2]},{k % 2}\n" for k in range(12))


def csv(**options):
    return {"name": "csv", "path": "data.csv", "label": "y", **options}


def rows(cells, n=12):
    """Rows of column ``a`` from ``cells`` (repeated) and a label that alternates."""
    return "a,y\n" + "".join(f"{cells[k % len(cells)]},{k % 2}\n" for k in range(n))


def labels(cells, n=12):
    return "a,y\n" + "".join(f"{k},{cells[k % len(cells)]}\n" for k in range(n))


# name: (content of data.csv, options, words that the message must hold beside the file's name)
CSV = {
    "empty file": ("", csv(), ["is empty", "expected a csv with a header and rows"]),
    "blank lines only": ("\n\n \n", csv(), ["is empty"]),
    "header only": ("a,b,y\n", csv(), ["header and no rows", "needs rows"]),
    "binary": (b"\x00\x01\x02,\x00\n", csv(), ["not a csv"]),
    "a null byte": ("a,y\nx\0,0\nx,1\n", csv(), ["null"]),
    "not utf-8": ("a,y\nk\xe4se,1\n".encode("latin-1"), csv(), ["not UTF-8", "save it as csv in UTF-8"]),
    "text without separators": ("hello\nworld\n", csv(), ["no column 'y'", "the label", "it has: hello"]),
    "label not in header": (GOOD, csv(label="yy"), ["no column 'yy'", "did you mean 'y'?", "a, b, c, y"]),
    "id not in header": (GOOD, csv(id="user"), ["no column 'user'", "the id"]),
    "listed column not in header": (
        GOOD,
        csv(parties={"passive": ["a", "zip"]}),
        ["no column 'zip'", "party 'passive'", "It has: a, b, c, y"],
    ),
    "column listed twice": (GOOD, csv(parties={"passive": ["a", "b", "a"]}), ["'passive' lists column 'a' twice"]),
    "column of two parties": (
        GOOD,
        csv(parties={"passive": ["a"], "active": ["b", "a"]}),
        ["column 'a' is given to two parties, 'passive' and 'active'"],
    ),
    "label as a feature": (
        GOOD,
        csv(parties={"passive": ["a", "y"]}),
        ["column 'y' is the label", "'passive'", "take it off the list"],
    ),
    "id as a feature": (GOOD, csv(id="a", parties={"passive": ["a"]}), ["column 'a' is the id", "'passive'"]),
    "party without columns": (GOOD, csv(parties={"shop": [], "active": ["a"]}), ["party 'shop' has no columns"]),
    "no passive party": (GOOD, csv(parties={"active": ["a"]}), ["no passive party"]),
    "label column alone": ("y\n0\n1\n0\n1\n", csv(), ["no column beside 'y'"]),
    "one column for two sides": (rows([1, 2]), csv(), ["columns", "without columns", "raise split"]),
    "more parties than columns": (GOOD, csv(split=1.0, passive_parties=4), ["of 3 leaves 3 for 4 passive parties"]),
    "constant label": (labels([1]), csv(split=1), ["label column 'y'", "constant ('1' in all 12 rows)"]),
    "missing label": (
        labels([0, 1, ""]),
        csv(split=1),
        ["missing in 4 of 12", "first in row 3", "remove these rows or fill in"],
    ),
    "NA label": (labels([0, 1, "NA"]), csv(split=1), ["label column 'y'", "missing in 4 of 12"]),
    "continuous label": (
        labels([0.5, 1, 2]),
        csv(split=1),
        ["label column 'y'", "continuous (such as 0.5)", "cut the numbers into ranges"],
    ),
    "infinite label": (labels([0, 1, "inf"]), csv(split=1), ["label column 'y'", "not finite"]),
    "an id as label": (
        labels(range(1200), 1200),
        csv(split=1),
        ["label column 'y'", "1200 different values", "more than 1000 classes"],
    ),
    "class of one row": (
        labels([0] * 11 + [7]),
        csv(split=1),
        ["label column 'y'", "class '7' has 1 row ", "add rows or remove the class"],
    ),
    "positive is no class": (GOOD, csv(positive="yes"), ["label column 'y'", "no class 'yes'", "'0' and '1'"]),
    "positive of two spellings": (
        labels(["yes", "Yes", "no", "no"]),
        csv(split=1, positive="yes"),
        ["there are 3 ('Yes', 'no', 'yes')", "differ in spelling only", 'classes: {"yes": "Yes"}'],
    ),
    "positive of three": (labels([0, 1, 2]), csv(split=1, positive=1), ["label column 'y'", "there are 3"]),
    "infinite feature": (
        rows([1, 2, "inf"]),
        csv(split=1),
        ["column 'a'", "inf", "row 3", "correct it or leave the field empty"],
    ),
    "feature beyond 32 bits": (rows([1, "1e300"]), csv(split=1), ["column 'a'", "1e+300", "row 2"]),
    "duplicate header": ("a,a,y\n1,2,0\n", csv(), ["column 'a' 2 times", "rename"]),
    "nameless column that is no row number": (
        ",a,y\nx,1,0\n",
        csv(),
        ["column 1 of the header has no name", "name it"],
    ),
    "nameless column that repeats": (",a,y\n0,1,0\n0,2,1\n", csv(), ["column 1 of the header has no name"]),
    "nameless column in the middle": ("a,,y\n1,0,0\n", csv(), ["column 2 of the header has no name", "index=False"]),
    "lines that end in a separator": (
        "a,y,\n1,0,\n2,1,\n",
        csv(),
        ["the last column", "end in a separator, remove it"],
    ),
    "a line for Excel": ("sep=,\na,y\n1,0\n", csv(), ["tells Excel the separator", "remove that line"]),
    "two nameless columns": (",,a,y\n0,0,1,0\n", csv(), ["column 2 of the header has no name"]),
    "row too short": (GOOD + "1,2\n", csv(), ["line 14 has 2 fields where 4", "'a' to 'y'", "check its separators"]),
    "row too long": (GOOD + "1,2,3,4,5\n", csv(), ["line 14 has 5 fields where 4"]),
    "every row too long": ("a,y\n" + "1,2,0\n" * 9, csv(), ["line 2 has 3 fields where 2"]),
    "quote never closed": (GOOD + '"1,2,3,0\n', csv(), ["well-formed"]),
}


def message(options, tmp_path):
    with pytest.raises(DataError) as error:
        load(Named.model_validate(options), root=tmp_path)
    return str(error.value)


@pytest.mark.parametrize("case", CSV)
def test_csv(case, tmp_path):
    content, options, words = CSV[case]
    file = tmp_path / "data.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    told = message(options, tmp_path)
    for word in [str(file), *words]:
        assert word in told


def test_the_good_file_is_good(tmp_path):
    (tmp_path / "data.csv").write_text(GOOD)
    assert len(load(Named.model_validate(csv()), root=tmp_path).y) == 12


def test_missing_file_and_folder(tmp_path):
    assert "data.csv: no such file" in message(csv(), tmp_path)
    assert "is a folder" in message(csv(path=str(tmp_path)), tmp_path)


@pytest.mark.parametrize("keep", [5, 30, -8])
def test_cut_off_gzip(tmp_path, keep):
    noise = "a,b,y\n" + "".join(f"{v},{-v},{k % 2}\n" for k, v in enumerate(np.random.default_rng(0).random(500)))
    (tmp_path / "data.csv.gz").write_bytes(gzip.compress(noise.encode())[:keep])
    told = message(csv(path="data.csv.gz"), tmp_path)
    assert str(tmp_path / "data.csv.gz") in told
    assert "corrupt or cut off" in told


def test_gz_that_is_no_gzip(tmp_path):
    (tmp_path / "data.csv.gz").write_text(GOOD)
    assert "data.csv.gz: is corrupt" in message(csv(path="data.csv.gz"), tmp_path)


# name: (a.csv, b.csv, options, words)
A = "i,p\n" + "".join(f"{k},{k}\n" for k in range(9))
B = "i,q,y\n" + "".join(f"{k},{k},{k % 2}\n" for k in range(9))
JOINED = {
    "no file has the label": (A, B, {"label": "z"}, ["a.csv", "b.csv", "label column 'z'"]),
    "two files have the label": (
        B,
        B,
        {},
        ["a.csv and", "b.csv", "both hold the label column 'y'", "remove it from all files but one"],
    ),
    "no id in one": (
        A.replace("i,p", "j,p"),
        B,
        {},
        ["a.csv", "no column 'i'", "the id", "it has: j, p", "one name in all files: rename it"],
    ),
    "an id repeats": (
        A + "3,5\n",
        B,
        {},
        ["a.csv", "column 'i' repeats 1 ids", "'3' in row 10", "an id must name one row"],
    ),
    "nothing is left": (
        "i,p\n" + "".join(f"u{k},1\n" for k in range(9)),
        B,
        {},
        ["b.csv", "no id of column 'i' is in every", "u0", "0, 1, 2"],
    ),
    "a party without columns": ("i\n" + "".join(f"{k}\n" for k in range(9)), B, {}, ["a.csv", "'one' has no columns"]),
    "listed column not there": (A, B, {"columns": ["p", "r"]}, ["a.csv", "no column 'r'", "party 'one'"]),
    "listed id": (A, B, {"columns": ["p", "i"]}, ["a.csv", "column 'i' is the id"]),
    "constant label after the join": ("i,p\n0,1\n2,1\n4,1\n", B, {}, ["b.csv", "label column 'y'", "constant"]),
}


@pytest.mark.parametrize("case", JOINED)
def test_files_by_party(case, tmp_path):
    first, second, options, words = JOINED[case]
    (tmp_path / "a.csv").write_text(first)
    (tmp_path / "b.csv").write_text(second)
    one = {"path": "a.csv"} | ({"columns": options["columns"]} if "columns" in options else {})
    spec = {
        "name": "csv",
        "id": "i",
        "label": options.get("label", "y"),
        "parties": {"one": one, "two": {"path": "b.csv"}},
    }
    told = message(spec, tmp_path)
    for word in words:
        assert word in told


def test_one_file_by_party_alone(tmp_path):
    (tmp_path / "b.csv").write_text(B)
    told = message({"name": "csv", "id": "i", "label": "y", "parties": {"two": {"path": "b.csv"}}}, tmp_path)
    assert "no passive party" in told


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"path": "data.csv"}, ["label", "is required"]),
        ({"label": "y"}, ["path is missing"]),
        (csv(parties={"passive": ["a"]}, split=0.5), ["leave out split"]),
        (csv(parties={"p": {"path": "a.csv"}, "active": ["b"]}), ["mixes files and lists"]),
        (
            csv(parties={"p": {"path": "a.csv"}, "q": {"path": "b.csv"}}, id="i"),
            ["a table (path) is for", "leave it out"],
        ),
        ({"label": "y", "parties": {"p": {"path": "a"}, "q": {"path": "b"}}}, ["id is missing"]),
        (csv(parties={"p": {"column": ["a"]}}), ["parties.p", "path", "column"]),
        (csv(max_categories=1), ["max_categories", "greater than or equal to 2"]),
    ],
)
def test_options_that_do_not_go_together(options, words, tmp_path):
    with refusal(*words, error=SpecError):
        load(Named.model_validate({"name": "csv", **options}), root=tmp_path)


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


X, Y = np.random.default_rng(0).random((12, 4, 4)), np.arange(12) % 2
CORRUPT = bytearray(npz(x=X, y=Y))
CORRUPT[400] ^= 0xFF
WITH_NAN = X.copy()
WITH_NAN[3, 0, 0] = np.nan
NPZ = {
    "no zip": (b"hello", ["not an npz"]),
    "a lone array": (b"\x93NUMPY" + bytes(90), ["not an npz"]),
    "cut off": (npz(x=X, y=Y)[:-40], ["not an npz file, or is cut off"]),
    "flipped bits": (bytes(CORRUPT), ["corrupt or cut off"]),
    "no y": (npz(x=X), ["expected arrays x and y", "it has: x"]),
    "half of the parts": (npz(x_train=X, y_train=Y), ["x_test", "it has: x_train, y_train"]),
    "a table": (npz(x=X[:, 0], y=Y), ["'x'", "(12, 4)", "(N, H, W)"]),
    "channels first": (npz(x=np.ones((12, 3, 8, 8)), y=Y), ["'x'", "8 channels", "move the channels to the end"]),
    "labels too few": (npz(x=X, y=Y[:5]), ["'y'", "(5,)", "(12,)"]),
    "no rows": (npz(x=X[:0], y=Y[:0]), ["'x'", "is empty"]),
    "object labels": (npz(x=X, y=np.array([{}] * 12, dtype=object)), ["'y'", "not objects"]),
    "text as pixels": (npz(x=np.full((12, 4, 4), "a"), y=Y), ["'x'", "expected numbers"]),
    "not finite": (npz(x=WITH_NAN, y=Y), ["not finite"]),
    "floats above one": (npz(x=X * 255, y=Y), ["pixels are", "floats from 0 to 1"]),
    "negative": (npz(x=(X * 100).astype(int) - 50, y=Y), ["whole numbers 0 to 255"]),
    "test images of another size": (
        npz(x_train=X, y_train=Y, x_test=X[:, :3], y_test=Y),
        ["'x_train' and 'x_test' differ"],
    ),
    "constant label": (npz(x=X, y=Y * 0), ["label array y", "constant"]),
    "continuous label": (npz(x=X, y=Y / 3), ["label array y", "continuous"]),
    "class without training rows": (npz(x_train=X, y_train=Y, x_test=X, y_test=Y + 1), ["class '2' has 0 rows"]),
}


@pytest.mark.parametrize("case", NPZ)
def test_npz(case, tmp_path):
    content, words = NPZ[case]
    file = tmp_path / "images.npz"
    file.write_bytes(content)
    told = message({"name": "npz", "path": "images.npz"}, tmp_path)
    for word in [str(file), *words]:
        assert word in told


def test_object_arrays_are_never_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    (tmp_path / "images.npz").write_bytes(npz(x=np.array([Trap()], dtype=object), y=Y))
    message({"name": "npz", "path": "images.npz"}, tmp_path)
    assert not (tmp_path / "sprung").exists()


def test_bank_of_another_shape(tmp_path):
    (tmp_path / "bank").mkdir()
    (tmp_path / "bank/bank-additional-full.csv.gz").write_bytes(gzip.compress(GOOD.encode()))
    told = message({"name": "bank"}, tmp_path)
    assert "bank-additional-full.csv.gz" in told
    assert "got 4" in told
