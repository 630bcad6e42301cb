"""Three public tables as real exports are: each slip is named or mended, one after the other, and a study runs."""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest
import yaml

from tests.conftest import Run

Dataset = dict[str, Any]


class Step(NamedTuple):
    """What `data check` must say of the dataset so far, and what a person then sets."""

    said: tuple[str, ...]
    sets: Dataset


def clinic(folder: Path) -> tuple[Dataset, list[Step]]:
    """Export of German Excel: semicolons, decimal commas, cp1252, two sheets in one file, means at the end."""
    from sklearn.datasets import load_diabetes

    frame = load_diabetes(as_frame=True, scaled=False).frame.round(2)
    frame = frame.rename(columns={"sex": "Geschlecht", "bp": "Blutdruck in mmHg (ärztlich)", "target": "Verlauf"})
    frame["Geschlecht"] = frame["Geschlecht"].map({1.0: "männlich", 2.0: "weiblich"})
    text = frame.astype(str).apply(lambda column: column.str.replace(".", ",", regex=False))
    text.loc[[3, 90, 200], "s4"] = "k. A."
    means = frame.mean(numeric_only=True).map(lambda v: f"{v:.9f}".replace(".", ","))
    header = dict(zip(frame.columns, frame.columns, strict=True))
    last = {**dict.fromkeys(frame.columns, ""), **means, "age": "Mittelwert"}
    lines = [text[:221], pd.DataFrame([header]), text[221:], pd.DataFrame([last])]
    pd.concat(lines).to_csv(folder / "export.csv", sep=";", index=False, encoding="cp1252")
    return {"name": "csv", "path": "export.csv", "label": "Verlauf"}, [
        Step(("in line 1, and so in", "say its `encoding`, such as cp1252"), {"encoding": "cp1252"}),
        Step(("the label has decimal commas: set `decimal` to",), {"decimal": ","}),
        Step(("is the label a number?", "set label: {column: "), {"label": {"column": "Verlauf", "above": 140.5}}),
        Step(
            (
                "1 of 444 rows repeat the header (first in row 222)",
                "1 of 443 rows are totals of others (first in row 444)",
                "marks of a missing value among numbers: column 's4' (3 of 442 rows: 'k. A.')",
            ),
            {"parties": {"clinic": ["age", "Geschlecht", "bmi"], "active": ["s1", "s2", "s4", "s5"]}},
        ),
    ]


def restaurant(folder: Path) -> tuple[Dataset, list[Step]]:
    """A till and an app: ids with and without zeros, half of the guests in the app, labels with stray dots."""
    import plotly.express as px

    frame = px.data.tips().reset_index(names="guest")
    frame["smoker"] = [("No.", "no")[k % 2] if v == "No" else v for k, v in enumerate(frame["smoker"])]
    frame["visited"] = [f"{k % 28 + 1}.{k % 12 + 1}.{21 + k % 3}" for k in range(len(frame))]
    frame["day"] = [day.upper() if k % 9 == 0 else day for k, day in enumerate(frame["day"])]
    frame["time"] = [("", "unknown")[k % 2] if k % 5 == 0 else v for k, v in enumerate(frame["time"])]
    app = frame[["guest", "sex", "day", "time", "size", "visited"]].sample(100, random_state=0)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("app.tsv", app.to_csv(index=False, sep="\t"))
    (folder / "app.csv").write_bytes(packed.getvalue())
    till = frame[["guest", "total_bill", "tip", "smoker"]]
    till.assign(guest=till["guest"].map("{:05}".format)).to_parquet(folder / "till.parquet", index=False)
    parties = {"app": {"path": "app.csv"}, "till": {"path": "till.parquet"}}
    steps = [
        Step(("no id of column 'guest' is in every party's file", "differ in spelling only (leading zeros"), {}),
        Step(
            (
                "app.csv (app): its 100 ids are a part of those of till.parquet (till), which has 144 more",
                "most rows of till.parquet (till) are lost, 144 of 244: app.csv (app) lacks 144 of their ids",
                "classes that differ in spelling only: 'No.' (",
                "words that are categories beside fields without a value",
                "exclude: [visited]",
                "categories: ",
            ),
            {
                "classes": {"No.": "no"},
                "exclude": ["visited"],
                "missing": ["unknown"],
                "categories": {"day": {"SUN": "Sun", "SAT": "Sat", "THUR": "Thur", "FRI": "Fri"}},
            },
        ),
    ]
    return {"name": "csv", "id": "guest", "label": "smoker", "parties": parties}, steps


