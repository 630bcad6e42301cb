"""The separator of a text table: by all of its lines and its name, not by the header alone."""

from pathlib import Path

import pytest

from tune_vfl.data.reading.table import TextForm, read_table
from tune_vfl.errors import DataError

RIGHT = {
    "commas in the names of a semicolon file": ("a.csv", "price, EUR, net;b;y\n1,50;2;0\n2;3;1\n", 3),
    "commas in names and values": ("a.csv", "price, EUR;b;y\n1,50;2;0\n2,5;3;1\n", 3),
    "more commas than tabs in the header": ("a.txt", "city, land, zone\tage\ty\nRome\t3\t0\nBonn\t4\t1\n", 3),
    "a name that says tab": ("a.tsv", "city, land\tage, years\ty\nRome, IT\t3, 5\t0\nBonn, DE\t4, 6\t1\n", 3),
    "semicolons in the names of a comma file": ("a.csv", "a;b;c;d,e,y\nu,1,0\nv,2,1\n", 3),
    "quotes around commas": ("a.csv", '"a,b,c,d";"e";"y"\n"1,5";"2";"0"\n"2,5";"3";"1"\n', 3),
}


@pytest.mark.parametrize("case", RIGHT)
def test_the_lines_say_which_separator_it_is(tmp_path: Path, case: str) -> None:
    name, text, columns = RIGHT[case]
    (tmp_path / name).write_text(text)
    frame = read_table(tmp_path / name)
    assert frame.shape == (2, columns)
    assert frame["y"].tolist() == ["0", "1"]


def test_two_separators_that_serve_equally_well_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,x;y\n1,5;0\n2,5;1\n")
    with pytest.raises(DataError, match=r"',' and ';' separate all of its lines .* set `separator` to one of them"):
        read_table(path)
    assert list(read_table(path, form=TextForm(separator=";")).columns) == ["a,x", "y"]


def test_a_broken_line_does_not_speak_for_another_separator(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a;b;c, d;y\n" + "1;2;3, 4;0\n" * 30 + "1;2;3, 4\n")
    with pytest.raises(DataError, match="line 32 has 3 fields where 4 columns"):
        read_table(path)


def test_a_rarer_separator_that_fits_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a, b|c|y\n1|2|0\n2|3|1\n")
    with pytest.raises(DataError, match=r"set `separator` to '\|'"):
        read_table(path)
    assert read_table(path, form=TextForm(separator="|")).shape == (2, 3)