def countries(folder: Path) -> tuple[Dataset, list[Step]]:
    """A statistics office's table: commas in thousands, years of two digits, NA for North America, a foreign byte."""
    import plotly.express as px

    frame = px.data.gapminder()
    frame["continent"] = frame["continent"].replace({"Americas": "NA", "Oceania": ""})
    frame["year"] = [f"{year % 100:02}" for year in frame["year"]]
    frame["pop"] = frame["pop"].map("{:,}".format)
    frame["country"] = frame["country"].replace("Cote d'Ivoire", "Cöte d'Ivoire")
    written = frame[[*frame.columns[::-1]]].to_csv(index=False, sep="|")
    (folder / "world.txt").write_bytes(written.encode("latin-1"))
    return {"name": "csv", "path": "world.txt", "label": {"column": "lifeExp", "above": 65}}, [
        Step(("set `separator` to '|'",), {"separator": "|"}),
        Step(("is not UTF-8", "say its `encoding`"), {"encoding": "latin-1"}),
        Step(
            (
                "several rows have one value of 'country'",
                "where one is a value, give it another name by `categories`: column 'continent' ('NA' in 300 rows",
                "column 'year': numbers that are read as categories for '02' in row 11, '07' in row 12",
                "numbers with texts in them are categories; write 1234.5 in: pop",
            ),
            {
                "categories": {"continent": {"NA": "North America"}},
                "numeric": ["year"],
                "exclude": ["iso_alpha", "iso_num", "pop"],
                "split": {"group": "country"},
            },
        ),
    ]


TABLES: dict[str, Callable[[Path], tuple[Dataset, list[Step]]]] = {
    "clinic": clinic,
    "restaurant": restaurant,
    "countries": countries,
}


def checked(run: Run, dataset: Dataset) -> tuple[int, str]:
    spec = {"study": "dirty", "dataset": dataset, "defense": "laplace", "attacks": ["norm"]}
    spec |= {"training": {"epochs": 2}, "budget": {"trials": 2, "seeds": 1}, "resources": {"concurrency": 1}}
    Path("study.yaml").write_text(yaml.safe_dump(spec, allow_unicode=True))
    code, out, err = run("data", "check", "study.yaml")
    return code, " ".join((out + err).split())


def mended(run: Run, folder: Path, name: str) -> None:
    """Follow what is said until nothing of it is left; leaves the mended spec in the working folder."""
    dataset, steps = TABLES[name](folder)
    for step in steps:
        _, told = checked(run, dataset)
        assert [words for words in step.said if words not in told] == [], told
        dataset |= step.sets
        if name == "restaurant" and not step.sets:
            till = pd.read_parquet("till.parquet")
            till.assign(guest=till["guest"].astype(int)).to_parquet("till.parquet", index=False)
    code, told = checked(run, dataset)
    assert code == 0, told
    assert [
        word for word in ("decimal", "spelling", "beside fields", "is it a number", "read as") if word in told
    ] == []


@pytest.mark.parametrize("name", TABLES)
def test_each_slip_is_named_and_can_be_mended(
    name: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mended(run, tmp_path, name)


@pytest.mark.slow  # a search each, which starts Ray
@pytest.mark.parametrize("name", TABLES)
def test_a_study_of_the_mended_table_runs_to_its_end(
    name: str, run: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mended(run, tmp_path, name)
    code, out, err = run("search", "study.yaml", "--json")
    assert code == 0, err
    assert '"ok":2' in out.replace(" ", "")
